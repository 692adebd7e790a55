"""A W of one's own is certified: its own upper bound, the best lower bound."""

import numpy as np
import pytest

import attsvm
from attsvm import BadTokens, Problem, Tokens
from attsvm.norms import NORMS
from tests.zoo import sizes, sphere_tokens

TOKENS, HEAD = sphere_tokens(4, 5, 6, seed=0)
ALPHA = attsvm.Selection.best(TOKENS, HEAD).indices
PROBLEM = Problem.of(TOKENS, ALPHA)


def scaled_value(W, norm):
    """‖W‖ over its worst margin, by the definition."""
    margins = [
        (TOKENS.X[i, a] - TOKENS.X[i, t]) @ W @ TOKENS.queries[i]
        for i, a in enumerate(ALPHA)
        for t in range(TOKENS.T)
        if t != a
    ]
    return (np.linalg.norm(W) if norm == "frobenius" else sizes(norm, W)[0]) / min(margins)


@pytest.mark.parametrize("norm", [*(name for name in NORMS if name != "lP"), "l3"])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e6, 1e60])
def test_upper_is_of_w_and_lower_is_the_best(norm, size):
    best = attsvm.solve(PROBLEM, norm)
    noise = np.random.default_rng(0).standard_normal(best.W.shape)
    W = best.W + 0.02 * np.abs(best.W).max() * noise
    found = attsvm.certify(PROBLEM, norm, size * W)
    wanted = scaled_value(W, norm)
    assert found.upper == pytest.approx(wanted, rel=1e-9) and found.upper >= wanted * (1 - 1e-12)
    assert found.lower == pytest.approx(best.lower, rel=2e-6) and found.lower <= best.upper
    assert found.status == "stalled" and found.gap > 1e-4
    assert found.verify().ok and attsvm.certify(PROBLEM, norm, best.W).status == "optimal"


def test_a_w_that_selects_others_has_no_upper_bound():
    best = attsvm.solve(PROBLEM)
    for W in (-best.W, np.zeros(best.W.shape)):
        found = attsvm.certify(PROBLEM, "frobenius", W)
        assert found.W is None and found.upper == np.inf and found.status == "stalled"
        assert found.lower == pytest.approx(best.lower, rel=1e-9)


def test_a_soft_margin_has_both_bounds():
    tokens = Tokens([[[0.0], [1.0], [-1.0]]])
    problem = Problem.of(tokens, [0])
    found = attsvm.certify(problem, "frobenius", [0.25], budget=4.0)
    # ½ W² + 4 (max(0, 1 + W) + max(0, 1 − W)) is 8 at least, at W = 0, and 8.03125 here.
    assert found.lower == pytest.approx(8.0) and 8.0 <= found.upper <= 8.03125 * (1 + 1e-12)


def test_what_cannot_be_certified_is_named():
    for W, said in (
        (np.zeros((5, 6)), r"W has shape \(5, 6\); it must be \(6, 6\)"),
        (np.full((6, 6), np.nan), r"W\[0, 0\] is nan"),
        (None, "W has type object"),
    ):
        with pytest.raises(BadTokens, match=said):
            attsvm.certify(PROBLEM, "frobenius", W)
    with pytest.raises(BadTokens, match="multipliers of ties"):
        attsvm.certify(PROBLEM, "frobenius", np.zeros((6, 6)), None, [1.0])
    with pytest.raises(BadTokens, match="problem must be a Problem, this is"):
        attsvm.certify(TOKENS, "frobenius", np.zeros((6, 6)))
