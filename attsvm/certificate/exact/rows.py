"""The rows of a problem as integers: exact values, adjoints and Gram entries.

Margins and ties stand in one list, the m margins first and the l ties after them:

    row k:  Δ_kᵀ W z_k  against  right_k      (≥ for a margin, = for a tie)

Floats are dyadic rationals, so Δ_k = keys[hi_k] − keys[lo_k] and z_k become integers over a power
of two without any rounding; the difference of two keys, which may round in floats, is exact here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from attsvm.certificate.exact.lifting import modulo
from attsvm.errors import BadTokens
from attsvm.norms.rational import Exact, Integers

if TYPE_CHECKING:
    from attsvm.problem.problem import Problem

Index = NDArray[np.int64]

# Rows whose products with W are formed at once: bounds the memory, about 100 bytes a number.
_BLOCK = 1 << 12


@final
@dataclass(frozen=True, eq=False)
class IntegerRows:
    """delta (m + l, d) and queries (g, dq), integers; row k is delta_k queries[query_k]ᵀ / unit.

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
