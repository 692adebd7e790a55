"""A: the loss decides the transient, not the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import Group, Parts, cosine, selected_by
from attsvm.experiments.studies.shared.example_starts import thinned
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

HEAD = (0.0, 0.0, 1.0)


def _tokens(gain: float) -> Tokens:
    X = np.array([[[0.0, 0, 0], [1, 1, gain]], [[0, 0, 0], [1, -1, 1]]])
    return Tokens(X, keys=X * [1, 1, 0], labels=[1, 1])


def measure(group: Group, loss: str, gains: Sequence[float], shown: int = 200) -> Parts:
    """A row for each gain and record, from p = 0, the first record from `shown` on among them.

    lead: the logit margin of the first input less that of the second, 2 p₂.
    """
    path = train([_tokens(gain) for gain in gains], model="prompt", head=HEAD, loss=loss, lr=0.1,
                 steps=50_000)  # fmt: skip
    best = solve(Problem.of(_tokens(1.0), [1, 1]))
    places = np.union1d(thinned(path.steps, 300), np.argmax(path.steps >= shown))
    return [
        {
            "seed": group.seeds[0],
            "gain": gain,
            "step": path.steps[places],
            "p1": p[:, 0],
            "lead": 2.0 * p[:, 1],
            "cosine": np.array([cosine(x[:, None], best) for x in p]),
            "right": np.array([(selected_by(_tokens(1.0), x[:, None]) == 1).all() for x in p]),
            "gap": float(best.gap),
        }
        for gain, p in zip(gains, path.weights["p"][places].swapaxes(0, 1), strict=True)
    ]


def limit_lead(loss: str, gain: float) -> float:
    """The lead at which both inputs pull p₂ equally, once attention is saturated.

    The pull of an input of gain c and margin m is c |ℓ'(c)| e^−m: the leads are log c for the
    linear loss and log c (1 + e)/(1 + e^c) for the logistic one, above and below 0 for c > 1.
    """
    if loss == "linear":
        return float(np.log(gain))
    return float(np.log(gain) + np.logaddexp(0.0, 1.0) - np.logaddexp(0.0, gain))


def checks(table: Table, thresholds: Any) -> Checks:
    """All gains and losses end at (1, 0); on the way the linear loss leads the high-gain input."""
    ends = table[table.step == table.step.max()]
    for loss, rows in ends.groupby("loss", sort=False):
        yield at_least(f"{loss}: least cosine to (1, 0) at the end", rows.cosine.min(), 0.999)
        yield equals(f"{loss}: gains that select both tokens", rows.right.sum(), len(rows))
    # A gain of 1 leads nowhere. The others have made half of their way when they are shown, where
    # so many steps can make it: 2 |p₂| is at most twice their length.
    reach = thresholds["reach"]
    first = table.step[table.step >= thresholds["shown"]].min()
    for loss, side in (("linear", "high"), ("logistic", "low")):
        rows = table[(table.loss == loss) & (table.gain > 1)]
        early, late = rows[rows.step == first], rows[rows.step == table.step.max()]
        limits = np.array([limit_lead(loss, gain) for gain in late.gain])
        yield at_least(
            f"{loss}: least lead of the {side}-gain input, shown, as a share of its limit or of "
            "what the steps can reach",
            (early.lead / np.clip(limits, -reach, reach)).min(),
            0.5,
        )
        yield at_most(
            f"{loss}: largest error of the lead at the end, as a share of its limit",
            np.abs(late.lead / limits - 1).max(),
            0.01,
        )
    count = ends.gain.nunique()
    yield Premises(len(ends), f"{count} gains, two losses, from p = 0")


STUDY = Study(
    id="A.loss-transients",
    title="Two losses, one limit",
    kind="figure",
    source="code",
    statement="The linear and the logistic loss share the limit (1, 0) whatever the gain of the "
    "first input, but on the way the linear loss favours the high-gain input and the logistic loss "
    "the low-gain one: by a margin of log c and of log (1 + e^c)/(c (1 + e)) for a gain of c, "
    "which stays while the norm grows.",
    grid={"loss": ["linear", "logistic"]},
    run={"gains": [*map(float, range(1, 11)), 100.0]},
    measure=measure,
    checks=checks,
    gap=1e-9,
    # Twice the way of 200 steps of 0.1.
    thresholds={"shown": 200, "reach": 40.0},
    quick={"run": {"gains": [1.0, 3.0, 10.0]}},
    figure={
        "kind": "paths",
        "where": lambda t: t.step <= 300,
        "x": "p1",
        "y": "lead / 2",
        "each": "gain",
        "lines": "gain",
        "panels": "loss",
        "level": 0.0,
        "xlabel": "p₁",
        "ylabel": "p₂ (above 0: the high-gain input leads)",
    },
    theorem="notebook",
    size="as published, run on from 1,000 steps to 50,000",
    published=True,
)
