"""The bench: attsvm side by side with other solvers, everyone graded by the certificate.

A work is a family of instances with what is to be reached on it; a contestant is a way to solve
it. Each pair runs in a process of its own with one thread and is measured in CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import instances
from benchmarks.contestants import CONTESTANTS
from benchmarks.large import LARGE
from benchmarks.race import compete
from benchmarks.standings import table
from benchmarks.task import Entry, Work

__all__ = ["CONTESTANTS", "WORKS", "run", "table"]


WORKS: dict[str, Work] = {
    "frobenius-small": Work(
        "random selection",
        instances.random_selection,
        (6, 8, 10),
        tiny=(3, 4, 5),
        gap=1e-9,
        entries={
            "ours": Entry(quick_seeds=5),
            "cvxpy loop": Entry(quick_seeds=3, reach=300),
            "cvxpy vectorised": Entry(quick_seeds=0),
            "scipy nnls": Entry(quick_seeds=5),
            "daqp": Entry(quick_seeds=5),
        },
    ),
    "frobenius-medium": Work(
        "random selection",
        instances.random_selection,
        (50, 20, 32),
        tiny=(20, 18, 18),
        gap=1e-9,
        entries={
            "ours": Entry(),
            "cvxpy vectorised": Entry(reach=100),
            "cvxpy loop": Entry(quick_seeds=0, reach=1000),
        },
    ),
    "frobenius-large": Work(
        "planted, margin 20 %",
        instances.planted_20,
        (1000, 64, 64),
        tiny=(20, 18, 18),
        cpu=10,
        memory=1,
        gap=1e-8,
        entries={"ours": Entry(quick_seeds=0)},
    ),
    "frobenius-huge": Work(
        "planted, margin 50 %",
        instances.planted_50,
        (10000, 128, 128),
        tiny=(20, 18, 18),
        tol=1e-3,
        cpu=60,
        memory=3,
        gap=1e-3,
        entries={"ours": Entry(quick_seeds=0)},
    ),
    "prompt": Work(
        "planted prompt",
        instances.planted_prompt,
        (100, 32, 64),
        tiny=(20, 18, 12),
        entries={
            "ours": Entry(),
            "cvxpy loop": Entry(reach=300),
            "cvxpy vectorised": Entry(quick_seeds=0),
            "scipy nnls": Entry(quick_seeds=0),
            "daqp": Entry(quick_seeds=0),
        },
    ),
    "lp-1.75": Work(
        "random selection",
        instances.random_selection,
        (50, 20, 32),
        tiny=(3, 4, 5),
        norm="l1.75",
        gap=1e-8,
        entries={
            "ours": Entry(quick_seeds=0),
            "cvxpy loop": Entry(seeds=3, quick_seeds=0, reach=200),
            "cvxpy vectorised": Entry(seeds=1, quick_seeds=0),
        },
    ),
    "lp-3": Work(
        "random selection",
        instances.random_selection,
        (50, 20, 32),
        tiny=(3, 4, 5),
        quick_size=(30, 12, 20),
        norm="l3",
        gap=1e-8,
        entries={
            "ours": Entry(),
            "cvxpy loop": Entry(seeds=3, reach=200),
            "cvxpy vectorised": Entry(seeds=1, quick_seeds=0),
        },
    ),
    "nuclear": Work(
        "random selection",
        instances.random_selection,
        (50, 20, 32),
        tiny=(3, 4, 5),
        quick_size=(30, 12, 20),
        norm="nuclear",
        gap=1e-6,
        entries={
            "ours": Entry(),
            "cvxpy loop": Entry(reach=30),
            "cvxpy vectorised": Entry(quick_seeds=0),
        },
    ),
    "nuclear-large": Work(
        "random selection",
        instances.random_selection,
        (100, 32, 64),
        tiny=(3, 4, 5),
        norm="nuclear",
        cpu=10,
        gap=1e-6,
        entries={"ours": Entry(quick_seeds=0)},
    ),
    "stack": Work(
        "1000 problems at once, CPU s per problem",
        instances.random_selection,
        (6, 8, 10),
        tiny=(3, 4, 5),
        stack=1000,
        entries={
            "ours": Entry(),
            "cvxpy loop": Entry(seeds=1, first=20, reach=1500),
            "scipy nnls": Entry(seeds=1, quick_seeds=0),
            "daqp": Entry(seeds=1, quick_seeds=0),
        },
    ),
    "choices": Work(
        "every locally optimal one of 8^6 selections of a prompt problem",
        instances.all_choices,
        (6, 8, 10),
        tiny=(3, 4, 5),
        entries={"ours": Entry()},
    ),
    "train": Work(
        "100 weights, CPU s per weight and step",
        instances.training,
        (6, 8, 10),
        tiny=(3, 4, 5),
        stack=100,
        entries={
            "ours": Entry(),
            "numpy loop": Entry(first=10, reach=10),
            "torch loop": Entry(first=3, reach=200),
            "jax loop": Entry(reach=2),
        },
    ),
    "train-one": Work(
        "one weight, CPU s per step",
        instances.training,
        (6, 8, 10),
        tiny=(3, 4, 5),
        entries={"ours": Entry(), "jax loop": Entry()},
    ),
    "train-many": Work(
        "1000 weights, CPU s per weight and step",
        instances.training,
        (6, 8, 10),
        tiny=(3, 4, 5),
        stack=1000,
        entries={
            "ours": Entry(seeds=1, quick_seeds=0),
            "jax loop": Entry(seeds=1, quick_seeds=0, reach=2),
        },
    ),
    "train-twenty": Work(
        "20 weights, CPU s per weight and step",
        partial(instances.training, steps=600),
        (20, 10, 20),
        tiny=(3, 4, 5),
        stack=20,
        entries={"ours": Entry(quick_seeds=0), "jax loop": Entry(quick_seeds=0, reach=1.5)},
    ),
    "train-ten": Work(
        "10 weights, CPU s per weight and step",
        partial(instances.training, steps=200),
        (50, 20, 32),
        tiny=(3, 4, 5),
        stack=10,
        entries={"ours": Entry(quick_seeds=0), "jax loop": Entry(quick_seeds=0, reach=1.5)},
    ),
    "train-wide": Work(
        "10 weights of many features, CPU s per weight and step",
        partial(instances.training, steps=600),
        (6, 8, 200),
        tiny=(3, 4, 5),
        stack=10,
        entries={"ours": Entry(quick_seeds=0), "jax loop": Entry(quick_seeds=0, reach=5)},
    ),
    "train-large": Work(
        "one large weight, CPU s per step",
        partial(instances.training, steps=200),
        (500, 64, 64),
        tiny=(20, 6, 8),
        entries={
            "ours": Entry(seeds=1, quick_seeds=0),
            "jax loop": Entry(seeds=1, quick_seeds=0, reach=1.2),
        },
    ),
} | LARGE


def run(
    *,
    quick: bool = False,
    only: list[str] | None = None,
    out: Path = Path("results"),
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The rows of a run, JSON-able, with machine, versions and threads beside them.

    quick: the short selection, within two minutes; only: names of works; out: the folder under
    which the run leaves its record, DATE/TIME.jsonl; progress: called with a line for each step.
    """
    return compete(WORKS, CONTESTANTS, quick=quick, only=only, out=out, progress=progress)
