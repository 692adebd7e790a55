"""What a change of the data must do to the least norm: nothing, or a known factor."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import Problem, Selection, Tokens, solve
from tests.tolerances import DIRECTION, GAP, GAP_SPECTRUM
from tests.zoo import (
    LEAST,
    NORMS,
    ROTATIONAL,
    UNIQUE,
    agrees,
    chosen,
    known,
    orthonormal,
    sphere_tokens,
)

every = pytest.mark.parametrize("norm", NORMS)
KINDS = ("plain", "prompt", "masked", "sets")


def rebuilt(zoo, X=None, **change):
    """The zoo's selection on changed tokens; X, queries, mask and kept may be given."""
    old = zoo.tokens
    X = old.X if X is None else X
    queries = change.get("queries", old.queries)
    tokens = Tokens(X, queries=queries, mask=change.get("mask", old.mask))
    return Problem.of(tokens, Selection.of(tokens, change.get("kept", zoo.keep.kept)))


def least(problem, norm, expected, W=None):
    """The certificate of an optimal solve whose least norm, and W if unique, are as expected."""
    best = solve(problem, norm)
    assert best.status == "optimal"
    assert agrees(best, expected)
    if W is not None and norm in UNIQUE:
        assert np.abs(best.W - W).max() <= DIRECTION * LEAST
    return best


@every
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_may_be_repeated_and_reordered(norm, kind):
    zoo = known(norm, kind)
    order = np.random.default_rng(0).permutation(zoo.tokens.n)
    for index in (order, np.r_[order, order[:2], order[:1]]):
        mask = None if zoo.tokens.mask is None else zoo.tokens.mask[index]
        problem = rebuilt(
            zoo, zoo.tokens.X[index], queries=zoo.tokens.queries[index], mask=mask,
            kept=zoo.keep.kept[index],
        )  # fmt: skip
        least(problem, norm, LEAST, zoo.W)


@every
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_may_be_reordered(norm, kind):
    zoo, rng = known(norm, kind), np.random.default_rng(1)
    n, T = zoo.keep.kept.shape
    order = np.stack([rng.permutation(T) for _ in range(n)])
    rows = np.arange(n)[:, None]
    mask = None if zoo.tokens.mask is None else zoo.tokens.mask[rows, order]
    problem = rebuilt(zoo, zoo.tokens.X[rows, order], mask=mask, kept=zoo.keep.kept[rows, order])
    least(problem, norm, LEAST, zoo.W)


@pytest.mark.parametrize("norm", ROTATIONAL)
def test_rotations_rotate_the_solution(norm):
    zoo, rng = known(norm), np.random.default_rng(2)
    Q, R = orthonormal(rng, 4, 4), orthonormal(rng, 3, 3)
    problem = rebuilt(zoo, zoo.tokens.X @ Q.T, queries=zoo.tokens.queries @ R.T)
    least(problem, norm, LEAST, Q @ zoo.W @ R.T)


@pytest.mark.parametrize("norm", [name for name in NORMS if name not in (*ROTATIONAL, "l2")])
def test_entrywise_norms_see_a_rotation_but_no_permutation(norm):
    zoo, rng = known(norm), np.random.default_rng(2)
    order, sign = rng.permutation(4), rng.choice([-1.0, 1.0], 4)
    least(rebuilt(zoo, zoo.tokens.X[:, :, order] * sign), norm, LEAST)
    turned = solve(rebuilt(zoo, zoo.tokens.X @ orthonormal(rng, 4, 4).T), norm)
    assert abs(turned.upper / LEAST - 1) > DIRECTION


@every
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_tokens_or_queries_scales_the_norm(norm, scale):
    for kind in ("plain", "sets"):
        zoo = known(norm, kind)
        least(rebuilt(zoo, scale * zoo.tokens.X), norm, LEAST / scale)
        least(rebuilt(zoo, queries=scale * zoo.tokens.queries), norm, LEAST / scale)
    zoo = known(norm, "zeros")
    least(replace(zoo.problem, b=scale * zoo.problem.b), norm, LEAST * scale)
    zoo = known(norm, "levels")
    p = replace(zoo.problem, b=scale * zoo.problem.b, c=scale * zoo.problem.c)
    least(p, norm, LEAST * scale)


