"""Floats as whole numbers, the rows of a problem in them, and elimination without fractions.

A float is a whole number times a power of two, so every sum and product of the data is computed
here without any rounding. Nothing of the library is used: a problem is read for its arrays alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Whole = Any  # an array of Python ints (dtype object)


def power(exponent: int) -> Fraction:
    """2^exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def parts(values: Any) -> tuple[Any, Any]:
    """Odd whole numbers and exponents with value = number · 2^exponent, entry by entry."""
    array = np.asarray(values, dtype=np.float64)
    fraction, exponent = np.frexp(array)
    number = np.ldexp(fraction, 53).astype(np.int64)
    lowest = np.where(number == 0, 1, number & -number)
    zeros = np.log2(lowest.astype(np.float64)).astype(np.int64)
    return number >> zeros, np.where(number == 0, 0, exponent.astype(np.int64) - 53 + zeros)


def whole(values: Any) -> tuple[Whole, int]:
    """An array of ints and one exponent: values = ints · 2^exponent exactly."""
    number, exponent = parts(values)
    used = exponent[number != 0]
    least = int(used.min()) if used.size else 0
    lift = np.where(number == 0, 0, exponent - least)
    out = np.empty(number.shape, dtype=object)
    out.flat = [int(n) << int(e) for n, e in zip(number.flat, lift.flat, strict=True)]
    return out, least


@dataclass(frozen=True)
class Rows:
    """Margins and then ties, each times a power of two of its own: low ≤ a·vec(W) ≤ high.

    a (k, d·dq), low (k,), high (k,) hold ints, high is None on margins; row k of the problem is
    a_k 2^shift_k with right-hand side low_k 2^shift_k. m: the number of margins.
    """

    a: Whole
    low: list[int]
    high: list[int | None]
    shift: list[int]
    m: int
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """Margins and ties together."""
        return len(self.low)

    def fixed(self, k: int) -> bool:
        """Whether row k is an equality."""
        return self.low[k] == self.high[k]

    def values(self, W: Whole) -> Whole:
        """a·vec(W) for a flat array of ints."""
        return self.a.dot(W)


def rows_of(problem: Any) -> Rows:
    """The rows of a problem from its arrays: differences of floats are taken exactly."""
    l = len(problem.tie_hi)
    K, key_exponent = whole(problem.keys)
    Z, query_exponent = whole(problem.queries)
    hi = np.concatenate([problem.hi, problem.tie_hi]).astype(int)
    lo = np.concatenate([problem.lo, problem.tie_lo]).astype(int)
    query = np.concatenate([problem.query, problem.tie_query]).astype(int)
    D = K[hi]
    pair = lo >= 0
    D[pair] = D[pair] - K[lo[pair]]
    a = (D[:, :, None] * Z[query][:, None, :]).reshape(len(hi), -1)
    error = getattr(problem, "c_error", None)
    error = np.zeros(l) if error is None else np.asarray(error, dtype=np.float64)
    right, right_exponent = whole(np.concatenate([problem.b, problem.c, error]))
    m = len(problem.hi)
    base = min(key_exponent + query_exponent, right_exponent)
    lift, raised = key_exponent + query_exponent - base, right_exponent - base
    low: list[int] = []
    high: list[int | None] = []
    shift = []
    for k in range(len(hi)):
        level = right[k] << raised
        room = right[k + l] << raised if k >= m else 0
        entries = [int(v) << lift for v in a[k]]
        ends = [level - room, level + room]
        common = 0
        for v in (*entries, *ends):
            common |= v  # the lowest set bit of all of them
        drop = (common & -common).bit_length() - 1 if common else 0
        a[k] = [v >> drop for v in entries]
        low.append(ends[0] >> drop)
        high.append(ends[1] >> drop if k >= m else None)
        shift.append(base + drop)
    d, dq = int(problem.keys.shape[1]), int(problem.queries.shape[1])
    return Rows(a, low, high, shift, m, (d, dq))


def combined(rows: Rows, weights: Whole) -> tuple[Whole, int, int]:
    """G = Σ y_k row_k (d·dq,), the least Σ y_k (right-hand side), and their common exponent.

    weights: ints on the rows of the problem, ≥ 0 on margins. A tie that is an interval counts
    with the end that its sign makes worse.
    """
    used = [k for k in range(rows.count) if weights[k]]
    if not used:
        return np.array([0] * rows.a.shape[1], dtype=object), 0, 0
    least = min(rows.shift[k] for k in used)
    y = np.array([int(weights[k]) << (rows.shift[k] - least) for k in used], dtype=object)
    worth = sum(
        v * (rows.low[k] if v > 0 or rows.high[k] is None else rows.high[k])
        for v, k in zip(y, used, strict=True)
    )
    return y.dot(rows.a[used]), worth, least


@dataclass(frozen=True)
class Solved:
    """A solution of Gram·y = right: y_k = numerators_k / denominator; 0 on dependent rows.

    independent: the rows that were used; contradiction: the first dependent row whose right-hand
    side is not the one that the others imply, None without one.
    """

    numerators: list[int]
    denominator: int
    independent: list[int]
    contradiction: int | None


def solve_gram(gram: list[list[int]], right: list[int]) -> Solved:
    """The exact solution for a positive semi-definite matrix of ints, by Bareiss' elimination.

    A pivot of zero means that the row depends on those before it.
    """
    n = len(right)
    M = [[*gram[i], right[i]] for i in range(n)]
    before = 1
    independent: list[int] = []
    contradiction = None
    for k in range(n):
        pivot = M[k][k]
        if pivot == 0:
            if M[k][n] != 0:
                contradiction = k
                break
            continue
        independent.append(k)
        top = M[k]
        for i in range(k + 1, n):
            line, factor = M[i], top[i]
            for j in range(i, n + 1):
                line[j] = (pivot * line[j] - factor * top[j]) // before
        before = pivot
    numerators = [0] * n
    for k in reversed(independent):
        rest = before * M[k][n]
        for j in independent:
            if j > k:
                rest -= M[k][j] * numerators[j]
        numerators[k] = rest // M[k][k]
    return Solved(numerators, before, independent, contradiction)


def is_psd(matrix: Whole) -> bool:
    """Whether a symmetric matrix of ints is positive semi-definite, exactly."""
    M = [[int(v) for v in line] for line in matrix]
    n, before = len(M), 1
    for k in range(n):
        pivot = M[k][k]
        if pivot < 0 or (pivot == 0 and any(M[k][k + 1 :])):
            return False
        if pivot == 0:
            continue
        for i in range(k + 1, n):
            factor = M[k][i]
            for j in range(i, n):
                M[i][j] = (pivot * M[i][j] - factor * M[k][j]) // before
        before = pivot
    return True
