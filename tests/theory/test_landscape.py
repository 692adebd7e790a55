"""Premises of the theorems: each flag on instances where the answer is known by hand."""

import numpy as np
import pytest

from attsvm import Infeasible, Problem, Selection, Tokens, solve
from attsvm.datasets import EXAMPLES
from attsvm.theory.landscape import (
    all_tight,
    descent_along,
    equal_scores,
    initial_gradient_condition,
    label_margin_constant,
    least_descent,
)
from attsvm.theory.regularization_path.excess import Signed
from tests.zoo import example


def sphere(seed, n=6, T=8, d=10):
    tokens, v = example("sphere", n, T, d, seed=seed)
    return tokens, v, solve(Problem.of(tokens, Selection.best(tokens, v)))


def plain_loss(tokens, v, W):
    """The logistic loss in plain arithmetic."""
    logits = np.einsum("ntd,de,ne->nt", tokens.keys, W, tokens.queries)
    s = np.exp(logits - logits.max(axis=1, keepdims=True))
    s /= s.sum(axis=1, keepdims=True)
    f = (s * tokens.scores(v)).sum(axis=1)
    return np.logaddexp(0, -f).mean()


def test_all_tight():
    # Orthonormal tokens: by symmetry every margin is tight.
    tokens = Tokens([np.eye(3)])
    assert all_tight(solve(Problem.of(tokens, Selection.of(tokens, [0])))) is True
    tokens = Tokens([[[1.0, 0.0], [0.0, 0.0], [-5.0, 0.0]]])
    assert all_tight(solve(Problem.of(tokens, Selection.of(tokens, [0])))) is False


def test_equal_scores():
    assert equal_scores(*example("single-input-global"))
    assert not equal_scores(*example("single-input-local"))
    # Masked tokens do not count.
    X = np.array([[[0.0, 1.0], [1.0, 0.5], [0.0, 0.7]]])
    assert not equal_scores(Tokens(X), [0.0, 1.0])
    assert equal_scores(Tokens(X, mask=[[True, True, False]]), [0.0, 1.0])


def test_initial_gradient_condition_by_differences():
    tokens, v, best = sphere(0, 3, 4, 5)
    h = 1e-6
    for W0 in (None, 0.5 * best.W):
        base = np.zeros((5, 5)) if W0 is None else W0
        found = initial_gradient_condition(tokens, v, W0=W0)
        values = []
        for i, kept, t in best.problem.rows:
            D = np.outer(tokens.keys[i, kept] - tokens.keys[i, t], tokens.queries[i])
            slope = plain_loss(tokens, v, base + h * D) - plain_loss(tokens, v, base - h * D)
            values.append(-slope / (2 * h))
        assert found.value == pytest.approx(min(values), rel=1e-5)
        assert found.sign == np.sign(min(values))


def test_initial_gradient_condition_holds_for_one_input_of_two_tokens():
    tokens = Tokens([[[1.0, 0.0], [0.0, 0.0]]], labels=[1.0])
    found = initial_gradient_condition(tokens, [1.0, 0.0])
    # At W = 0: s = ½, −∇ = |ℓ'(½)| s(1 − s) (x_0 − x_1), with ℓ'(½) = −1/(1 + e^½).
    assert found.value == pytest.approx(0.25 / (1 + np.exp(0.5)))


def test_descent_along_by_differences_and_past_underflow():
    tokens, v, best = sphere(1, 3, 4, 5)
    W = np.random.default_rng(0).standard_normal((5, 5))
    h = 1e-5
    slope = (plain_loss(tokens, v, W + h * best.W) - plain_loss(tokens, v, W - h * best.W)) / (
        2 * h
    )
    assert descent_along(tokens, v, W, best).value == pytest.approx(-slope, rel=1e-6)
    assert descent_along(tokens, v, W, -best.W).value == pytest.approx(slope, rel=1e-6)
    far = descent_along(tokens, v, 5000 * best.W, best)
    assert far.sign == 1 and far.log == pytest.approx(-5000, abs=20) and far.value == 0.0
    assert Signed(0, -np.inf).value == 0.0


def test_where_every_margin_is_tight_no_point_is_stationary():
    """Orthonormal tokens with unequal scores: the lemma holds whatever the scores."""
    tokens = Tokens([np.eye(4)], labels=[1.0])
    v = [1.0, 0.9, -2.0, 0.3]
    best = solve(Problem.of(tokens, Selection.best(tokens, v)))
    assert all_tight(best) and not equal_scores(tokens, v)
    assert least_descent(tokens, v, best, samples=500, rounds=40)[0] > 0


def test_where_margins_are_loose_a_witness_is_found():
    tokens, v, best = sphere(0)
    assert all_tight(best) is False
    cosine, W = least_descent(tokens, v, best)
    assert cosine < 0
    # The witness is judged again: the loss does rise along the direction.
    assert descent_along(tokens, v, W, best).sign == -1
    assert plain_loss(tokens, v, W + 1e-5 * best.W) > plain_loss(tokens, v, W)
    assert np.linalg.norm(W) <= 10.0 * (1 + 1e-12)


def test_descent_needs_a_direction():
    tokens = Tokens([[[1.0], [0.0]], [[1.0], [0.0]]], labels=[1.0, 1.0])
    never = solve(Problem.of(tokens, Selection.of(tokens, [0, 1])))
    with pytest.raises(Infeasible):
        descent_along(tokens, [1.0], [[0.0]], never)


def test_label_margin_constant():
    for name, expected in (("joint-tight", 0.5), ("joint-relaxed", 0.0)):
        a = EXAMPLES[name]()
        tokens = Tokens(a["X"], labels=a["y"])
        keep = Selection.of(tokens, a["alpha"])
        found = label_margin_constant(tokens, keep, samples=20)
        # Tight: about ½ for a small share of one input. Relaxed: a third of the attention of the
        # input that is no support vector costs nothing.
        assert expected - 1e-9 <= found <= expected + 0.02


def test_label_margin_can_vanish_entirely():
    """A token opposite to the kept one: at full share nothing is left of the margin."""
    tokens = Tokens([[[1.0], [-1.0]], [[1.0], [1.0]]], labels=[1.0, 1.0])
    keep = Selection.of(tokens, [0, 0])
    # Γ = 1; at share q of the first input its mixed token is 1 − 2q: the margin falls by 2q up to
    # q = ½, then by 1; the second input's attention does not matter at all.
    tokens = Tokens(tokens.X, labels=tokens.labels, mask=[[True, True], [True, False]])
    assert label_margin_constant(tokens, keep, samples=0) == pytest.approx(1.0)
    few = label_margin_constant(tokens, keep, samples=0, shares=(0.1,))
    assert few == pytest.approx(2.0)
