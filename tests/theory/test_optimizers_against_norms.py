"""Margin shares of trained weights in every norm, each optimizer's own norm among them."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Certificate, Problem, Selection, measures, train
from attsvm.solvers.solve_many import solve_many
from tests.training.stacks import Stack, stack

NORMS = ("frobenius", "max", "spectral", "nuclear", "l1")
SEEDS = 7
# (model, optimizer) and the norm in which its margin is the largest.
OWN = {
    ("weight", "ngd"): "frobenius",
    ("weight", "sign"): "max",
    ("weight", "spectral"): "spectral",
    ("factored", "ngd"): "nuclear",
    ("factored", "spectral"): "spectral",
}
Certificates = dict[str, list[Certificate]]


def certified() -> tuple[Stack, Certificates]:
    """Instances with equal non-optimal scores, their heads, and certificates in every norm."""
    tokens, heads = stack(SEEDS, 5, 4, 5, equal_scores=True)
    problems = [Problem.of(t, Selection.best(t, v)) for t, v in zip(tokens, heads, strict=True)]
    found = {norm: [c.require() for c in solve_many(problems, norm)] for norm in NORMS}
    return (tokens, heads), found


def shares(made: Stack, found: Certificates, model: str, optimizer: str) -> dict[str, float]:
    """The median margin share in each norm after 6,000 steps η ~ t^−½ under the linear loss."""
    tokens, heads = made
    path = train(
        tokens, model=model, optimizer=optimizer, head=heads, loss="linear", schedule="sqrt",
        seed=1,
        lr=1.0 if model == "weight" else 0.3, steps=6000,
    )  # fmt: skip
    W = path.matrices()[-1]
    return {norm: float(np.median(measures.margin_share(W, found[norm]))) for norm in NORMS}


@pytest.fixture(scope="module")
def made():
    """The instances and their certificates."""
    return certified()


@pytest.mark.parametrize(("model", "optimizer"), OWN)
def test_the_own_norm_has_the_largest_margin_share(made, model, optimizer):
    share = shares(*made, model, optimizer)
    own = OWN[model, optimizer]
    assert max(share, key=lambda norm: share[norm]) == own, share
    assert share[own] > 0.98, share
