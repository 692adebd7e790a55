"""Steepest descent in several norms, on the weight and on its factors, under the linear loss."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, share
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


def shares(W: Floats, found: list[Certificate]) -> Floats:
    """The certified margin share of each matrix (B,)."""
    return np.array([share(M, c) for M, c in zip(W, found, strict=True)])


def arrived(W: Floats, found: list[Certificate]) -> Floats:
    """Whether each matrix (B,) selects the tokens of its solution's problem."""
    return np.array([c.problem.margins(M).min() > 0 for M, c in zip(W, found, strict=True)])
