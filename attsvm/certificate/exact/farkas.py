"""Exact proofs of infeasibility: rational multipliers that no W can survive.

    λ ≥ 0,   Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ = 0,   Σ b λ + Σ c μ − Σ c_error |μ| > 0     (Farkas)

A float λ meets the equation up to rounding only. The exact vector is sought near it: on a maximal
independent subset of its rows the equation is solved over the rationals, the rest is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm.certificate.exact.lifting import PRIMES, independent, solve_lifted
from attsvm.certificate.exact.rows import Index, IntegerRows
from attsvm.norms.rational import Exact, float_above, frobenius_above

if TYPE_CHECKING:
    from attsvm.problem.problem import Problem

# Multipliers below this share of the largest are taken as rounding noise at first.
_NOISE = 1e-9
# Ties that depend on others and are looked at one by one.
_CLASHES = 64


@final
@dataclass(frozen=True, eq=False)
class Infeasibility:
    """λ ≥ 0 (m,) and μ (l,) with Σ λ Δ zᵀ + Σ μ Δ zᵀ = 0 and Σ b λ + Σ c μ = 1, exactly.

    No W exists: it would have to satisfy 0 = ⟨0, W⟩ ≥ 1.
    """

    multipliers: Exact
    tie_multipliers: Exact


def exact_infeasibility(
    problem: Problem, lam: Any, mu: Any = None, *, limit: int = 512
) -> Infeasibility | None:
    """An exact proof that no W exists, found from floats λ (m,) ≥ 0 and μ (l,), or None.

    The largest multipliers whose rows are independent are solved for exactly, the others keep
    their float values: when λ nearly proves infeasibility, the solution stays near it and so
    non-negative. If signs fail, a vertex λ is sought by non-negative least squares first.
    More than `limit` rows in the support are not tried: k rows cost about k³.
    """
    rows = IntegerRows.of(problem)
    alone = (rows.empty & rows.right.numerators.astype(bool)).nonzero()[0]
    if len(alone):  # 0 ≥ b > 0, or 0 = c ≠ 0
        single = np.zeros(len(rows.delta), dtype=object)
        single[alone[0]] = 1 if rows.right.numerators[alone[0]] > 0 else -1
        found = _proof(rows, Exact(single))
        if found is not None:
            return found
    found = _clash(rows)
    if found is not None:
        return found
    guess = rows.multipliers(lam, mu).floats()
    top = guess[: rows.m].max(initial=0.0)
    ties = len(guess) - rows.m
    for floor in (_NOISE * top, 0.0):
        support = (guess[: rows.m] > floor).nonzero()[0]
        if len(support) + ties > limit:
            continue
        found = _completed(rows, guess, support)
        if found is None:
            refined = vertex(rows, support)
            if refined is not None:
                found = _completed(rows, refined, (refined[: rows.m] > 0).nonzero()[0])
        if found is not None:
            return found
    return None


def proves(problem: Problem, farkas: NDArray[np.object_]) -> bool:
    """Whether whole numbers (m + l,) prove exactly that no W exists."""
    rows = IntegerRows.of(problem)
    return len(farkas) == len(rows.delta) and _proof(rows, Exact(farkas)) is not None


def residual(problem: Problem, lam: Any, mu: Any) -> float:
    """‖Σ λ Δ zᵀ + Σ μ Δ zᵀ‖_F / Σ |λ|‖Δ‖‖z‖, the combination formed exactly; inf for λ = 0."""
    rows = IntegerRows.of(problem)
    left = float_above(frobenius_above(rows.adjoint(rows.multipliers(lam, mu))))
    size = float(problem.row_norms @ lam + problem.tie_norms @ np.abs(mu))
    return left / size if size > 0 else np.inf


def _clash(rows: IntegerRows) -> Infeasibility | None:
    """The proof that ties alone give: one that depends on others and asks for something else."""
    ties = np.arange(rows.m, len(rows.delta))
    if not rows.right.numerators[rows.m :].any():
        return None
    chosen, columns = independent(rows.residues(ties, PRIMES[0]), PRIMES[0])
    basis, rest = ties[chosen], np.delete(ties, chosen)
    for tie in rest[:_CLASHES]:
        one = np.array([tie])
        solution = solve_lifted(rows.dense(basis, columns).T, rows.dense(one, columns)[0])
        if solution is None:
            return None
        spread = np.zeros(len(rows.delta), dtype=object)
        spread[basis] = -solution.numerators
        spread[tie] = solution.denominator
        for sign in (1, -1):
            found = _proof(rows, Exact(sign * spread))
            if found is not None:
                return found
    return None


def _completed(
    rows: IntegerRows, guess: NDArray[np.float64], support: Index
) -> Infeasibility | None:
    """The proof near `guess` (m + l,) on these margins and all ties, or None.

    A maximal independent subset, ties first and then large multipliers first, is solved for;
    the multipliers of the other rows are kept.
    """
    order = support[np.argsort(-guess[support], kind="stable")]
    index = np.concatenate([np.arange(rows.m, len(guess)), order])
    chosen, columns = independent(rows.residues(index, PRIMES[0]), PRIMES[0])
    basis, rest = index[chosen], np.delete(index, chosen)
    if not len(rest):  # independent rows: only λ = 0
        return None
    kept = Exact.of(guess[rest])
    solution = solve_lifted(
        rows.dense(basis, columns).T, -(kept.numerators @ rows.dense(rest, columns))
    )
    if solution is None:
        return None
    spread = np.zeros(len(guess), dtype=object)
    spread[basis] = solution.numerators
    spread[rest] = kept.numerators * solution.denominator
    return _proof(rows, Exact(spread))


def _proof(rows: IntegerRows, multipliers: Exact) -> Infeasibility | None:
    """The proof with these multipliers (m + l,) scaled to numerator 1; None if it is none."""
    if (multipliers.numerators[: rows.m] < 0).any():
        return None
    above = rows.numerator(multipliers)
    if above <= 0 or not rows.adjoint(multipliers).zero:
        return None
    return Infeasibility(*rows.split(multipliers.times(1 / above)))


def vertex(rows: IntegerRows, support: Index) -> NDArray[np.float64] | None:
    """Floats λ ≥ 0, μ (m + l,) with few nonzero, on these margins and all ties, or None.

    They minimise ‖Aᵀλ + Cᵀμ‖² + (Σ b λ + Σ c μ − 1)²: a proof of infeasibility when that is zero,
    otherwise a multiple of the multipliers of the Frobenius problem.
    """
    ties = np.arange(rows.m, len(rows.delta))
    index = np.concatenate([support, ties, ties])
    every = np.arange(rows.shape[0] * rows.shape[1])
    dense = Exact(rows.dense(index, every), rows.unit).floats()
    right = Exact(rows.right.numerators[index], rows.right.denominator).floats()
    columns = np.concatenate([dense, right[:, None]], axis=1).T
    columns[:, len(support) + len(ties) :] *= -1  # μ = μ⁺ − μ⁻
    size = np.linalg.norm(columns, axis=0)
    size[size == 0] = 1.0
    target = np.zeros(len(columns))
    target[-1] = 1.0
    try:
        x = scipy.optimize.nnls(columns / size, target)[0] / size
    except RuntimeError:  # its iteration limit
        return None
    out = np.zeros(len(rows.delta))
    out[support] = x[: len(support)]
    plus, minus = np.split(x[len(support) :], 2)
    out[rows.m :] = plus - minus
    return out
