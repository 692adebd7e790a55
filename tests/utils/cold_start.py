"""What the first call costs: run as `python -m tests.utils.cold_start [CASE…]`.

Each case runs in processes of its own, once with an empty kernel cache (cold), once with the cache
that this left (next), and again and again inside the second process (warm). Cold and next are CPU
seconds from the start of the process to the end of the first call, imports included; warm is the
median CPU time of one more call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
# Byte code is kept here, so that no tree is written to.
BYTECODE = Path(tempfile.gettempdir()) / "attsvm-cold-bytecode"

SMALL = """
import numpy as np
import attsvm
draw = np.random.default_rng(0)
def unit(*shape):
    x = draw.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)
def instance(n=6, T=8, d=10):
    tokens = attsvm.Tokens(unit(n, T, d), queries=unit(n, d), labels=np.ones(n))
    return tokens, unit(d)
def of(tokens, v):
    return attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v))
tokens, v = instance()
"""

SOLVE = """
problem = of(tokens, v)
def solve():
    attsvm.solve(problem, "{norm}")
call = solve
"""

MANY = """
X, Z = unit(1000, 6, 8, 10), unit(1000, 6, 10)
stack = attsvm.Stack(X, queries=Z, alpha=np.zeros((1000, 6), int))
def many():
    attsvm.solve_many(stack)
call = many
"""

OPTIMA = """
few, w = instance(4, 4, 5)
def optima():
    attsvm.local_optima(few, w)
call = optima
"""

TRAIN = """
def train():
    data = attsvm.Tokens(tokens.X, labels=tokens.labels) if "prompt" in "{model}" else tokens
    head = None if "joint" in "{model}" else v
    attsvm.train(data, model="{model}", head=head, steps=200)
call = train
"""

REGPATH = """
few, w = instance(3, 4, 5)
def path():
    attsvm.regpath(few, head=w, radii=[10.0, 100.0])
call = path
"""

SENTENCES = """
said = attsvm.Sentences.of([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2, 3, 1], [2, 1, 3, 3]])
def sentences():
    attsvm.two_stages(said, steps=(200, 200))
call = sentences
"""

# The norms, the models and what else is asked of a package on its first day.
CASES = {
    **{f"solve {norm}": SMALL + SOLVE.format(norm=norm)
       for norm in ("frobenius", "nuclear", "spectral", "max", "l1", "l1.75", "l3")},
    "solve_many 1000": SMALL + MANY,
    "local_optima": SMALL + OPTIMA,
    **{f"train {model}": SMALL + TRAIN.format(model=model)
       for model in ("prompt", "weight", "factored", "joint-prompt", "joint-weight")},
    "regpath": SMALL + REGPATH,
    "sentences": SMALL + SENTENCES,
    "solve, train, many, optima": SMALL + SOLVE.format(norm="frobenius")
    + TRAIN.format(model="weight") + MANY + OPTIMA + """
def call():
    solve(), train(), many(), optima()
""",
    "import": "import attsvm\ncall = None\n",
    "--help": "",
}  # fmt: skip

# What a child process runs: one case, then its figures as one line of JSON.
PROGRAM = """
import statistics, time, warnings
warnings.simplefilter("ignore")
{case}
if call:
    call()
cold = time.process_time()
spent = []
while call and {again} and (len(spent) < 3 or (sum(spent) < 1.0 and len(spent) < 2000)):
    start = time.process_time()
    call()
    spent.append(time.process_time() - start)
import json
print(json.dumps([cold, statistics.median(spent) if spent else None]))
"""


def measured(case: str, cache: Path, again: bool) -> list[Any]:
    """[CPU seconds of the process up to its first result, of one more call]."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    env |= {
        "PYTHONPATH": str(HERE),
        "PYTHONPYCACHEPREFIX": str(BYTECODE),
        "NUMBA_CACHE_DIR": str(cache),
        "ATTSVM_QUIET": "1",
    }
    if case == "--help":
        before = os.times()
        words = [sys.executable, "-m", "attsvm", "--help"]
        subprocess.run(words, env=env, cwd=cache, check=True, capture_output=True)
        after = os.times()
        spent = after.children_user + after.children_system
        return [spent - before.children_user - before.children_system, None]
    program = PROGRAM.format(case=CASES[case], again=again)
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=cache, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{case}: {done.stderr.strip().splitlines()[-1]}")
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def shown(seconds: float | None) -> str:
    """A time in three digits, with its unit."""
    if seconds is None:
        return "–"
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def main() -> None:
    """Print the table, one case a line as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all without any")
    asked = parser.parse_args().cases
    with tempfile.TemporaryDirectory() as folder:  # byte code of the source, once
        measured("import", Path(folder), False)
        measured("--help", Path(folder), False)
    print("| case | cold | next | warm |\n|---|---|---|---|")
    for name in CASES:
        if not asked or any(part in name for part in asked):
            with tempfile.TemporaryDirectory(prefix="attsvm-cold-") as folder:
                cold, _ = measured(name, Path(folder), False)
                following, warm = measured(name, Path(folder), True)
            print(f"| {name} | {shown(cold)} | {shown(following)} | {shown(warm)} |", flush=True)


if __name__ == "__main__":
    main()
