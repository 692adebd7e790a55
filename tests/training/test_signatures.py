"""Each training kernel is compiled once: one signature after runs of every model and optimizer."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own, where nothing has been compiled for other arrays.
TOKENS = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
import attsvm
from attsvm.datasets.instances import sphere_arrays
from attsvm.training.heads import Quadratic

made = [sphere_arrays(4, 5, 6, seed=s) for s in range(2)]
heads = np.array([m["v"] for m in made])
tokens = [attsvm.Tokens(m["X"], queries=m["z"], labels=m["y"]) for m in made]
prompts = [attsvm.Tokens(m["X"], labels=m["y"]) for m in made]
how = {"steps": 3, "init": "normal:1"}
for given, head in ((tokens, heads), (tokens[0], heads[0])):
    for optimizer in ("gd", "ngd", "polyak", "spectral", "sign", "muon", "signum", "adam"):
        attsvm.train(given, head=head, optimizer=optimizer, **how)
        attsvm.train(given, model="factored", head=head, optimizer=optimizer, **how)
        attsvm.train(given, model="joint-weight", optimizer=optimizer, **how)
attsvm.train(prompts, model="prompt", head=heads, decay=0.1, schedule="sqrt", **how)
attsvm.train(prompts, model="prompt", head=heads, optimizer="spectral", **how)
attsvm.train(prompts, model="joint-prompt", **how)
many = sphere_arrays(17, 5, 6, seed=2)
many = attsvm.Tokens(many["X"], queries=many["z"], labels=many["y"])
attsvm.train(many, head=heads[0], **how)
attsvm.train(tokens, head=Quadratic(heads, 0.3), optimizer="spectral", **how)
attsvm.train(tokens[0], model="joint-weight", head="relu", width=3, optimizer="sign", **how)
"""

SENTENCES = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
import attsvm
from attsvm.datasets.sentences import realizable

sentences = attsvm.Sentences.of(realizable(5, (2, 4), 8, 1))
decoder = attsvm.train(sentences, model="decoder", optimizer="gd", steps=5)
other = np.random.default_rng(0).standard_normal((5, 5))
how = {"steps": 3, "init": "normal:1"}
for optimizer in ("ngd", "spectral", "sign"):
    for head in (decoder, other):
        attsvm.train(sentences, model="next-token", head=head, optimizer=optimizer, **how)
    attsvm.train(sentences, model="next-token", readout="mass", optimizer=optimizer, **how)
    attsvm.train(sentences, model="joint-next-token", collocations=True, optimizer=optimizer, **how)
    attsvm.train(sentences, model="decoder", optimizer=optimizer, **how)
"""

COUNT = """
for kernel in gc.get_objects():
    if isinstance(kernel, Dispatcher) and kernel.py_func.__module__.startswith("attsvm."):
        name = f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
        print(name, len(kernel.overloads), bool(kernel.targetoptions.get("parallel")))
"""


@pytest.mark.parametrize(
    ("runs", "used"),
    [
        (
            TOKENS,
            "lanes._march lane_rules._march inputs._march inputs._march_factors attention._attend "
            "attention._pull attention._terms polar._resolve",
        ),
        (SENTENCES, "attention._march attention.write_attention gradient._outputs form._climb"),
    ],
    ids=["tokens", "sentences"],
)
def test_one_signature_for_each_kernel(runs, used):
    done = subprocess.run(
        [sys.executable, "-c", runs + COUNT], check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    signatures = {name: int(count) for name, count, _ in lines}
    assert not {name: count for name, count in signatures.items() if count > 1}
    for name in used.split():
        assert any(kernel.endswith(name) and count for kernel, count in signatures.items()), name
    in_training = ("attsvm.training.models.", "attsvm.training.optimizers.", "attsvm.next_token.")
    assert not [name for name, _, team in lines if team == "True" and name.startswith(in_training)]
