"""Steepest descent in several norms, on the weight and on its factors, under the linear loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.group import Group, gaps_of, share
from attsvm.training.path import Path

NORMS = ("frobenius", "max", "spectral", "nuclear", "l1")
# Step sizes of the weight and of the factors, both falling like t^−½.
RATES = {"weight": 1.0, "factored": 0.3}
# The deviation of the first entries of the factors.
_DEVIATION = 0.1


def steepest(
    group: Group, model: str, optimizer: str, *, start: int, decay: float = 0.0, width: int = 0
) -> Path:
    """The run of a group: the weight from zero, factors (of `width` columns, d for 0) from N(0,
    0.1²), each instance's from its own stream of the seed `start`."""
    init: str | dict[str, Floats] = "zero"
    if model == "factored":
        tokens = group.tokens[0]
        d, dq = tokens.d, tokens.queries.shape[1]
        m = width or min(d, dq)
        streams = [np.random.default_rng([start, seed]) for seed in group.seeds]
        init = {
            name: _DEVIATION * np.stack([s.standard_normal((size, m)) for s in streams])
            for name, size in (("K", d), ("Q", dq))
        }
    return train(
        group.tokens, model=model, optimizer=optimizer, head=group.heads, loss="linear",
        lr=RATES[model], schedule="sqrt", decay=decay, steps=group.run["steps"], init=init,
        width=width or None,
    )  # fmt: skip


def certified_shares(group: Group, W: Floats, norms: Sequence[str]) -> dict[str, Any]:
    """Columns share_NORM, the certified share of the best margin of each W (B, d, dq), whether it
    selects the best tokens (arrived), and the largest gap."""
    found = {norm: group.solved(group.best, norm) for norm in norms}
    out: dict[str, Any] = {
        f"share_{norm}": np.array([share(M, c) for M, c in zip(W, solved, strict=True)])
        for norm, solved in found.items()
    }
    some = found[norms[0]]
    out["arrived"] = np.array(
        [c.problem.margins(M).min() > 0 for M, c in zip(W, some, strict=True)]
    )
    out["gap"] = np.max([gaps_of(solved) for solved in found.values()], axis=0)
    return out
