"""Beyond: normalized descent in plain floats leaves the direction that exact gradients keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import Group, Parts, cosine, thinned
from attsvm.experiments.studies.shared.published import EPS, plain_run, published_family
from attsvm.experiments.studies.shared.random_instances import selected_problems, uniform_starts
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import correlation

# Beside exact gradients: the published formula without its eps, and with it.
PLAIN = {"plain": 0.0, "plain with eps": EPS}


def measure(group: Group, start: int) -> Parts:
    """The same start and step size in three arithmetics: a row per instance, run and record.

    cosine: to the solution of the tokens that the run selects at its end. apart: to the exact run.
    way: the length of all steps so far. size: ‖W‖.
    """
    lr, steps = group.run["lr"], group.run["steps"]
    d = group.tokens[0].d
    first = uniform_starts(group.seeds, {"W": (d, d)}, start)
    path = train(group.tokens, head=group.heads, lr=lr, steps=steps, init=first)
    keep = thinned(path.steps)
    marks = path.steps[keep]
    weights = {"exact": path.weights["W"][keep]}
    for name, eps in PLAIN.items():
        weights[name] = plain_run(
            group.tokens, group.heads, first["W"], lr=lr, marks=marks, eps=eps
        )
    parts = []
    for name, W in weights.items():
        found = solve_many(selected_problems(group.tokens, W[-1]))
        parts += [
            {
                "seed": seed,
                "run": name,
                "step": marks,
                "way": lr * marks,
                "size": np.linalg.norm(W[:, b], axis=(1, 2)),
                "cosine": np.array([cosine(M, found[b]) for M in W[:, b]]),
                "apart": correlation(W[:, b], weights["exact"][:, b]),
                "gap": float(found[b].gap),
            }
            for b, seed in enumerate(group.seeds)
        ]
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """Exact: the certified direction. Plain: another one, or no way made beyond eps."""
    end = {name: rows for name, rows in table[table.step == table.step.max()].groupby("run")}
    length = {name: rows["size"].median() / rows.way.max() for name, rows in end.items()}
    yield at_least("exact: median cosine to the certified direction",
                   end["exact"].cosine.median(), thresholds["exact"])  # fmt: skip
    yield at_most("plain: median cosine to the certified direction",
                  end["plain"].cosine.median(), thresholds["plain"])  # fmt: skip
    yield at_least("plain: share of runs whose direction is wrong (cosine to exact < .99)",
                   (end["plain"].apart < 0.99).mean(), 0.99)  # fmt: skip
    yield at_least("exact: ‖W‖ as a share of the way made", length["exact"], 0.9)
    yield at_most("plain with eps: ‖W‖ as a share of the way made", length["plain with eps"], 0.5)
    yield at_most("largest certified gap of the exact runs", end["exact"].gap.max(), 1e-9)
    count = len(end["exact"])
    yield Premises(
        count, f"{count} published instances, one start each, three arithmetics", table.gap.max()
    )


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
    figure={
        "kind": "curves",
        "x": "step",
        "value": {"cosine": "cosine to the certified direction", "size": "‖W‖"},
        "apart": True,
        "lines": "run",
        "where": lambda table: table.step > 0,
        "band": "half",
        "log": "x",
        "xlabel": "iteration",
        "ylabel": "median, middle half",
    },
)
