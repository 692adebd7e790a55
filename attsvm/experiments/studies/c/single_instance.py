"""C: one instance, all exponents from W = 0: the same tokens, each in its own direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.mirror_runs import (
    ends_of,
    mirror_run,
    run_rows,
    tokens_text,
)
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Found, Premises, Study, at_least, at_most, equals, info

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Steps of each exponent; those of p = 3 are a parameter.
STEPS = {"1.75": 1500, "2": 2000}
# The entries of W that are drawn.
ENTRIES = ((1, 2), (3, 4))


def measure(group: Group, lr: float, longest: int) -> dict[str, Any]:
    """Each exponent's run from W = 0, by record; best: the best tokens.

    W12, W34 are entries of the iterate, ray12, ray34 those of the run's certified solution.
    """
    steps = {**STEPS, "3": longest}
    runs = {p: mirror_run(group, p, lr=lr, steps=steps[p], kept=40) for p in steps}
    columns = run_rows(group, runs)
    columns["best"] = np.full(len(columns["seed"]), tokens_text(group.best[0]))
    for i, j in ENTRIES:
        columns[f"W{i}{j}"] = np.concatenate([run.W[:, 0, i, j] for run in runs.values()])
        rays = [np.asarray(run.best[0].require().W)[i, j] for run in runs.values()]
        columns[f"ray{i}{j}"] = np.repeat(rays, [len(run.steps) for run in runs.values()])
    return columns


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Every exponent selects the best tokens and ends nearest to its own solution."""
    best = np.array(table.best.iloc[0].split(), dtype=int)
    published = int((best == np.array(thresholds["alpha"])).sum())
    yield equals("inputs whose best token is the published one", published, len(best))
    ends = {p: rows.iloc[0] for p, rows in ends_of(table).items()}
    for p, end in ends.items():
        others = {q: end[f"to_{q}"] for q in ends if q != p}
        own = end[f"to_{p}"]
        yield equals(f"p = {p}: inputs that select their best token", end.right, len(best))
        yield at_most(f"p = {p}: own divergence", own, thresholds["most"])
        yield at_least(f"p = {p}: least other divergence over the own",
                       min(others.values()) / own, 1.0)  # fmt: skip
        for q, away in others.items():
            yield info(f"p = {p}: divergence to ℓ{q}", away)
    gap = table.gap.max(skipna=False)
    yield at_most("largest certified gap", gap, 1e-6)
    yield Premises(1, "the published instance of seed 1, from W = 0", gap)


def figure(table: DataFrame, study: Study) -> Figure:
    """Two entries of W along the runs, and the divergences over the iterations."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, (left, right) = panels(2)
    for colour, (p, rows) in zip(CYCLE, table.groupby("run", sort=False), strict=False):
        far = float(np.hypot(rows.W12.iloc[-1], rows.W34.iloc[-1]))
        ray = rows[["ray12", "ray34"]].iloc[0] / np.hypot(rows.ray12.iloc[0], rows.ray34.iloc[0])
        left.plot(rows.W12 / far, rows.W34 / far, ".-", color=colour, markersize=3,
                  label=f"p = {p}")  # fmt: skip
        left.plot([0, ray.ray12], [0, ray.ray34], "--", color=colour, linewidth=1,
                  label=f"certified ℓ{p} direction")  # fmt: skip
        later = rows[rows.step > 0]
        others = [f"to_{q}" for q in (*STEPS, "3") if q != p]
        right.loglog(later.step, later[f"to_{p}"], color=colour, label=f"p = {p} to ℓ{p}")
        right.loglog(later.step, later[others].min(axis=1), ":", color=colour,
                     label=f"p = {p} to the nearest other")  # fmt: skip
    left.set(xlabel="W₁₂ (a share of the final length)", ylabel="W₃₄", title="Two entries of W")
    right.set(xlabel="iteration", ylabel="directional divergence",
              title="Distance to the solutions")  # fmt: skip
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=7.5)
    return drawn


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
    thresholds={"alpha": [3, 2, 6, 2, 6, 2], "most": 0.006},
    quick={"run": {"longest": 10_000}},
    figure=figure,
    reference="julistiono2024mirror",
    size="as published",
    published=True,
)
