"""Each kernel is compiled for one kind of arguments, and nothing is compiled twice."""

import json
import os
import subprocess
import sys

from tests.utils.cold_start import CASES, HERE

# Kernels that may meet more than one kind of arguments, and why.
MORE = {
    "attsvm.solvers.frobenius.coordinate": "keys in float32 or float64, which are never copied",
}

COUNT = """
from attsvm._utils.compiled import KERNELS
import json
print(json.dumps({f"{k.py_func.__module__}.{k.py_func.__name__}": len(k.signatures)
                  for k in KERNELS}))
"""


def test_one_signature_per_kernel(tmp_path):
    # From an empty cache: a kernel that is loaded does not say what its parts were compiled for.
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(HERE)}
    program = CASES["solve, train, many, optima"] + "call()\n" + COUNT
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    counts = json.loads(done.stdout.splitlines()[-1])
    assert sum(counts.values()) > 10
    twice = {name: n for name, n in counts.items()
             if n > 1 and name.rpartition(".")[0] not in MORE}  # fmt: skip
    assert not twice
