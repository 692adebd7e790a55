"""Problem and Stack: rows against a plain loop, small shapes, stacks, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadSelection,
    BadTokens,
    ConvergenceWarning,
    Problem,
    Selection,
    Stack,
    Tokens,
    TooLarge,
    certify,
    solve,
    solve_many,
)
from attsvm._utils.objects import load_object
from attsvm.certificate.certificate import certify_stack
from tests.conventions.tree import ROOT
from tests.tolerances import EXACTLY, ROUNDING
from tests.zoo import KINDS, NORMS, chosen, infeasible, known

_DRAW = np.random.default_rng(5)
X = _DRAW.standard_normal((3, 4, 5))
KEYS = _DRAW.standard_normal((3, 4, 6))
Z = _DRAW.standard_normal((3, 2))
W = _DRAW.standard_normal((6, 2))
MASK = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 1]], bool)
TOKENS = Tokens(X, keys=KEYS, queries=Z, labels=[1, -1, 1], mask=MASK)
SETS = Selection.of(TOKENS, [[0], [1, 2], [3, 1]])
SINGLE = Selection.of(TOKENS, [0, 1, 3])


def logits() -> np.ndarray:
    """k_itᵀ W z_i (n, T), by a plain loop."""
    return np.array([[KEYS[i, t] @ W @ Z[i] for t in range(4)] for i in range(3)])


def test_margins_are_kept_minus_dropped():
    problem, logit = Problem.of(TOKENS, SINGLE), logits()
    rows = [(i, a, t) for i, a in enumerate((0, 1, 3)) for t in range(4) if t != a and MASK[i, t]]
    assert sorted(map(tuple, problem.rows.tolist())) == sorted(rows)
    expected = [logit[i, a] - logit[i, t] for i, a, t in problem.rows]
    assert problem.margins(W) == pytest.approx(expected, rel=ROUNDING)
    assert (problem.m, problem.ties, problem.shape) == (7, 0, (6, 2))
    assert problem.scalable


def test_kept_sets_tie():
    problem, logit = Problem.of(TOKENS, SETS), logits()
    assert problem.tie_rows.tolist() == [[1, 1, 2], [2, 1, 3]]
    expected = [logit[i, s] - logit[i, t] for i, s, t in problem.tie_rows]
    assert problem.tie_values(W) == pytest.approx(expected)
    assert [problem.c.tolist(), problem.scalable] == [[0.0, 0.0], False]
    kept = {(i, s) for i, s, _ in problem.rows.tolist()}
    assert kept == {(0, 0), (1, 1), (2, 1)}


def test_the_adjoint_is_the_adjoint():
    """Σ λ_k margin_k(W) + Σ μ_l tie_l(W) = ⟨A*(λ, μ), W⟩, with few and with all multipliers."""
    problem = Problem.of(TOKENS, SETS)
    mu = _DRAW.standard_normal(problem.ties)
    for lam in (_DRAW.random(problem.m), np.eye(problem.m)[2], np.zeros(problem.m)):
        inner = float((problem.adjoint(lam, mu) * W).sum())
        assert inner == pytest.approx(lam @ problem.margins(W) + mu @ problem.tie_values(W))


def test_right_hand_sides_follow_their_tokens():
    b = np.arange(12.0).reshape(3, 4)
    problem = Problem.of(TOKENS, SINGLE, b=b)
    assert problem.b.tolist() == [b[i, t] for i, _, t in problem.rows]
    by_input = Problem.of(TOKENS, SINGLE, b=[0, 2, 5])
    assert by_input.b.tolist() == [[0, 2, 5][i] for i, _, _ in by_input.rows]
    assert not by_input.scalable


@pytest.mark.parametrize(
    ("b", "word"),
    [
        (1.0, r"b has shape \(\)"), ([1.0], r"b has shape \(1,\)"), ("b", "b has type"),
        (np.ones((4, 3)), r"b has shape \(4, 3\)"), ([1, -1, 1], r"b\[1, 0\] is -1"),
        ([1, np.nan, 1], r"b\[1\] is nan"), ([1, 1, np.inf], r"b\[2\] is inf"),
    ],
)  # fmt: skip
def test_bad_right_hand_sides(b, word):
    with pytest.raises(BadTokens, match=word):
        Problem.of(TOKENS, SINGLE, b=b)


def test_finite_part():
    """The ties ask for the log-ratios of attention, so the logits reproduce it."""
    attention = _DRAW.dirichlet(np.ones(4), size=3)
    attention[~SETS.kept] = np.nan  # of dropped tokens nothing is read
    problem = Problem.finite(TOKENS, SETS, attention)
    best = solve(problem).require()
    assert problem.m == 0
    ratios = np.log([attention[i, s] / attention[i, t] for i, s, t in problem.tie_rows])
    assert problem.tie_values(best.W) == pytest.approx(ratios)


@pytest.mark.parametrize(
    "attention",
    [0.5, np.ones((4, 3)), np.zeros((3, 4)), -np.ones((3, 4)), np.full((3, 4), np.inf), "s",
     np.ones((3, 4)) * 1j, [[1.0], [1.0, 2.0], []], None],
)  # fmt: skip
def test_bad_attention(attention):
    with pytest.raises(BadTokens, match="attention"):
        Problem.finite(TOKENS, SETS, attention)
    with pytest.raises(BadSelection, match="no equality"):
        Problem.finite(TOKENS, SINGLE, np.ones((3, 4)))


def test_labels_problem():
    problem = Problem.of_labels(TOKENS, SINGLE)
    v = np.arange(5.0)
    expected = [y * X[i, a] @ v for i, (a, y) in enumerate(zip((0, 1, 3), (1, -1, 1), strict=True))]
    assert problem.margins(v) == pytest.approx(expected)
    assert problem.rows.tolist() == [[0, 0, -1], [1, 1, -1], [2, 3, -1]]
    with pytest.raises(BadTokens, match="labels are missing"):
        Problem.of_labels(Tokens(X), Selection.of(Tokens(X), [0, 1, 3]))
    with pytest.raises(BadSelection, match="keeps several"):
        Problem.of_labels(TOKENS, SETS)


@pytest.mark.parametrize(
    "arrays",
    [
        {"X": [[[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]]},  # two equal tokens
        {"X": [[[1.0, 2.0], [3.0, 1.0], [0.0, 0.0]]], "queries": [[0.0, 0.0]]},  # no query
        {"X": np.zeros((1, 3, 2))},
        {"X": [[[1.0, 2.0], [0.0, 1.0], [2.0, 3.0]]], "keys": np.zeros((1, 3, 1))},
    ],
)
def test_zero_rows_are_proofs(arrays):
    tokens = Tokens(**arrays)
    found = solve(Problem.of(tokens, Selection.of(tokens, [0])))
    assert (found.status, found.proof, found.W) == ("infeasible", "exact", None)
    assert found.verify(exact=True).ok


ROWS = np.array([[1.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize(
    ("arrays", "word"),
    [
        ({"differences": 1.0}, "differences has shape"),
        ({"differences": [1.0, 2.0]}, "differences has shape"),
        ({"differences": np.zeros((0, 2))}, "no row"),
        ({"differences": [[1.0], [1.0, 2.0]]}, "differences is not a rectangular"),
        ({"differences": [[1.0, np.nan]]}, r"differences\[0, 1\] is nan"),
        ({"queries": np.ones((3, 1))}, "queries"), ({"queries": np.ones(2)}, "queries has shape"),
        ({"b": [1, -1]}, r"b\[1, 0\] is -1"), ({"b": [1, 2, 3]}, "b has shape"),
        ({"ties": [[1.0]]}, "ties has width 1"), ({"ties": [["a", "b"]]}, "ties has type"),
        ({"ties": [[1.0, 0.0]], "tie_queries": np.ones((2, 1))}, "tie_queries"),
        ({"ties": [[1.0, 0.0]], "c": [1, 2]}, "c has shape"),
        ({"ties": [[1.0, 0.0]], "c": [np.nan]}, r"c\[0\] is nan"),
    ],
)  # fmt: skip
def test_bad_rows(arrays, word):
    with pytest.raises(BadTokens, match=word):
        Problem.from_rows(**{"differences": ROWS, **arrays})


@pytest.mark.parametrize("kind", [float, int, np.float32])
def test_a_broadcast_array_too_large_to_write_out_is_refused_at_once(kind):
    huge = np.broadcast_to(kind(1), (10**6, 10**6))
    with pytest.raises(TooLarge, match="differences would need about"):
        Problem.from_rows(huge)
    with pytest.raises(TooLarge, match="X would need about"):
        Tokens(huge[:, None])


def same_answers(first, second):
    """Both lists hold the same bounds, matrices and multipliers, bit by bit."""
    for a, b in zip(first, second, strict=True):
        assert a.lower == b.lower and a.upper == b.upper
        assert (a.W == b.W).all() and (a.multipliers == b.multipliers).all()


@pytest.mark.parametrize("norm", ["frobenius", "nuclear", "l1.75", "max"])
def test_a_list_of_mixed_sizes_keeps_its_order(norm):
    zoo = [known(norm, kind, seed=seed) for seed in range(2) for kind in KINDS]
    problems = [z.problem for z in zoo] + list(infeasible().values())
    order = np.random.default_rng(0).permutation(len(problems))
    found = solve_many([problems[k] for k in order], norm)
    for k, best in zip(order, found, strict=True):
        assert best.problem is problems[k]
        if k < len(zoo):
            assert best.status == "optimal"
            assert best.lower <= zoo[k].least * (1 + ROUNDING)
            assert best.upper >= zoo[k].least * (1 - ROUNDING)
        else:
            assert best.status == "infeasible" and best.proof
    assert solve_many([], norm) == []


def test_processes_know_a_norm_from_a_file():
    norm = load_object(f"{ROOT / 'examples/outside.py'}:ROWS", "a norm")
    problems = [known("frobenius", kind).problem for kind in KINDS[:3]]
    two = solve_many(problems, norm, jobs=2)
    same_answers(solve_many(problems, norm), two)
    assert all(best.status == "optimal" and type(best.norm) is type(norm) for best in two)


@pytest.mark.parametrize("norm", NORMS)
def test_certifying_a_stack_equals_certifying_each(norm):
    zoo = [known(norm, seed=s) for s in range(4)]
    W = np.stack([z.W for z in zoo])
    lam = np.stack([z.multipliers for z in zoo])
    lam[0, 0], W[1], W[2], lam[3] = -1.0, -W[1], np.nan, 0.0
    problems = [z.problem for z in zoo]
    for k, many in enumerate(certify_stack(problems, norm, W, lam)):
        alone = certify(problems[k], norm, W[k], lam[k])
        assert many.status == alone.status and many.tolerance == alone.tolerance
        assert_allclose(many.lower, alone.lower, rtol=ROUNDING)
        assert_allclose(many.upper, alone.upper, rtol=ROUNDING)
        assert_allclose(many.multipliers, alone.multipliers, rtol=ROUNDING)
        assert (many.W is None) == (alone.W is None)
        assert many.lower <= zoo[k].least * (1 + ROUNDING)
        assert many.upper >= zoo[k].least * (1 - ROUNDING)


def test_bad_stacks_are_refused():
    X = np.zeros((2, 3, 4, 5))
    for bad, match in (
        (dict(X=X[0], alpha=np.zeros((2, 3), int)), r"\(B, n, T, d\)"),
        (dict(X=X, alpha=np.zeros((2, 3))), "whole"),
        (dict(X=X, alpha=np.full((2, 3), 4)), "between 0 and 3"),
        (dict(X=X, queries=np.ones((2, 4, 5)), alpha=np.zeros((2, 3), int)), "queries has shape"),
        (dict(X=X[:, :, :1], alpha=np.zeros((2, 3), int)), "every token is kept"),
        (dict(X=X * np.nan, alpha=np.zeros((2, 3), int)), "finite"),
    ):
        with pytest.raises((BadTokens, BadSelection), match=match):
            Stack(**bad)


def test_stalled_members_warn_once():
    problems = [known("nuclear", seed=s).problem for s in range(3)]
    with pytest.warns(ConvergenceWarning, match="3 of 3 problems") as record:
        found = solve_many(problems, "nuclear", tol=1e-16)
    assert len(record) == 1 and [best.status for best in found] == ["stalled"] * 3


def drawn(B=20, n=3, T=4, d=5, *, seed=0, queries=True):
    """A stack of unit-sphere tokens, some of them infeasible when d is small."""
    rng = np.random.default_rng(seed)
    X, z = rng.standard_normal((B, n, T, d)), rng.standard_normal((B, n, d))
    return Stack(X, queries=z if queries else None, alpha=rng.integers(T, size=(B, n)))


def alike(many, alone):
    """Whether two certificates make the same claims up to rounding."""
    assert many.status == alone.status
    if alone.status == "optimal":
        assert_allclose([many.lower, many.upper], [alone.lower, alone.upper], rtol=EXACTLY)
        assert_allclose(many.W, alone.W, rtol=0, atol=EXACTLY * np.abs(alone.W).max())
    else:
        assert many.W is None and many.upper == alone.upper == np.inf and many.proof


@pytest.mark.parametrize("queries", [True, False])
@pytest.mark.parametrize("d", [2, 5])
def test_a_stack_equals_its_problems(queries, d):
    stack = drawn(d=d, queries=queries)
    many = solve_many(stack)
    assert len(many) == len(stack) == 20
    for k, best in enumerate(many):
        tokens = Tokens(stack.X[k], queries=stack.queries[k] if queries else None)
        alone = solve(chosen(tokens, stack.alpha[k]))
        alike(best, alone)
        assert (best.problem.rows == alone.problem.rows).all()
        assert best.verify().ok
        assert (best.tight.tight == alone.tight.tight).all()
    if d == 2 and not queries:
        assert {best.status for best in many} == {"optimal", "infeasible"}
