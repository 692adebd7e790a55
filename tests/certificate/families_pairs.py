"""Pairs (W, λ) handed to `certify`: scaled out of reach, garbage, or half of them right."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from attsvm import ConvergenceWarning, Problem, solve
from tests.certificate.case import Case, Pair, whole_normal

FACTORS = (
    1e-320, 5e-324, 1e-300, 1e-200, 1e-170, 1e-160, 1e-154, 1e-140, 1e-100, 1e-30, 1.0,
    1e30, 1e100, 1e150, 1e160, 1e200, 1e300,
)  # fmt: skip


def _small(draw: Any) -> tuple[Problem, Any]:
    """A small problem of whole numbers with a W that meets it exactly; sometimes with a tie."""
    d, dq, m = int(draw.integers(1, 4)), int(draw.integers(1, 3)), int(draw.integers(1, 5))
    W = draw.integers(-3, 4, (d, dq)).astype(float)
    W[0, 0] = W[0, 0] or 1.0
    D, Z = whole_normal(draw, (m, d)), whole_normal(draw, (m, dq))
    D[:, 0], Z[:, 0] = D[:, 0] + 0.5, Z[:, 0] + 0.5  # no row is zero
    score = np.einsum("ki,ij,kj->k", D, W, Z)
    D = D * np.where(score < 0, -1.0, 1.0)[:, None]
    b = np.abs(score)
    if draw.random() < 0.5:
        b = np.minimum(b, 1.0)
    if d > 1 and draw.random() < 0.3:
        tie = np.zeros((1, d))
        tie[0, :2] = W[1, 0], -W[0, 0]
        level = float(tie[0] @ W[:, 0])
        y = np.zeros((1, dq))
        y[0, 0] = 1.0
        return Problem.from_rows(D, Z, b=b, ties=tie, tie_queries=y, c=[level]), W
    return Problem.from_rows(D, Z, b=b), W


def _solved(problem: Problem, norm: str) -> Pair:
    """The pair of the library's own solution; zeros where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(problem, norm)
    W = np.zeros(problem.shape) if best.W is None else best.W
    return W, best.multipliers, best.tie_multipliers


def scaled_pairs(draw: Any) -> Case:
    """The solver's own pair with W, λ, both, or one entry of them scaled by 1e-320 to 1e300."""
    problem, point = _small(draw)
    how, entry = int(draw.integers(5)), float(draw.random())
    left, right = (float(f) for f in draw.choice(FACTORS, 2))

    def hand(norm: str) -> Pair:
        W, lam, mu = (np.array(part) for part in _solved(problem, norm))
        with np.errstate(all="ignore"):
            if how in (0, 2):
                W = W * left
            if how in (1, 2):
                other = left if how == 2 else right
                lam, mu = lam * other, mu * other
            if how == 3:
                W.flat[int(entry * W.size)] *= left
            if how == 4 and lam.size:
                lam[int(entry * lam.size)] *= right
        return W, lam, mu

    return Case(problem, feasible=True, points=[point], hand=hand)


def unit_pairs(draw: Any) -> Case:
    """x ≥ 1 in one unknown, with W and λ of every size."""
    W, lam = (float(f) for f in draw.choice(FACTORS, 2))
    if draw.random() < 0.5:
        W = 1.0
    size, b = (float(f) for f in draw.choice([1.0, 1.0, 2.0, 1e-30, 1e30], 2))
    problem = Problem.from_rows([[size]], b=[b])
    return Case(problem, feasible=True, hand=lambda norm: ([[W]], [lam], []))


def garbage_pairs(draw: Any) -> Case:
    """Random W and λ on any problem, infinities and no numbers among them."""
    problem, point = _small(draw)

    def noise(shape: Any) -> Any:
        out = draw.standard_normal(shape) * draw.choice(FACTORS[:-1], shape)
        wild = draw.random(shape) < 0.05
        return np.where(wild, draw.choice([np.inf, -np.inf, np.nan], shape), out)

    W = noise(problem.shape)
    lam, mu = noise(problem.m), noise(problem.ties)
    return Case(problem, feasible=True, points=[point], hand=lambda norm: (W, lam, mu))


def half_right_pairs(draw: Any) -> Case:
    """A W that meets every row with nonsense λ, or the solver's λ with a nonsense W."""
    problem, point = _small(draw)
    how = int(draw.integers(4))
    tiny = draw.choice([0.0, 5e-324, 1e-310, 1e-300, 1.0], problem.m)
    wild = draw.standard_normal(problem.m) * draw.choice(FACTORS[:-1], problem.m)
    mu = draw.standard_normal(problem.ties) * draw.choice([0.0, 1e-310, 1.0, 1e100])
    matrix = draw.standard_normal(problem.shape) * draw.choice(FACTORS[1:-1], problem.shape)

    def hand(norm: str) -> Pair:
        if how == 0:
            return point, tiny, mu
        if how == 1:
            return point, wild, mu
        _, lam, ties = _solved(problem, norm)
        if how == 2:
            return matrix, lam, ties
        return -point, lam, ties

    return Case(problem, feasible=True, points=[point], hand=hand)


def mixed_matrices(draw: Any) -> Case:
    """A W that meets every row, beside entries of 1e-300 that no row or few rows see."""
    problem, point = _small(draw)
    W = np.array(point)
    hidden = W == 0
    W[hidden] = draw.choice([0.0, 1e-300, -1e-300, 5e-324, 1e-170], int(hidden.sum()))
    lift = float(draw.choice([1.0, 1.0, 3.0]))

    def hand(norm: str) -> Pair:
        _, lam, mu = _solved(problem, norm)
        return W * lift, lam, mu

    return Case(problem, feasible=True, points=[point], hand=hand)


def soft_pairs(draw: Any) -> Case:
    """Pairs of every size for a soft margin with a budget of any size."""
    problem, point = _small(draw)
    C = float(10.0 ** draw.choice([-300, -150, -20, 0, 3, 20, 150, 300]))
    left = float(draw.choice(FACTORS))
    share = draw.choice([0.0, 1e-320, 0.5, 1.0, 2.0], problem.m)
    mu = draw.standard_normal(problem.ties) * draw.choice([0.0, 1e-310, 1.0, 1e100])
    with np.errstate(all="ignore"):
        W = point * left if draw.random() < 0.6 else draw.standard_normal(problem.shape) * left
        lam = share * (C if draw.random() < 0.5 else left)
    return Case(problem, feasible=True, points=[point], hand=lambda norm: (W, lam, mu), budget=C)


PAIRS = (scaled_pairs, unit_pairs, garbage_pairs, half_right_pairs, mixed_matrices, soft_pairs)
