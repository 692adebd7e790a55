"""Each rule's run has its largest margin share in its own norm."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, measures, solve, train
from attsvm.data.sphere import sphere

NORMS = ("frobenius", "max", "spectral", "nuclear", "l1")
SEEDS = 20


@pytest.fixture(scope="module")
def instances():
    """Instances with equal non-optimal scores, their heads, and certificates in every norm."""
    made = [sphere(5, 4, 5, seed=seed, equal_scores=True) for seed in range(SEEDS)]
    tokens = [Tokens(a["X"], queries=a["z"], labels=a["y"]) for a in made]
    heads = np.array([a["v"] for a in made])
    problems = [
        Problem.of(t, Selection.best(t, v)) for t, v in zip(tokens, heads, strict=True)
    ]  # fmt: skip
    return tokens, heads, {norm: [solve(p, norm).require() for p in problems] for norm in NORMS}


@pytest.mark.parametrize(
    ("model", "rule", "own"),
    [
        ("weight", "ngd", "frobenius"),
        ("weight", "sign", "max"),
        ("weight", "spectral", "spectral"),
        ("factored", "ngd", "nuclear"),
        ("factored", "spectral", "spectral"),
    ],
)
def test_the_own_norm_has_the_largest_margin_share(instances, model, rule, own):
    tokens, heads, certificates = instances
    path = train(
        tokens, model=model, rule=rule, head=heads, loss="linear", schedule="sqrt", seed=1,
        lr=1.0 if model == "weight" else 0.3, steps=6000,
    )  # fmt: skip
    W = path.matrices()[-1]
    share = {
        norm: np.median([measures.margin_share(W[b], certificates[norm][b]) for b in range(SEEDS)])
        for norm in NORMS
    }
    assert max(share, key=lambda norm: share[norm]) == own, share
    assert share[own] > 0.98, share
