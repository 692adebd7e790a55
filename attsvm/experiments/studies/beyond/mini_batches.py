"""Beyond: normalized descent along small batches leaves the max-margin direction."""

from __future__ import annotations

from typing import Any

from attsvm.experiments.measures import SCALES
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, mostly


def checks(table: Table, thresholds: Any) -> Checks:
    """Correlations rise with the batch; those of steps scaled by the full gradient hardly move."""
    seen = table.pivot(index="seed", columns=["scale", "batch"], values="correlation")
    middle = seen.median()
    one, every = table.batch.min(), table.batch.max()
    yield mostly(f"own scale: batches of {one} are further away than all inputs",
                 seen["own", one] < seen["own", every])  # fmt: skip
    yield mostly(f"batches of {one}: own scale is further away than that of the full gradient",
                 seen["own", one] < seen["full", one])  # fmt: skip
    own, full = middle["own"].sort_index(), middle["full"]
    yield at_least("own scale: least rise of the median with the batch", own.diff().min(), 0.0)
    yield at_least(f"own scale: loss of the median from all inputs to {one}",
                   own[every] - own[one], thresholds["lost"])  # fmt: skip
    yield at_most(f"full scale: the same, {one} instead of all", full[every] - full[one],
                  thresholds["kept"])  # fmt: skip
    yield Premises(len(seen), f"{len(seen)} instances with equal non-optimal scores")


STUDY = Study(
    id="beyond.mini-batches",
    title="Normalizing the gradients of small batches leaves the max-margin direction",
    kind="question",
    source="measured",
    statement="Normalized descent along the gradients of random batches of inputs ends the further "
    "from the max-margin direction the smaller the batch: scaled to its own length, a batch pulls "
    "on inputs alike that the full gradient would leave to their small losses. Scaled by the norm "
    "of the full gradient, batches of one input end as near to it as the full gradient.",
    family="sphere",
    grid={"scale": list(SCALES), "batch": [1, 2, 4, 8]},
    # A run of a thousand steps is the same on any processor; some are not stable later on.
    run={"n": 8, "T": 4, "d": 6, "equal_scores": True, "lr": 0.1, "steps": 1000},
    seeds=30,
    measure="batch-ends",
    checks=checks,
    gap=1e-8,
    thresholds={"lost": 0.05, "kept": 0.01},
    quick={
        "seeds": 10,
        "grid": {"batch": [1, 4, 8]},
        "run": {"steps": 600},
        "thresholds": {"kept": 0.02},
    },
    figure={
        "kind": "curves",
        "x": "batch",
        "value": "correlation",
        "lines": "scale",
        "band": "half",
        "xlabel": "inputs in a batch, of 8\n"
        "(steps scaled by the batch's own gradient, or by the full one)",
        "ylabel": "correlation with the solution (median, middle half)",
    },
)
