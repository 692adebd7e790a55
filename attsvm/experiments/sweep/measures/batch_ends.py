"""batch-ends: where normalized descent with the gradients of random batches goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group
from attsvm.experiments.sweep.measures.measure import gaps_of


def by_batches(group: Group, batch: int = 1, scale: str = "own") -> dict[str, Any]:
    """The correlation and margin share of the last W with the solution of the best tokens.

    A run takes its lr and steps from the spec, and its batches from each instance's seed.
    """
    from attsvm.experiments.studies.shared.mini_batches import batch_descent
    from attsvm.experiments.studies.shared.proof import cosine, share

    W = batch_descent(
        group.tokens, group.heads, group.seeds, batch=batch, scale=scale,
        lr=float(group.run["lr"]), steps=int(group.run["steps"]),
    )  # fmt: skip
    found = group.solved(group.best)
    return {
        "correlation": np.array([cosine(M, c) for M, c in zip(W, found, strict=True)]),
        "share": np.array([share(M, c) for M, c in zip(W, found, strict=True)]),
        "gap": gaps_of(found),
    }
