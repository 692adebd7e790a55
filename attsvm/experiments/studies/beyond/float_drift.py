"""Beyond: normalized descent in plain floats leaves the direction that exact gradients keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.attending_runs import selected_problems, uniform_starts
from attsvm.experiments.studies.shared.published import EPS, plain_run, published_family
from attsvm.experiments.study import Found, Premises, Study, at_least, at_most, info
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# The runs: exact gradients, the published formula without its eps, and with it.
PLAIN = {"plain": 0.0, "plain with eps": EPS}
RUNS = ("exact", *PLAIN)
# Records of each run in the table.
_KEPT = 40


def measure(group: Group, start: int) -> dict[str, Any]:
    """The same start and step size in three arithmetics: a row per instance, run and record.

    cosine: to the solution of the tokens that the run selects at its end. apart: to the exact run.
    way: the length of all steps so far. size: ‖W‖.
    """
    lr, steps = group.run["lr"], group.run["steps"]
    d = group.tokens[0].d
    first = uniform_starts(group.seeds, {"W": (d, d)}, start)
    path = train(group.tokens, head=group.heads, lr=lr, steps=steps, init=first)
    keep = np.unique(np.linspace(0, len(path.steps) - 1, _KEPT).round().astype(int))
    marks = path.steps[keep]
    weights = {"exact": path.weights["W"][keep]}
    for name, eps in PLAIN.items():
        weights[name] = plain_run(
            group.tokens, group.heads, first["W"], lr=lr, marks=marks, eps=eps
        )
    parts = []
    for name, W in weights.items():
        found = solve_many(selected_problems(group.tokens, W[-1]))
        cosines = [[cosine(M, c) for M in W[:, b]] for b, c in enumerate(found)]
        parts.append({
            "seed": np.repeat(group.seeds, len(keep)),
            "run": np.full(len(keep) * len(group), name),
            "step": np.tile(marks, len(group)),
            "way": np.tile(lr * marks, len(group)),
            "size": np.linalg.norm(W, axis=(2, 3)).T.ravel(),
            "cosine": np.array(cosines).ravel(),
            "apart": np.asarray(correlation(W, weights["exact"])).T.ravel(),
            "gap": np.repeat([float(c.gap) for c in found], len(keep)),
        })  # fmt: skip
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Exact: the certified direction. Plain: another one, or no way made beyond eps."""
    end = {name: rows for name, rows in table[table.step == table.step.max()].groupby("run")}
    length = {name: rows["size"].median() / rows.way.max() for name, rows in end.items()}
    wrong = table[(table.run == "plain") & (table.apart < 0.99) & (table.step > 0)]
    steps = wrong.groupby("seed").step.min().astype(float)
    first = steps.reindex(end["plain"].seed, fill_value=np.inf)
    yield at_least("exact: median cosine to the certified direction",
                   end["exact"].cosine.median(), thresholds["exact"])  # fmt: skip
    yield at_most("plain: median cosine to the certified direction",
                  end["plain"].cosine.median(), thresholds["plain"])  # fmt: skip
    yield at_least("plain: share of runs whose direction is wrong (cosine to exact < .99)",
                   (end["plain"].apart < 0.99).mean(), 0.99)  # fmt: skip
    yield at_least("exact: ‖W‖ as a share of the way made", length["exact"], 0.9)
    yield at_most("plain with eps: ‖W‖ as a share of the way made", length["plain with eps"], 0.5)
    yield info("plain: median recorded iteration by which it is wrong", first.median())
    yield info("plain with eps: median cosine", end["plain with eps"].cosine.median())
    yield info("exact: least cosine", end["exact"].cosine.min())
    yield info("plain: least cosine", end["plain"].cosine.min())
    yield at_most("largest certified gap of the exact runs", end["exact"].gap.max(), 1e-9)
    count = len(end["exact"])
    yield Premises(
        count, f"{count} published instances, one start each, three arithmetics", table.gap.max()
    )


def figure(table: DataFrame, study: Study) -> Figure:
    """Cosine to the certified direction and length of W over the iterations."""
    from attsvm.plotting.studies import CYCLE, band, panels

    drawn, (left, right) = panels(2)
    for k, name in enumerate(RUNS):
        rows = table[(table.run == name) & (table.step > 0)]
        for ax, value in ((left, "cosine"), (right, "size")):
            values = rows.pivot(index="step", columns="seed", values=value)
            band(ax, values.index, values, colour=CYCLE[k], label=name)
    left.set(xscale="log", xlabel="iteration", ylabel="cosine to the certified direction",
             title="Direction (median, middle half)")  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="iteration", ylabel="‖W‖", title="Length")
    right.legend(frameon=False)
    return drawn


STUDY = Study(
    id="beyond.float-drift",
    title="Plain floats drift away from the limit",
    kind="question",
    source="measured",
    statement="Once attention saturates, the published gradient formula in double precision "
    "cancels to rounding noise: normalized, it walks away from the max-margin direction, and with "
    "an eps in the norm it stops. With exact gradients the same run converges to it.",
    family=published_family,
    run={"lr": 0.1, "steps": 10_000, "start": 0},
    seeds=100,
    group=20,
    measure=measure,
    checks=checks,
    thresholds={"exact": 0.999, "plain": 0.9},
    quick={"seeds": 10, "run": {"lr": 1.0, "steps": 3000}},
    figure=figure,
)
