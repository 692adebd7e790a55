"""Stacks: many problems at once, the same as one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadSelection,
    BadTokens,
    ConvergenceWarning,
    Stack,
    Tokens,
    certify,
    solve,
    solve_many,
)
from attsvm._utils.plugins import load_object
from attsvm.certificate.certify import certify_stack
from tests.tolerances import EXACTLY, FORGED, GAP, ROUNDING
from tests.zoo import KINDS, NORMS, chosen, infeasible, known


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


def test_the_same_twice_and_whatever_the_company():
    stack = drawn()
    first, again = solve_many(stack), solve_many(stack)
    few = solve_many(stack.problems()[5:8])
    for a, b in [*zip(first, again, strict=True), *zip(first[5:8], few, strict=True)]:
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


def test_stalled_members_warn_once():
    problems = [known("nuclear", seed=s).problem for s in range(3)]
    with pytest.warns(ConvergenceWarning, match="3 of 3 problems") as record:
        found = solve_many(problems, "nuclear", tol=1e-16)
    assert len(record) == 1 and [best.status for best in found] == ["stalled"] * 3


def test_processes_give_the_same_as_one():
    problems = [known(norm, kind, seed=1).problem for norm in ("l3", "l1") for kind in KINDS[:3]]
    one, two = solve_many(problems, "l3"), solve_many(problems, "l3", jobs=2)
    for a, b in zip(one, two, strict=True):
        assert a.lower == b.lower and a.upper == b.upper and (a.W == b.W).all()
        assert b.status == "optimal" and b.verify().ok


TWICE = """
import numpy as np
from attsvm import Norm

class Twice(Norm):
    name = "twice"

    def value(self, W):
        return 2 * np.linalg.norm(W, axis=(-2, -1))

    def dual(self, G):
        return np.linalg.norm(G, axis=(-2, -1)) / 2

    def dual_maximizer(self, G):
        size = np.linalg.norm(G, axis=(-2, -1), keepdims=True)
        return np.asarray(G) / np.where(size > 0, 2 * size, 1.0)

    def rounding(self, shape):
        return 1e-12

twice = Twice()
"""


def test_processes_know_a_norm_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(TWICE)
    norm = load_object(f"{tmp_path / 'mine.py'}:twice", "a norm")
    problems = [known("frobenius", seed=s).problem for s in range(2)]
    one, two = solve_many(problems, norm), solve_many(problems, norm, jobs=2)
    for problem, a, b in zip(problems, one, two, strict=True):
        assert a.lower == b.lower and a.upper == b.upper and (a.W == b.W).all()
        assert b.status == "optimal" and type(b.norm) is type(norm)
        assert_allclose(b.upper, 2 * solve(problem).upper, rtol=norm.tolerance)


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
        (dict(X=X, alpha=np.zeros((3, 2), int)), "alpha has shape"),
        (dict(X=X, alpha=np.full((2, 3), 4)), "between 0 and 3"),
        (dict(X=X, alpha=np.full((2, 3), -1)), "between 0 and 3"),
        (dict(X=X, queries=np.ones((2, 4, 5)), alpha=np.zeros((2, 3), int)), "queries has shape"),
        (dict(X=X[:, :, :1], alpha=np.zeros((2, 3), int)), "every token is kept"),
        (dict(X=X * np.nan, alpha=np.zeros((2, 3), int)), "finite"),
    ):
        with pytest.raises((BadTokens, BadSelection), match=match):
            Stack(**bad)


def test_zero_rows_in_a_stack_are_exact_proofs():
    stack = drawn(B=4)
    X = np.array(stack.X)
    X[2, 0] = X[2, 0, :1]  # all tokens of one input alike
    found = solve_many(Stack(X, queries=stack.queries, alpha=stack.alpha))
    assert [best.status for best in found] == ["optimal", "optimal", "infeasible", "optimal"]
    assert found[2].proof == "exact" and found[2].lower == np.inf
    assert found[0].gap <= GAP < FORGED
