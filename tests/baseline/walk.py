"""Prints how many modules and functions of the package a solve, a run and an outcome go through.

`python -m tests.baseline.walk` also prints the deepest chain of calls of each, and how many of a
solve's frames come before the numerics of its norm.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import attsvm

ROOT = Path(attsvm.__file__).parent
# Where the numerics of a solve begin.
NUMERICS = "interior_point"


def walk(call: Callable[[], Any]) -> tuple[set[str], set[str], list[str]]:
    """The modules, the functions and the deepest chain of one call, after a first one."""
    call()
    chain: list[str] = []
    deepest: list[str] = []
    functions: set[str] = set()

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal deepest
        file = Path(frame.f_code.co_filename)
        if not file.is_relative_to(ROOT) or event not in ("call", "return"):
            return
        if event == "return":
            del chain[-1:]
            return
        chain.append(f"{file.relative_to(ROOT)}:{frame.f_code.co_name}")
        functions.add(chain[-1])
        if len(chain) > len(deepest):
            deepest = list(chain)

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name.partition(":")[0] for name in functions}, functions, deepest


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X, z, v = (rng.standard_normal(shape) for shape in ((6, 8, 10), (6, 10), 10))
    tokens = attsvm.Tokens(X, queries=z, labels=[1, -1, 1, -1, 1, -1])
    problem = attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v))
    path = attsvm.train(tokens, head=v, steps=200)
    for name, call in {
        "solve": lambda: attsvm.solve(problem, norm="nuclear"),
        "train": lambda: attsvm.train(tokens, head=v, steps=200),
        "outcome": lambda: attsvm.outcome(path, tokens, v),
    }.items():
        modules, functions, deepest = walk(call)
        print(f"{name}: {len(modules)} modules, {len(functions)} functions, depth {len(deepest)}")
        for depth, frame in enumerate(deepest):
            if frame.endswith(f":{NUMERICS}"):
                print(f"    {depth} frames before {NUMERICS}")
        print("    " + "\n    ".join(deepest))
