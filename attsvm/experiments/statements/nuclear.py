"""Conjectures about the nuclear norm: its solution is unique, and of small rank."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements import facts
from attsvm.experiments.statements.facts import Exact, written
from attsvm.experiments.statements.statement import (
    Confirmation,
    Field,
    Instance,
    NoProof,
    Space,
    Statement,
)
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

_TURNS = (np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
_DENOMINATORS = (1, 2, 4, 8, 16, 64, 1000)


# ---------------------------------------------------------------- uniqueness


def _ends(one: Instance) -> tuple[Floats, Floats, Floats] | None:
    """Two solutions far apart and multipliers, in floats; None where the solution is one.

    With M = A*λ/σ₁ orthogonal every solution is M S, S ⪰ 0 with the trace of one: a disk of
    matrices S = (t/2) I + a·diag(1, −1) + b·swap, |(a, b)| ≤ t/2, cut by the rows.
    """
    problem = Problem.of(one.tokens, list(one.first))
    found = solve(problem, "nuclear")
    if found.W is None:
        return None
    U, s, Vt = np.linalg.svd(problem.adjoint(found.multipliers))
    if s[1] < (1 - 1e-5) * s[0]:
        return None  # a simple top pair: the one solution has rank one
    M = U @ Vt
    S = M.T @ np.asarray(found.W)
    t = float(np.trace(S))
    here = np.array([(S * turn).sum() / 2 for turn in _TURNS])
    moves = np.stack([problem.margins(M @ turn) for turn in _TURNS], axis=1)  # (m, 2)
    busy = found.multipliers * np.linalg.norm(moves, axis=1) > 1e-4 * s[0]
    _, size, ways = np.linalg.svd(np.concatenate([moves[busy], np.zeros((2, 2))]))
    if size[1] > 1e-4 * max(size[0], 1.0):
        return None
    slack = problem.margins(np.asarray(found.W)) - 1
    ends = [_reach(here, sign * ways[1], t / 2, slack, moves) for sign in (1.0, -1.0)]
    both = [M @ (t / 2 * np.eye(2) + sum(c * turn for c, turn in zip(end, _TURNS, strict=True)))
            for end in ends]  # fmt: skip
    return both[0], both[1], found.multipliers / s[0]


def _reach(here: Floats, way: Floats, radius: float, slack: Floats, moves: Floats) -> Floats:
    """The furthest point from `here` along `way` inside the disk and the rows."""
    along = float(here @ way)
    most = -along + np.sqrt(max(along**2 + radius**2 - float(here @ here), 0.0))
    rate = moves @ way
    stops = np.maximum(slack[rate < -1e-6], 0.0) / -rate[rate < -1e-6]
    return np.asarray(here + min(most, float(stops.min(initial=np.inf))) * way)


def _distance(one: Instance) -> float:
    """The distance of two solutions as a share of their norm, less 1e-3."""
    found = _ends(one)
    if found is None:
        return -1e-3
    first, second, _ = found
    return float(np.linalg.norm(first - second) / np.linalg.norm(first)) - 1e-3


def _confirm_two(one: Instance) -> Confirmation:
    """Two rational solutions of one nuclear norm, and rational multipliers that prove it least.

    ‖W‖_*² = ‖W‖_F² + 2|det W| for 2 × 2 matrices, and σ₁(M)² ≤ τ exactly if τ ≥ ‖M‖_F²/2 and
    τ² − ‖M‖_F² τ + (det M)² ≥ 0.
    """
    ends = _ends(one)
    if ends is None:
        raise NoProof("the solution is one")
    first, second, lam = ends
    rows = facts.rows_of(one, one.first)
    for below in _DENOMINATORS:
        multipliers = _rounded(lam, below)
        solutions: list[Exact] = []
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            W = _rounded((first + share * (second - first)).ravel(), below)
            known = any((other == W).all() for other in solutions)
            if not known and _optimal(rows, W, multipliers):
                solutions.append(W)
        if len(solutions) > 1:
            a, b = (written(W.reshape(2, 2)) for W in solutions[:2])
            return Confirmation(
                True,
                f"{a} and {b} both have the least nuclear norm, the root of "
                f"{_nuclear_squared(solutions[0])}, by the multipliers {written(multipliers)}",
            )
    raise NoProof("no two rational solutions were found")


def _rounded(values: Floats, below: int) -> Exact:
    """The nearest Fractions with denominators up to `below`."""
    return np.array([Fraction(float(x)).limit_denominator(below) for x in values])


def _det(W: Exact) -> Fraction:
    return Fraction(W[0] * W[3] - W[1] * W[2])


def _nuclear_squared(W: Exact) -> Fraction:
    return Fraction(W @ W + 2 * abs(_det(W)))


def _optimal(rows: Exact, W: Exact, lam: Exact) -> bool:
    """Whether W meets every row and λ ≥ 0 proves that nothing shorter does."""
    if min(rows @ W) < 1 or min(lam) < 0:
        return False
    M = lam @ rows
    bound = lam.sum() ** 2 / _nuclear_squared(W)  # σ₁(M)² must not exceed this
    return bool(bound >= M @ M / 2 and bound**2 - M @ M * bound + _det(M) ** 2 >= 0 and bound > 0)


# ---------------------------------------------------------------- rank


def _two_queries(one: Instance) -> bool:
    """Two independent queries, and some W keeps the first tokens."""
    return bool(np.linalg.matrix_rank(one["z"]) == 2) and facts.keeps_first(one)


def _signed(one: Instance, sign: float) -> Problem:
    """The vectors u with Δ_k·u ≥ 1 in the first input and sign·Δ_k·u ≥ 1 in the second.

    u wᵀ keeps the first tokens of both inputs exactly if ±u is such a vector for one sign: the
    queries are independent, so that w·z_1 and w·z_2 may be any two numbers.
    """
    X = one["X"]
    rows: Floats = np.concatenate([X[0, 0] - X[0, 1:], sign * (X[1, 0] - X[1, 1:])])
    return Problem.from_rows(rows, np.ones((len(rows), 1)))


def _above_rank_one(one: Instance) -> float:
    """1 where no matrix of rank one keeps the first tokens, else minus its largest margin."""
    found = [solve(_signed(one, sign)) for sign in (1.0, -1.0)]
    return max((-1 / float(c.upper) for c in found if c.W is not None), default=1.0)


def _confirm_above_rank_one(one: Instance) -> Confirmation:
    """A rational W that keeps the tokens, and rational proofs that none of rank one does."""
    found = facts.exact_solution(one, one.first)
    said = [
        written(facts.infeasible(_signed(one, sign)).multipliers.fractions())
        for sign in (1.0, -1.0)
    ]
    return Confirmation(
        facts.rank_of(facts.fractions(one["z"])) == 2,
        f"{written(found.matrix.fractions())} keeps the first tokens and no matrix of rank one "
        f"does: multipliers {said[0]} and {said[1]} forbid both signs",
    )


STATEMENTS = (
    Statement(
        "nuclear-unique",
        says="The nuclear problem of separable tokens has one solution (B: not in general); hunted "
        "with W of size 2 × 2.",
        kind="conjecture",
        space=Space({"n": (1, 3), "T": (2, 3)}, (Field("X", ("n", "T", 2)), Field("z", ("n", 2)))),
        premises=facts.keeps_first,
        violation=_distance,
        confirm=_confirm_two,
        proves="two rational solutions and the multipliers that prove both least",
        block=50,
    ),
    Statement(
        "nuclear-rank",
        says="The nuclear problem of n inputs has a solution of rank r with r(r + 1)/2 ≤ n; hunted "
        "at n = 2, where it says rank one. (With the number of rows in place of n it is a "
        "theorem.)",
        kind="conjecture",
        space=Space({"T": (2, 4), "d": (1, 3)}, (Field("X", (2, "T", "d")), Field("z", (2, 2)))),
        premises=_two_queries,
        violation=_above_rank_one,
        confirm=_confirm_above_rank_one,
        proves="rational Farkas vectors against both signs of a rank-one matrix",
    ),
)
