"""Conjecture: the nuclear problem has one solution."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.parts.rationals import fractions, written
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

_TURNS = (np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
_DENOMINATORS = (1, 2, 4, 8, 16, 64, 1000)


def premises(one: Instance) -> bool:
    """Some W keeps the first token of every input."""
    return facts_of(one, [0] * len(one["X"])) is not None


def _ends(one: Instance) -> tuple[Floats, Floats, Floats] | None:
    """Two solutions far apart and multipliers, in floats; None where the solution is one.

    With M = A*λ/σ₁ orthogonal every solution is M S, S ⪰ 0 with the trace of one: a disk of
    matrices S = (t/2) I + a·diag(1, −1) + b·swap, |(a, b)| ≤ t/2, cut by the rows.
    """
    problem = Problem.of(one.tokens, [0] * len(one["X"]))
    found = solve(problem, "nuclear")
    if found.W is None:
        return None
    total = problem.adjoint(found.multipliers)
    U, s, Vt = np.linalg.svd(total)
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


def violation(one: Instance) -> float:
    """The distance of two solutions as a share of their norm, less 1e-3."""
    found = _ends(one)
    if found is None:
        return -1e-3
    first, second, _ = found
    return float(np.linalg.norm(first - second) / np.linalg.norm(first)) - 1e-3


def confirm(one: Instance) -> Confirmation:
    """Two rational solutions of one nuclear norm, and rational multipliers that prove it least.

    ‖W‖_*² = ‖W‖_F² + 2|det W| for 2 × 2 matrices, and σ₁(M)² ≤ τ exactly if τ ≥ ‖M‖_F²/2 and
    τ² − ‖M‖_F² τ + (det M)² ≥ 0.
    """
    ends = _ends(one)
    if ends is None:
        return Confirmation(False, "rationals", "the solution is one")
    first, second, lam = ends
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    solutions: list[list[Fraction]] = []
    for below in _DENOMINATORS:
        multipliers = [Fraction(float(x)).limit_denominator(below) for x in lam]
        for share in shares:
            W = [Fraction(float(x)).limit_denominator(below)
                 for x in (first + share * (second - first)).ravel()]  # fmt: skip
            if W not in solutions and _optimal(one, W, multipliers):
                solutions.append(W)
        if len(solutions) > 1:
            a, b = solutions[:2]  # of one norm, and so of two directions
            return Confirmation(
                True,
                "rationals",
                f"{_square(a)} and {_square(b)} both have the least nuclear norm, the root of "
                f"{_nuclear_squared(a)}, by the multipliers {written(multipliers)}",
                {"first": _square(a), "second": _square(b), "λ": written(multipliers)},
            )
        solutions = []
    return Confirmation(False, "rationals", "no two rational solutions were found")


def _square(W: list[Fraction]) -> str:
    return written([W[:2], W[2:]])


def _nuclear_squared(W: list[Fraction]) -> Fraction:
    return sum((w * w for w in W), Fraction(0)) + 2 * abs(W[0] * W[3] - W[1] * W[2])


def _optimal(one: Instance, W: list[Fraction], lam: list[Fraction]) -> bool:
    """Whether W meets every row and λ ≥ 0 proves that nothing shorter does."""
    X, z = one["X"], one["z"]
    rows = []
    for x, query in zip(X, z, strict=True):
        q = fractions(query)
        for t in x[1:]:
            rows.append([a * b for a in fractions(x[0] - t) for b in q])
    if any(sum(a * w for a, w in zip(row, W, strict=True)) < 1 for row in rows) or min(lam) < 0:
        return False
    M = [sum((l * r[j] for l, r in zip(lam, rows, strict=True)), Fraction(0)) for j in range(4)]
    square = sum((m * m for m in M), Fraction(0))
    det = M[0] * M[3] - M[1] * M[2]
    bound = sum(lam, Fraction(0)) ** 2 / _nuclear_squared(W)  # σ₁(M)² must not exceed this
    return bound >= square / 2 and bound**2 - square * bound + det**2 >= 0 and bound > 0


STATEMENT = Statement(
    "nuclear-unique",
    title="The nuclear direction is unique",
    says="The nuclear problem of separable tokens has one solution (B: not in "
    "general); hunted with W of size 2 × 2.",
    kind="conjecture",
    space=Space(
        {"n": (1, 3), "T": (2, 3)},
        (Field("X", ("n", "T", 2)), Field("z", ("n", 2))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    lines=(
        "problem = attsvm.Problem.of(attsvm.Tokens(X, queries=z), [0] * len(X))",
        "best = attsvm.solve(problem, 'nuclear')",
        "print(best.upper, problem.adjoint(best.multipliers))  # a multiple of a rotation",
    ),
    proves="two rational solutions and the multipliers that prove both least",
    block=50,
)