@every
def test_scaling_one_query_is_scaling_its_right_side(norm):
    zoo = known(norm)
    factor = np.geomspace(1e-3, 1e3, zoo.tokens.n)
    tokens = Tokens(zoo.tokens.X, queries=zoo.tokens.queries * factor[:, None])
    least(Problem.of(tokens, zoo.keep, b=factor), norm, LEAST)


@every
def test_shifting_the_tokens_of_an_input_changes_nothing(norm):
    zoo = known(norm)
    shift = np.random.default_rng(3).standard_normal((zoo.tokens.n, 1, 4))
    least(rebuilt(zoo, zoo.tokens.X + shift), norm, LEAST)


@every
def test_a_dominated_token_changes_nothing_and_a_rival_does(norm):
    zoo = known(norm)
    X, z = zoo.tokens.X, zoo.tokens.queries
    alpha = zoo.keep.indices
    kept = np.pad(zoo.keep.kept, ((0, 0), (0, 1)))
    dropped = np.stack([np.delete(x, a, axis=0) for x, a in zip(X, alpha, strict=True)])
    # further along the same way: the kept token's margin over it is implied, and more
    middle = dropped.mean(axis=1) - 0.5 * (X[np.arange(len(X)), alpha] - dropped.mean(axis=1))
    least(rebuilt(zoo, np.concatenate([X, middle[:, None]], axis=1), kept=kept), norm, LEAST)
    # a token that the solution scores half a margin below the kept one asks for more
    V = z @ zoo.W.T
    step = V / (V * V).sum(axis=1, keepdims=True) / 2
    rival = X[np.arange(len(X)), alpha] - step
    problem = rebuilt(zoo, np.concatenate([X, rival[:, None]], axis=1), kept=kept)
    best = solve(problem, norm)
    assert best.status == "optimal" and best.lower > LEAST * (1 + DIRECTION)


@every
def test_padding_with_a_dropped_key_equals_a_mask(norm):
    zoo = known(norm)
    X, alpha = zoo.tokens.X, zoo.keep.indices
    n, T, d = X.shape
    other = (alpha + 1) % T
    padded = np.concatenate([X, X[np.arange(n), other][:, None]], axis=1)
    kept = np.pad(zoo.keep.kept, ((0, 0), (0, 1)))
    one = least(rebuilt(zoo, padded, kept=kept), norm, LEAST)
    wild = np.concatenate([X, np.full((n, 1, d), 77.0)], axis=1)
    mask = np.arange(T + 1) < np.full((n, 1), T)
    two = least(rebuilt(zoo, wild, mask=mask, kept=kept), norm, LEAST, one.W)
    assert one.problem.m == two.problem.m + n


@every
def test_parts_bound_the_whole_from_below(norm):
    zoo = known(norm, more=3)
    goal = GAP_SPECTRUM if norm in ("nuclear", "spectral") else GAP
    half = zoo.problem.query % 2 == 0
    sizes = [solve(zoo.problem.part(rows), norm).lower for rows in (half, ~half)]
    assert 0 < max(sizes) <= LEAST * (1 + goal)
    # without its loose rows the problem is the same; without a carrying row it is smaller where
    # multipliers are unique
    least(zoo.problem.part(zoo.tight), norm, LEAST)
    first = np.arange(zoo.problem.m) >= zoo.problem.m // zoo.tokens.n
    fewer = solve(zoo.problem.part(first), norm)
    assert fewer.lower <= LEAST * (1 + goal)
    if norm in UNIQUE:
        assert fewer.upper < LEAST * (1 - DIRECTION)


def test_inputs_that_share_nothing_add_up():
    tokens, _ = sphere_tokens(2, 4, 5, seed=5)
    apart = Tokens(tokens.X, queries=np.eye(2))
    parts = [Tokens(tokens.X[i : i + 1], queries=np.eye(2)[i : i + 1]) for i in range(2)]
    for norm, add in (("frobenius", np.hypot), ("l1", np.add)):
        alone = [solve(chosen(part, [i]), norm).upper for i, part in enumerate(parts)]
        assert_allclose(solve(chosen(apart, [0, 1]), norm).upper, add(*alone), rtol=GAP)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [*((kind, "l2") for kind in KINDS), ("prompt", "nuclear"), ("prompt", "spectral")],
)
def test_l2_is_frobenius_and_in_the_prompt_form_so_are_singular_values(kind, norm):
    least(known("frobenius", kind).problem, norm, LEAST)
