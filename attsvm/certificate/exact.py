"""The bounds and proofs of a certificate in exact rational arithmetic.

Floats are dyadic rationals, so the rows, W and the multipliers are exact data and

    (Σ b λ + Σ c μ) / ‖Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ‖_dual   ≤   least norm   ≤   ‖feasible W‖

can be checked without rounding. Only the norms themselves may be irrational; their rational upper
bounds enter both sides on the safe side. No W exists when rational multipliers satisfy

    λ ≥ 0,   Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ = 0,   Σ b λ + Σ c μ − Σ c_error |μ| > 0     (Farkas)

A float λ meets the equation up to rounding only. The exact vector is sought near it: on a maximal
independent subset of its rows the equation is solved over the rationals, the rest is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import NDArray

from attsvm.certificate.lifting import PRIMES, independent, modulo, solve_lifted
from attsvm.errors import BadTokens
from attsvm.norms import Norm, norm_of
from attsvm.norms.rational import Exact, Integers, float_above, frobenius_above
from attsvm.problem.problem import Problem

Index = NDArray[np.int64]

# Rows whose products with W are formed at once: bounds the memory, about 100 bytes a number.
_BLOCK = 1 << 12
# Multipliers below this share of the largest are taken as rounding noise at first.
_NOISE = 1e-9
# Rounds in which newly violated rows join a correction.
_ROUNDS = 20
# Ties that depend on others and are looked at one by one.
_CLASHES = 64


@final
@dataclass(frozen=True, eq=False)
class IntegerRows:
    """The rows of a problem as integers: row k is Δ_kᵀ W z_k against right_k, margins before ties.

    The difference of two keys, which may round in floats, is exact here. delta (m + l, d) and
    queries (g, dq) are integers; row k is delta_k queries[query_k]ᵀ / unit.

    right (m + l,) holds the right-hand sides b and c exactly, error (m + l,) how far a tie may be
    from c (0 on margins); the first m rows are margins.
    """

    delta: Integers
    queries: Integers
    query: Index
    unit: int
    right: Exact
    error: Exact
    m: int

    @classmethod
    def of(cls, problem: Problem) -> IntegerRows:
        """The rows of a problem."""
        hi = np.concatenate([problem.hi, problem.tie_hi])
        lo = np.concatenate([problem.lo, problem.tie_lo])
        used, place = np.unique(np.concatenate([hi, lo[lo >= 0]]), return_inverse=True)
        keys = Exact.of(np.asarray(problem.keys[used], dtype=np.float64))
        queries = Exact.of(problem.queries)
        delta = keys.numerators[place[: len(hi)]]
        delta[lo >= 0] -= keys.numerators[place[len(hi) :]]
        return cls(
            delta,
            queries.numerators,
            np.concatenate([problem.query, problem.tie_query]).astype(np.int64),
            keys.denominator * queries.denominator,
            Exact.of(np.concatenate([problem.b, problem.c])),
            Exact.of(np.concatenate([np.zeros(problem.m), problem.c_error])),
            len(problem.hi),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of W."""
        return self.delta.shape[1], self.queries.shape[1]

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Which rows (m + l,) are margins with b > 0."""
        out = (self.right.numerators > 0).astype(bool)
        out[self.m :] = False
        return out

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which rows (m + l,) are exactly zero: Δ = 0 or z = 0."""
        delta = np.array([not any(row) for row in self.delta], dtype=bool)
        queries = np.array([not any(row) for row in self.queries], dtype=bool)
        return delta | queries[self.query]

    def values(self, W: Exact) -> Exact:
        """Δ_kᵀ W z_k of every row (m + l,), for W (d, dq)."""
        logits = (W.numerators @ self.queries.T).T  # (g, d): W z of each query
        out = np.zeros(len(self.delta), dtype=object)
        for start in range(0, len(out), _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = (self.delta[part] * logits[self.query[part]]).sum(axis=1)
        return Exact(out, self.unit * W.denominator)

    def slack(self, W: Exact) -> Integers:
        """Integers (m + l,) with the signs of Δ_kᵀ W z_k − right_k."""
        values, right = self.values(W), self.right
        return values.numerators * right.denominator - right.numerators * values.denominator

    def missed(self, W: Exact) -> NDArray[np.bool_]:
        """Which rows (m + l,) W misses: margins below b, ties further from c than allowed."""
        slack = self.slack(W)
        # slack = (value − right) · unit · W.denominator · right.denominator
        factor = self.unit * W.denominator * self.right.denominator
        allowed = self.error.numerators * factor
        out = np.where(
            np.arange(len(slack)) < self.m, slack < 0, abs(slack) * self.error.denominator > allowed
        )
        return out.astype(bool)

    def adjoint(self, multipliers: Exact) -> Exact:
        """Σ_k λ_k Δ_k z_kᵀ (d, dq), for multipliers (m + l,)."""
        pooled = np.zeros((len(self.queries), self.shape[0]), dtype=object)  # Σ λ Δ of each query
        for k in multipliers.numerators.nonzero()[0]:
            pooled[self.query[k]] += multipliers.numerators[k] * self.delta[k]
        seen = pooled.any(axis=1).astype(bool)
        out = pooled[seen].T @ self.queries[seen]
        if not seen.any():
            out = np.zeros(self.shape, dtype=object)
        return Exact(out, self.unit * multipliers.denominator)

    def numerator(self, multipliers: Exact) -> Fraction:
        """Σ b λ + Σ c μ − Σ c_error |μ|, for multipliers (m + l,)."""
        total = int(self.right.numerators @ multipliers.numerators)
        off = int(self.error.numerators @ abs(multipliers.numerators))
        below = multipliers.denominator
        return Fraction(total, self.right.denominator * below) - Fraction(
            off, self.error.denominator * below
        )

    def gram(self, index: Index) -> Integers:
        """Inner products (k, k) of the rows in `index`, times unit²."""
        D, Z = self.delta[index], self.queries[self.query[index]]
        return (D @ D.T) * (Z @ Z.T)

    def dense(self, index: Index, columns: Index) -> Integers:
        """Entries (k, |columns|) of the rows in `index`, flattened to width d·dq, times unit."""
        i, j = np.divmod(columns, self.shape[1])
        return self.delta[index][:, i] * self.queries[self.query[index]][:, j]

    def residues(self, index: Index, prime: int) -> NDArray[np.int64]:
        """The rows in `index`, flattened (k, d·dq), times unit, modulo a prime below 2^31."""
        D, Z = modulo(self.delta[index], prime), modulo(self.queries, prime)[self.query[index]]
        return (D[:, :, None] * Z[:, None, :] % prime).reshape(len(index), D.shape[1] * Z.shape[1])

    def multipliers(self, lam: Any, mu: Any = None) -> Exact:
        """λ (m,) ≥ 0 and μ (l,) in one exact array (m + l,); without μ it is zero."""
        m, l = self.m, len(self.delta) - self.m
        first = Exact.of(lam)
        second = Exact(np.zeros(l, dtype=object)) if mu is None else Exact.of(mu)
        for name, part, size in (("multipliers", first, m), ("tie multipliers", second, l)):
            if part.shape != (size,):
                raise BadTokens(f"the {name} have shape {part.shape}; they must be ({size},)")
        negative = (first.numerators < 0).nonzero()[0]
        if len(negative):
            raise BadTokens(f"multiplier {negative[0]} is negative: a proof needs every λ ≥ 0")
        below = math.lcm(first.denominator, second.denominator)
        parts = [part.numerators * (below // part.denominator) for part in (first, second)]
        return Exact(np.concatenate(parts), below)

    def split(self, multipliers: Exact) -> tuple[Exact, Exact]:
        """λ (m,) and μ (l,) of multipliers (m + l,)."""
        first, second = np.split(multipliers.numerators, [self.m])
        return Exact(first, multipliers.denominator), Exact(second, multipliers.denominator)


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


def exact_lower(
    problem: Problem, norm: Norm | str, lam: Any, mu: Any = None, *, budget: float = math.inf
) -> Fraction | None:
    """The lower bound that λ ≥ 0 (m,) and μ (l,), of any sign, prove exactly.

    A Fraction not above (Σ b λ + Σ c μ) / ‖Aᵀλ + Cᵀμ‖_dual, and below it by about 1e-14 at most;
    0, which always holds, if the numerator is not positive; None if they prove that no W exists.
    With a budget one not above Σ bλ + Σ cμ − ½‖Aᵀλ + Cᵀμ‖²_dual; None unless λ ≤ budget.
    """
    rows = IntegerRows.of(problem)
    multipliers = rows.multipliers(lam, mu)
    above, combined = rows.numerator(multipliers), rows.adjoint(multipliers)
    if budget < math.inf:
        largest = max(multipliers.numerators[: rows.m], default=0)
        if Fraction(largest, multipliers.denominator) > Fraction(budget):
            return None
        dual = norm_of(norm).dual_above(combined)
        return max(above - dual**2 / 2, Fraction(0))
    if above <= 0:
        return Fraction(0)
    return None if combined.zero else above / norm_of(norm).dual_above(combined)


def exact_upper(problem: Problem, norm: Norm | str, W: Any, *, budget: float = math.inf) -> Upper:
    """The upper bound ‖W'‖ of an exactly feasible W' near W (d, dq).

    W is first given the least Frobenius change that makes the ties hold and the violated rows
    with b = 0 exactly 0; rows violated by that change join, round after round. Then, if every
    c = 0, it is scaled so that the worst margin/b is 1. With some c ≠ 0 scaling would break the
    ties: violated rows with b > 0 are set to b in the correction instead.

    With a budget C: ½‖W'‖² + C Σ max(0, b − margin) of the W' nearest to W that meets the ties.
    """
    rows = IntegerRows.of(problem)
    matrix, soft = _matrix(rows, W), budget < math.inf
    homogeneous = not rows.right.numerators[rows.m :].any() and rows.error.zero
    exempt = np.arange(len(rows.delta)) < rows.m if soft else rows.positive & homogeneous
    repaired, reason = _repaired(rows, matrix, exempt)
    if repaired is None:
        return Upper(None, None, reason)
    values, right = rows.values(repaired), rows.right
    if soft:
        pairs = zip(right.fractions()[: rows.m], values.fractions()[: rows.m], strict=True)
        short = sum((max(b - v, Fraction(0)) for b, v in pairs), Fraction(0))
        value = norm_of(norm).value_above(repaired)
        return Upper(value**2 / 2 + Fraction(budget) * short, repaired)
    if homogeneous:
        positive = rows.positive.nonzero()[0]
        worst = min(
            (Fraction(values.numerators[k], right.numerators[k]) for k in positive), default=None
        )
        if worst is None:
            return Upper(Fraction(0), Exact(matrix.numerators * 0))
        if worst <= 0:
            return Upper(None, None, "a margin with b > 0 is not positive")
        repaired = repaired.times(values.denominator / (worst * right.denominator))
    return Upper(norm_of(norm).value_above(repaired), repaired)


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
    """Whether integers (m + l,) prove exactly that no W exists."""
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
