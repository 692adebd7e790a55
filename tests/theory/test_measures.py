"""Measures: values worked out by hand, bounds that hold the truth, and ranks."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadTokens,
    Infeasible,
    NotConverged,
    Problem,
    Selection,
    Tokens,
    Unsupported,
    certify,
    measures,
    relaxed,
    solve,
)
from attsvm.datasets import EXAMPLES
from attsvm.norms import norm_of
from attsvm.training.path import Path
from tests.tolerances import GAP, ROUNDING
from tests.zoo import NORMS, infeasible, known


@dataclass
class Recorded:
    """Stands for a run."""

    W: np.ndarray

    def matrices(self):
        return self.W


def certificate(norm="frobenius", kind="plain"):
    made = known(norm, kind)
    return made, certify(made.problem, norm, made.W, made.multipliers, made.tie_multipliers)


def random_stack(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_correlation_by_hand():
    A, B = [[1.0, 2.0], [2.0, 0.0]], [[2.0, 2.0], [1.0, 0.0]]
    assert_allclose(measures.correlation(A, B), 8 / 9, rtol=ROUNDING)
    assert measures.correlation(A, -7 * np.array(A)) == -1.0
    assert_allclose(measures.correlation([3.0, 4.0], [[1.0], [0.0]]), 0.6, rtol=ROUNDING)
    big = 1e200 * np.array(A)
    assert_allclose(measures.correlation(big, 1e-200 * np.array(B)), 8 / 9, rtol=ROUNDING)
    assert np.isnan(measures.correlation(np.zeros((2, 2)), A))


def test_a_run_a_stack_and_a_loop_agree():
    W, target = random_stack(5, 2, 4, 3), random_stack(2, 4, 3, seed=1)
    loop = [[measures.correlation(W[r, b], target[b]) for b in range(2)] for r in range(5)]
    assert_allclose(measures.correlation(Recorded(W), target), loop, rtol=ROUNDING)
    one = measures.correlation(W, target[0])
    assert_allclose(one[:, 0], np.array(loop)[:, 0], rtol=ROUNDING)
    assert isinstance(Recorded(W), measures.Run) and issubclass(Path, measures.Run)
    assert not isinstance(W, measures.Run)


def test_certificates_are_targets():
    made, best = certificate()
    W = random_stack(3, *made.W.shape)
    assert_allclose(
        measures.correlation(W, best), measures.correlation(W, made.W), rtol=0, atol=ROUNDING
    )
    twice = np.stack([W, W], axis=1)
    both = measures.correlation(twice, [best, best])
    assert both.shape == (3, 2) and (both[:, 0] == both[:, 1]).all()
    nothing = infeasible()["opposite"]
    with pytest.raises(Infeasible):
        measures.correlation([1.0, 0.0], solve(nothing))
    with pytest.raises(NotConverged):
        measures.correlation(W, certify(made.problem, "frobenius", None, made.multipliers))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(BadTokens, match="do not fit"):
        measures.correlation(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(BadTokens, match="do not fit"):
        measures.correlation(np.ones((5, 2, 3, 3)), np.ones((3, 3, 3)))
    with pytest.raises(BadTokens, match="must be"):
        measures.correlation(1.0, np.ones((3, 2)))


def test_bregman_at_two_is_one_minus_the_cosine():
    W, target = random_stack(50, 4, 3), random_stack(4, 3, seed=1)
    cosine = measures.correlation(W, target)
    assert_allclose(measures.bregman(W, target, 2.0), 1 - cosine, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("p", [1.1, 1.75, 2.0, 3.0, 10.0])
def test_bregman_equals_its_formula(p):
    W, target = random_stack(50, 4, 3), random_stack(4, 3, seed=1)
    norm = norm_of(f"l{p}")
    A = target / norm.value(target)
    B = W / norm.value(W)[:, None, None]
    slope = np.sign(B) * np.abs(B) ** (p - 1)
    plain = 1 / p + (p - 1) / p - (slope * A).sum(axis=(1, 2))
    found = measures.bregman(W, target, p)
    assert_allclose(found, plain, rtol=0, atol=ROUNDING)
    assert (found > 0).all() and measures.bregman(3 * target, target, p) <= ROUNDING**2
    # the order of the two matters, but for p = 2
    back = np.array([measures.bregman(target, M, p) for M in W])
    assert (p == 2) == np.allclose(back, found)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_a_small_divergence_keeps_its_digits(p):
    target = random_stack(4, 3)
    A = target / norm_of(f"l{p}").value(target)
    # along a tangent of the sphere: ⟨sign(A)|A|^(p−1), D⟩ = 0
    slope = np.sign(A) * np.abs(A) ** (p - 1)
    D = random_stack(4, 3, seed=1)
    D -= A * (slope * D).sum()
    eps = 1e-7
    second = (p - 1) / 2 * (np.abs(A) ** (p - 2) * D**2).sum() * eps**2
    assert second < 1e-12
    assert_allclose(measures.bregman(A + eps * D, A, p), second, rtol=1e4 * eps)


def test_bregman_refuses_what_has_no_potential():
    for p in (1.0, np.inf, 0.5):
        with pytest.raises(Unsupported, match="1 < p < inf"):
            measures.bregman(np.ones((2, 2)), np.ones((2, 2)), p)
    assert np.isnan(measures.bregman(np.zeros((2, 2)), np.ones((2, 2)), 3.0))


@pytest.mark.parametrize("norm", NORMS)
def test_the_margin_share_is_a_bound(norm):
    made, best = certificate(norm)
    # a certificate with a poor lower bound and a poor W knows the least norm only to 10 % or so
    rough_W = made.W + 0.03 * random_stack(*made.W.shape, seed=3)
    rough = certify(made.problem, norm, rough_W, made.multipliers + 0.02)
    assert 0 < rough.lower < made.least < rough.upper < np.inf
    W = made.W + 0.1 * random_stack(40, *made.W.shape)
    value = norm_of(norm).value(W)
    truth = np.array([made.problem.margins(M).min() for M in W]) / value * made.least
    truth = np.maximum(truth, 0.0)
    assert (truth > 0).any()
    for found in (best, rough):
        low = measures.margin_share(W, found)
        assert (low <= truth).all() and ((low > 0) == (truth > 0)).all()
    assert (truth - measures.margin_share(W, best) <= GAP).all()
    assert (truth - measures.margin_share(W, rough))[truth > 0.1].min() > GAP
    assert measures.margin_share(5 * made.W, best) > 1 - GAP


def test_margin_share_by_hand():
    tokens = Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    best = solve(Problem.of(tokens, Selection.of(tokens, [0])))
    stack = np.array([[[3.0], [4.0]], [[-3.0], [4.0]], [[3.0], [2.0]], [[0.0], [0.0]]])
    expected = [0.2, 0.8, 0.0, 0.0]
    assert_allclose(measures.margin_share(stack, best), expected, rtol=GAP)
    assert np.isnan(measures.margin_share([[np.nan], [1.0]], best))
    halves = Problem.of(tokens, Selection.of(tokens, [0]), b=[[1, 1, 0.5]])
    # margins (1, 4) over (1, 1/2) at norm 5; the best is (−1/2, 1/2)
    assert_allclose(measures.margin_share(stack[0], solve(halves)), np.sqrt(0.5) / 5, rtol=GAP)


def test_margin_share_with_zero_right_sides():
    a = EXAMPLES["joint-relaxed"]()
    tokens = Tokens(a["X"], labels=a["y"])
    problem = relaxed(tokens, Selection.of(tokens, a["alpha"]))
    assert (problem.b == 0).any()
    best = solve(problem)
    # p = (1, 0) has margins (1, 1, 0.5): the third is asked to be 0 only
    assert_allclose(measures.margin_share([[2.0], [0.0]], best), 1.0, rtol=GAP)
    assert_allclose(
        measures.margin_share([[1.25], [0.25]], best), 1 / np.hypot(1.25, 0.25), rtol=GAP
    )
    rows = Problem.from_rows([[1.0, 0.0], [0.0, 1.0]], b=[1.0, 0.0])
    pair = measures.margin_share([[[1.0], [1.0]], [[1.0], [-1.0]]], solve(rows))
    assert_allclose(pair, [np.sqrt(0.5), 0.0], rtol=GAP)


def test_margin_share_of_many_instances():
    found = [certificate("nuclear")[1], certify(*_other())]
    W = np.stack([found[0].W, found[1].W])
    shares = measures.margin_share(np.stack([W, W[::-1]]), found)
    assert shares.shape == (2, 2) and (shares[0] > 1 - GAP).all() and (shares[1] < 0.99).all()
    with pytest.raises(BadTokens, match="2 certificates"):
        measures.margin_share(W[0], found)


def _other():
    made = known("nuclear", seed=1)
    return made.problem, "nuclear", made.W, made.multipliers


def test_margin_share_is_refused_where_it_has_no_meaning():
    W = np.ones((2, 1))
    with pytest.raises(Infeasible):
        measures.margin_share(W, solve(infeasible()["opposite"]))
    with pytest.raises(Unsupported, match="ties"):
        measures.margin_share(W, solve(Problem.from_rows([[1.0, 0.0]], ties=[[0.0, 1.0]])))
    with pytest.raises(Unsupported, match="budget"):
        measures.margin_share(W, solve(Problem.from_rows([[1.0, 0.0]]), C=1.0))
    with pytest.raises(Unsupported, match="no margin"):
        measures.margin_share(W, solve(Problem.from_rows([[1.0, 0.0]], b=[0.0])))


def test_sparsity():
    shares = measures.sparsity([[1.0, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0], [0, 0, 0, 0]])
    assert_allclose(shares, [1, 4, 2, np.nan], rtol=ROUNDING)


def test_ranks():
    W = np.stack([np.diag([2.0, 2, 0]), np.diag([1.0, 1, 1]), np.diag([1.0, 2e-4, 5e-5])])
    assert measures.rank(W).tolist() == [2, 3, 2] and measures.rank(np.zeros((2, 2))) == 0
    assert measures.rank(W, share=1e-3).tolist() == [2, 3, 1]
    assert measures.rank(1e-6 * W).tolist() == [2, 3, 2]
