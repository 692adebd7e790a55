"""Exact verification: both bounds of a certificate in rational arithmetic.

Floats are dyadic rationals, so the rows, W and the multipliers are exact data and

    (Σ b λ + Σ c μ) / ‖Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ‖_dual   ≤   least norm   ≤   ‖feasible W‖

can be checked without rounding. Only the norms themselves may be irrational; their rational upper
bounds enter both sides on the safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from attsvm.certificate.exact.farkas import vertex
from attsvm.certificate.exact.lifting import PRIMES, independent, solve_lifted
from attsvm.certificate.exact.rows import Index, IntegerRows
from attsvm.errors import BadTokens
from attsvm.norms import norm_of
from attsvm.norms.rational import Exact, float_above, frobenius_above

if TYPE_CHECKING:
    from attsvm.norms.norm import Norm
    from attsvm.problem.problem import Problem

# Multipliers below this share of the largest are taken as rounding noise at first.
_NOISE = 1e-9
# Rounds in which newly violated rows join a correction.
_ROUNDS = 20


@final
@dataclass(frozen=True, eq=False)
class Lower:
    """A lower bound of the least norm: `value`, or None when `infeasible` is proved exactly."""

    value: Fraction | None
    infeasible: bool = False


@final
@dataclass(frozen=True, eq=False)
class Upper:
    """An upper bound of the least norm: `value` ≥ ‖matrix‖ and `matrix` exactly feasible.

    Both are None when no exactly feasible matrix was found near W; `reason` says why.
    """

    value: Fraction | None
    matrix: Exact | None
    reason: str = ""


@final
@dataclass(frozen=True, eq=False)
class ExactSolution:
    """The exact Frobenius solution W (d, dq) and its optimal multipliers.

    square: ‖W‖_F², the least value; tight (m,): the margins whose slack is exactly zero.
    A zero multiplier on a tight row may be another one where multipliers are not unique.
    """

    matrix: Exact
    multipliers: Exact
    tie_multipliers: Exact
    square: Fraction
    tight: NDArray[np.bool_]


def exact_lower(problem: Problem, norm: Norm | str, lam: Any, mu: Any = None) -> Lower:
    """The lower bound that λ ≥ 0 (m,) and μ (l,), of any sign, prove exactly.

    A Fraction not above (Σ b λ + Σ c μ) / ‖Aᵀλ + Cᵀμ‖_dual, and below it by about 1e-14 at most;
    0, which always holds, when the numerator is not positive.
    """
    rows = IntegerRows.of(problem)
    multipliers = rows.multipliers(lam, mu)
    above = rows.numerator(multipliers)
    if above <= 0:
        return Lower(Fraction(0))
    combined = rows.adjoint(multipliers)
    if combined.zero:
        return Lower(None, infeasible=True)
    return Lower(above / norm_of(norm).dual_above(combined))


def exact_upper(problem: Problem, norm: Norm | str, W: Any) -> Upper:
    """The upper bound ‖W'‖ of an exactly feasible W' near W (d, dq).

    W is first given the least Frobenius change that makes the ties hold and the violated rows
    with b = 0 exactly 0; rows violated by that change join, round after round. Then, if every
    c = 0, it is scaled so that the worst margin/b is 1. With some c ≠ 0 scaling would break the
    ties: violated rows with b > 0 are set to b in the correction instead.
    """
    rows = IntegerRows.of(problem)
    matrix = _matrix(rows, W)
    homogeneous = not rows.right.numerators[rows.m :].any() and rows.error.zero
    repaired, reason = _repaired(rows, matrix, rows.positive & homogeneous)
    if repaired is None:
        return Upper(None, None, reason)
    if homogeneous:
        positive = rows.positive.nonzero()[0]
        values, right = rows.values(repaired), rows.right
        worst = min(
            (Fraction(values.numerators[k], right.numerators[k]) for k in positive), default=None
        )
        if worst is None:
            return Upper(Fraction(0), Exact(matrix.numerators * 0))
        if worst <= 0:
            return Upper(None, None, "a margin with b > 0 is not positive")
        repaired = repaired.times(values.denominator / (worst * right.denominator))
    return Upper(norm_of(norm).value_above(repaired), repaired)


def exact_soft_lower(
    problem: Problem, norm: Norm | str, lam: Any, mu: Any, budget: float
) -> Fraction | None:
    """Σ bλ + Σ cμ − Σ c_error |μ| − ½‖A*λ + C*μ‖²_dual, not above it; None unless λ ≤ budget."""
    rows = IntegerRows.of(problem)
    multipliers = rows.multipliers(lam, mu)
    largest = max(multipliers.numerators[: rows.m], default=0)
    if Fraction(largest, multipliers.denominator) > Fraction(budget):
        return None
    dual = norm_of(norm).dual_above(rows.adjoint(multipliers))
    return max(rows.numerator(multipliers) - dual**2 / 2, Fraction(0))


def exact_soft_upper(problem: Problem, norm: Norm | str, W: Any, budget: float) -> Upper:
    """½‖W'‖² + C Σ max(0, b − margin) of the W' nearest to W (d, dq) that meets the ties."""
    rows = IntegerRows.of(problem)
    matrix = _matrix(rows, W)
    margins = np.arange(len(rows.delta)) < rows.m
    repaired, reason = _repaired(rows, matrix, margins)
    if repaired is None:
        return Upper(None, None, reason)
    values = rows.values(repaired).fractions()[: rows.m]
    right = rows.right.fractions()[: rows.m]
    short = sum((max(b - v, Fraction(0)) for b, v in zip(right, values, strict=True)), Fraction(0))
    value = norm_of(norm).value_above(repaired)
    return Upper(value**2 / 2 + Fraction(budget) * short, repaired)


def exact_repair(problem: Problem, W: Any) -> tuple[NDArray[np.float64], float] | None:
    """The float matrix nearest to the least change of W that meets every row, and the Frobenius
    size of that change, rounded up. None when there is no such change, or it is not found."""
    rows = IntegerRows.of(problem)
    matrix = _matrix(rows, W)
    repaired, _ = _repaired(rows, matrix, np.zeros(len(rows.delta), dtype=bool))
    if repaired is None:
        return None
    near = repaired.floats()
    if not np.isfinite(near).all():
        return None
    change = repaired.plus(Exact(-matrix.numerators, matrix.denominator))
    return near, float_above(frobenius_above(change))


def exact_tight(
    problem: Problem, lam: Any, mu: Any = None, *, limit: int = 256
) -> ExactSolution | None:
    """The Frobenius solution in exact arithmetic, found from float multipliers, or None.

    On the support S of λ and all ties, G λ = b is solved exactly; W = Σ λ Δ zᵀ is optimal when
    λ ≥ 0 and every margin is at least b. Rows with λ < 0 leave S and violated rows join it, for
    some rounds; if that fails, once more from a vertex λ found by non-negative least squares.
    More than `limit` rows in S are not tried.
    """
    rows = IntegerRows.of(problem)
    if not rows.error.zero:
        return None  # ties within an error are no equalities
    guess = rows.multipliers(lam, mu).floats()
    found = _active_set(rows, guess[: rows.m], limit)
    if found is None and len(guess) <= limit:
        refined = vertex(rows, np.arange(rows.m))
        found = None if refined is None else _active_set(rows, refined[: rows.m], limit)
    return found


def _active_set(rows: IntegerRows, guess: NDArray[np.float64], limit: int) -> ExactSolution | None:
    """The exact solution by rounds that start from the support of `guess` (m,), or None."""
    active = guess > _NOISE * guess.max(initial=0.0)
    ties = np.arange(rows.m, len(rows.delta))
    for _ in range(_ROUNDS):
        order = np.argsort(-guess, kind="stable")
        index = np.concatenate([ties, order[active[order]]])
        if len(index) > limit:
            return None
        basis = index[independent(rows.residues(index, PRIMES[0]), PRIMES[0])[0]]
        solution = solve_lifted(rows.gram(basis), rows.right.numerators[basis])
        if solution is None:
            return None
        spread = np.zeros(len(rows.delta), dtype=object)
        spread[basis] = solution.numerators
        factor = Fraction(rows.unit**2, rows.right.denominator)
        multipliers = Exact(spread, solution.denominator).times(factor)
        matrix = rows.adjoint(multipliers)
        slack = rows.slack(matrix)
        negative, violated = (spread < 0)[: rows.m].astype(bool), (slack < 0)[: rows.m].astype(bool)
        if slack[rows.m :].any():
            return None
        if not negative.any() and not violated.any():
            square = rows.numerator(multipliers)
            tight = ~slack[: rows.m].astype(bool)
            return ExactSolution(matrix, *rows.split(multipliers), square, tight)
        active = (active & ~negative) | violated
    return None


def _repaired(rows: IntegerRows, W: Exact, exempt: NDArray[np.bool_]) -> tuple[Exact | None, str]:
    """W with the least change that meets every row but the exempt ones, or None and why not."""
    equal = np.arange(len(rows.delta)) >= rows.m
    active = equal & ~rows.error.numerators.astype(bool)
    matrix = W
    for _ in range(_ROUNDS):
        violated = rows.missed(matrix) & ~exempt
        if not violated.any():
            return matrix, ""
        stuck = (violated & active).nonzero()[0]
        if matrix is not W and len(stuck):
            k = int(stuck[0])
            name = f"margin {k}" if k < rows.m else f"tie {k - rows.m}"
            return None, f"{name} contradicts the rows it depends on"
        active |= violated
        # Ties come first, so that a margin gives way to them among dependent rows.
        index = np.concatenate([(active & equal).nonzero()[0], (active & ~equal).nonzero()[0]])
        change = _change(rows, index, W)
        if change is None:
            return None, f"no exact correction on {len(index)} rows"
        matrix = W.plus(change)
    return None, f"rows were still violated after {_ROUNDS} corrections"


def _change(rows: IntegerRows, index: Index, W: Exact) -> Exact | None:
    """The least Frobenius change of W after which the rows in `index` equal their right side.

    Σ y_k Δ_k z_kᵀ with G y = right − values, on a maximal independent subset of the rows.
    """
    basis = index[independent(rows.residues(index, PRIMES[0]), PRIMES[0])[0]]
    solution = solve_lifted(rows.gram(basis), -rows.slack(W)[basis])
    if solution is None:
        return None
    spread = np.zeros(len(rows.delta), dtype=object)
    spread[basis] = solution.numerators
    # slack = (values − right) · unit · W.denominator · right.denominator, Gram = G · unit²
    factor = Fraction(rows.unit, W.denominator * rows.right.denominator)
    return rows.adjoint(Exact(spread, solution.denominator).times(factor))


def _matrix(rows: IntegerRows, W: Any) -> Exact:
    """W as an exact array (d, dq); (d,) is taken for (d, 1)."""
    matrix = Exact.of(W)
    if matrix.shape == rows.shape[:1] and rows.shape[1] == 1:
        matrix = Exact(matrix.numerators[:, None], matrix.denominator)
    if matrix.shape != rows.shape:
        raise BadTokens(f"W has shape {matrix.shape}; this problem needs {rows.shape}")
    return matrix
