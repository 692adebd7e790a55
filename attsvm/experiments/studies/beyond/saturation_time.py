"""Beyond: attention cannot saturate before the norm that its selection needs can be reached."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.studies.shared.saturation import needed_lead
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.theory.outcome import DECIDED


def checks(table: Table, thresholds: Any) -> Checks:
    """No run saturates before its certified least time, and most do soon after."""
    places = {
        place: rows.set_index("seed") for place, rows in table.groupby(["decay", "lr"], sort=False)
    }
    yield equals("runs that saturate before the least time of their selection",
                 (table.time < table.least).sum(), 0)  # fmt: skip
    yield equals("selections without a certified norm", table.least_norm.isna().sum(), 0)
    yield at_least("selections that their decay forbids to saturate", np.isinf(table.least).sum(),
                   1)  # fmt: skip
    for (decay, lr), rows in places.items():
        yield info(f"decay {decay:g} lr {lr:g}: median time over the least", rows.ratio.median())
    ratios = [rows.ratio.median() for rows in places.values()]
    yield at_most("largest of these medians", np.nanmax(ratios), thresholds["slow"])
    free = {lr: rows for (decay, lr), rows in places.items() if decay == 0}
    ways = [lr * rows.time.median() for lr, rows in free.items()]
    yield at_least("without decay: share that saturates",
                   min(rows.saturated.mean() for rows in free.values()), 0.9)  # fmt: skip
    yield at_most("without decay: largest ratio of median way lr · time between step sizes",
                  max(ways) / min(ways), 1.25)  # fmt: skip
    strong = thresholds["slowing"]
    for lr, rows in free.items():
        later = places[strong, lr].time / rows.time
        yield at_least(f"lr {lr:g}: median time with decay {strong:g} over without",
                       later.median(), 1.1)  # fmt: skip
    yield Premises(
        len(table),
        f"{len(table)} runs of normalized descent from zero; a lead of {needed_lead():.2f} is "
        f"attention {DECIDED:g}",
    )


def _steps(way: float, lrs: list[float]) -> list[tuple[float, int]]:
    """Each step size with so many steps that their product is the same for every one."""
    return [(lr, round(way / lr)) for lr in lrs]


STUDY = Study(
    id="beyond.saturation-time",
    title="Attention saturates at the earliest when its norm can have been reached",
    kind="question",
    source="derived",
    statement="Attention s on one token of every input needs ‖W‖ ≥ log(s/(1 − s)) N, N the least "
    "norm of the selection. So steps of norm η from zero take at least log(s/(1 − s)) N/η steps to "
    "saturate, or log(1 − λN log(s/(1 − s)))/log(1 − λη) with decay λ, and never do where that is "
    "no number. Runs of normalized descent take in the median at most three times as long, and "
    "their way η · steps does not depend on η.",
    family="sphere",
    # The last decay forbids most selections to saturate; with the one before it runs are slower.
    grid={
        "decay": [0.0, 0.01, 0.03, 0.1],
        "lr steps": _steps(300.0, [0.03, 0.1, 0.3, 1.0]),
    },
    run={"n": 6, "T": 8, "d": 10},
    seeds=30,
    measure="saturation-time",
    checks=checks,
    gap=1e-8,
    thresholds={"slowing": 0.03, "slow": 3.0},
    quick={
        "grid": {"decay": [0.0, 0.03, 0.1], "lr steps": _steps(200.0, [0.3, 1.0])},
        "seeds": 8,
    },
    figure={
        "kind": "scatter",
        "x": "least",
        "y": "time",
        "lines": "decay",
        "where": lambda table: np.isfinite(table.least),
        "log": True,
        "diagonal": True,
        "xlabel": "least number of steps, certified",
        "ylabel": "steps to saturation",
    },
)
