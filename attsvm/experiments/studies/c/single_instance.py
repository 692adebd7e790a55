"""C: one instance, all exponents from W = 0: the same tokens, each in its own direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared.mirror_runs import ends_of, mirror_run, run_rows
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals

# The published selection.
ALPHA = (3, 2, 6, 2, 6, 2)


def measure(group: Group, lr: float, longest: int) -> Parts:
    """Each exponent's run from W = 0, by record; published: inputs whose best token is so.

    W12, W34 are entries of the iterate, ray12, ray34 those of the run's certified solution.
    """
    steps = {"1.75": 1500, "2": 2000, "3": longest}
    runs = {p: mirror_run(group, p, lr=lr, steps=steps[p], kept=40) for p in steps}
    parts = run_rows(group, runs)
    for part, run in zip(parts, runs.values(), strict=True):
        part["published"] = (group.best[0] == ALPHA).sum()
        for i, j in ((1, 2), (3, 4)):
            part[f"W{i}{j}"] = run.W[:, 0, i, j]
            part[f"ray{i}{j}"] = np.asarray(run.best[0].require().W)[i, j]
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """Every exponent selects the best tokens and ends nearest to its own solution."""
    inputs = len(ALPHA)
    yield equals("inputs whose best token is the published one", table.published.min(), inputs)
    ends = {p: rows.iloc[0] for p, rows in ends_of(table).items()}
    for p, end in ends.items():
        others = [end[f"to_{q}"] for q in ends if q != p]
        own = end[f"to_{p}"]
        yield equals(f"p = {p}: inputs that select their best token", end.right, inputs)
        yield at_most(f"p = {p}: own divergence", own, thresholds["most"])
        yield at_least(f"p = {p}: least other divergence over the own", min(others) / own, 1.0)
    yield Premises(1, "the published instance of seed 1, from W = 0")


STUDY = Study(
    id="C.single-instance",
    title="One instance: same tokens, three directions",
    kind="figure",
    source="code",
    statement="On the published single instance, started from W = 0, normalized mirror descent "
    "selects the best token of every input for p = 1.75, 2 and 3, and its direction ends nearest "
    "to the ℓp solution of its own exponent.",
    family=published_family,
    run={"lr": 0.1, "longest": 20_000},
    first=1,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"most": 0.006},
    quick={"run": {"longest": 10_000}},
    figure={
        "kind": "paths",
        "x": "W12",
        "y": "W34",
        "each": "run",
        "panels": "run",
        "ray": ["ray12", "ray34"],
        "xlabel": "W₁₂",
        "ylabel": "W₃₄",
    },
    size="as published",
    published=True,
)
