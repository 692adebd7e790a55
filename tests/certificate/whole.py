"""Exact arithmetic of the judge: rows as integers, the least Frobenius norm, and exact repairs.

Floats become integers times powers of two, and elimination is without fractions. Nothing of the
library is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
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


# Steps, rows and entries beyond which the answer is not looked for.
STEPS, MOST_ROWS, MOST_ENTRIES = 150, 80, 64


@dataclass(frozen=True)
class Least:
    """x = numerators/denominator of least norm and multipliers over the same denominator; or, when
    `feasible` is False, multipliers that combine the rows to zero. None: not found."""

    feasible: bool | None
    x: Whole = None
    multipliers: Whole = None
    denominator: int = 1


@dataclass
class _State:
    """The rows as one-sided ones and the active set with its multipliers, over one denominator."""

    a: Whole
    right: list[int]
    free: list[bool]
    active: list[int] = field(default_factory=list)
    y: dict[int, int] = field(default_factory=dict)
    denominator: int = 1

    def __post_init__(self) -> None:
        self.gram = self.a.dot(self.a.T)

    def x(self) -> Whole:
        total = np.array([0] * self.a.shape[1], dtype=object)
        for k, v in self.y.items():
            if v:
                total = total + v * self.a[k]
        return total

    def gram_of(self, rows: list[int]) -> list[list[int]]:
        return [[self.gram[i, j] for j in rows] for i in rows]


def least_frobenius(rows: Rows) -> Least:
    """The exact solution, the exact proof that there is none, or neither for large problems.

    min ½‖x‖²  s.t.  a_k·x ≥ r_k  (and = on equalities), by Goldfarb and Idnani's dual active-set
    method, which is finite in exact arithmetic.
    """
    if rows.count > MOST_ROWS or rows.a.shape[1] > MOST_ENTRIES:
        return Least(None)
    places, signs, right, free = _one_sided(rows)
    a = np.array([rows.a[k] * s for k, s in zip(places, signs, strict=True)], dtype=object)
    state = _State(a.reshape(len(places), -1), right, free)
    proof = _equalities(state)
    if proof is None:
        proof = _ascend(state)
    if proof is False:
        return Least(None)
    multipliers = np.array([0] * rows.count, dtype=object)
    for k, v in (state.y if proof is None else proof).items():
        multipliers[places[k]] += signs[k] * v
    if proof is not None:
        return Least(False, None, multipliers)
    return Least(True, state.x(), multipliers, state.denominator)


def _one_sided(rows: Rows) -> tuple[list[int], list[int], list[int], list[bool]]:
    """Each row as a·x ≥ r; an interval as two of them; equalities come first."""
    found = []
    for k in range(rows.count):
        high = rows.high[k]
        if high is not None and rows.fixed(k):
            found.append((k, 1, rows.low[k], True))
        else:
            found.append((k, 1, rows.low[k], False))
            if high is not None:
                found.append((k, -1, -high, False))
    found.sort(key=lambda line: not line[3])
    return [list(column) for column in zip(*found, strict=True)] if found else ([], [], [], [])


def _equalities(state: _State) -> dict[int, int] | None:
    """Make the independent equalities active; a proof when they contradict each other."""
    ties = [k for k, is_free in enumerate(state.free) if is_free]
    if not ties:
        return None
    found = solve_gram(state.gram_of(ties), [state.right[k] for k in ties])
    used = [ties[i] for i in found.independent]
    if found.contradiction is not None:
        odd = ties[found.contradiction]
        proof = _dependence(state, used, odd)
        worth = sum(v * state.right[k] for k, v in proof.items())
        return {k: v if worth > 0 else -v for k, v in proof.items()}
    state.active = used
    state.y = {ties[i]: found.numerators[i] for i in found.independent}
    state.denominator = found.denominator
    return None


def _dependence(state: _State, used: list[int], odd: int) -> dict[int, int]:
    """Whole numbers that combine `odd` and the independent rows `used` to zero."""
    found = solve_gram(state.gram_of(used), [state.gram[k, odd] for k in used])
    proof = {k: -v for k, v in zip(used, found.numerators, strict=True)}
    proof[odd] = found.denominator
    return proof


def _ascend(state: _State) -> dict[int, int] | bool | None:
    """Add violated rows one by one: None when all hold, a proof if they cannot, False: gave up."""
    for _ in range(STEPS):
        x = state.x()
        short = [
            r * state.denominator - v for r, v in zip(state.right, state.a.dot(x), strict=True)
        ]
        wrong = [k for k, v in enumerate(short) if v > 0 and not state.free[k]]
        if not wrong:
            return None
        worst = max(wrong, key=lambda k: 2 * short[k].bit_length() - state.gram[k, k].bit_length())
        proof = _add(state, worst, short[worst])
        if proof is not None:
            return proof
    return False


def _add(state: _State, p: int, short: int) -> dict[int, int] | bool | None:
    """Raise the multiplier of row p until it holds, dropping rows whose multiplier reaches 0.

    short: denominator times what p lacks. With r = Gram⁻¹ A a_p and z = a_p − Aᵀr, a step t adds
    t·z to x, t to y_p and −t·r to y; ‖z‖² = a_p·a_p − r·(A a_p).
    """
    lack = Fraction(short, state.denominator)
    y = {k: Fraction(state.y[k], state.denominator) for k in state.active}
    own = Fraction(0)
    for _ in range(STEPS):
        rows = state.active
        beside = [state.gram[k, p] for k in rows]
        found = solve_gram(state.gram_of(rows), beside)
        den = found.denominator
        slope = Fraction(state.gram[p, p] * den - sum(map(_product, found.numerators, beside)), den)
        falls = [
            (y[k] * den / v, k)
            for k, v in zip(rows, found.numerators, strict=True)
            if v > 0 and not state.free[k]
        ]
        first = min(falls, default=None)
        full = lack / slope if slope > 0 else None
        if first is None and full is None:
            proof = {k: -v for k, v in zip(rows, found.numerators, strict=True)}
            return {**proof, p: den}
        step = full if first is None or (full is not None and full <= first[0]) else first[0]
        assert step is not None
        for k, v in zip(rows, found.numerators, strict=True):
            y[k] -= step * Fraction(v, den)
        own += step
        lack -= step * slope
        if full is not None and step == full:
            y[p] = own
            state.active = [*rows, p]
            _store(state, y)
            return None
        assert first is not None
        state.active = [k for k in rows if k != first[1]]
        del y[first[1]]
    return False


def _product(v: int, w: int) -> int:
    return v * w


def _store(state: _State, y: dict[int, Fraction]) -> None:
    """Keep the multipliers over one denominator."""
    common = 1
    for v in y.values():
        common = common * v.denominator // gcd(common, v.denominator)
    state.denominator = common
    state.y = {k: int(v * common) for k, v in y.items()}


# Rounds in which rows that are still missed are added to those that are restored.
ROUNDS = 6
# Rows beyond which an exact least change takes too long.
MOST = 60


@dataclass(frozen=True)
class Point:
    """The matrix whole/denominator (d, dq); the denominator is positive and may be a Fraction."""

    whole: Whole
    denominator: Fraction | int


def point_of(W: Any) -> Point:
    """A matrix of floats."""
    M, exponent = whole(W)
    if M.ndim == 1:
        M = M[:, None]
    if exponent >= 0:
        return Point(M * (1 << exponent), 1)
    return Point(M, 1 << -exponent)


def meets(rows: Rows, point: Point, *, only_ties: bool = False) -> bool:
    """Whether the matrix meets every row exactly."""
    return not _missed(rows, point, 0 if not only_ties else rows.m)


def _missed(rows: Rows, point: Point, first: int = 0) -> list[tuple[int, int]]:
    """Rows that are missed from `first` on, each with the right-hand side it should have."""
    found = []
    for k, v in enumerate(rows.values(point.whole.ravel())):
        high = rows.high[k]
        if k < first:
            continue
        if v < rows.low[k] * point.denominator:
            found.append((k, rows.low[k]))
        elif high is not None and v > high * point.denominator:
            found.append((k, high))
    return found


def repaired(rows: Rows, W: Any, *, only_ties: bool = False) -> Point | None:
    """W with the least change that restores ties and rows that are missed, then scaled up.

    None when nothing near W was found. Without right-hand sides on the ties, margins b > 0 are
    left to the scaling. only_ties: margins are not asked for.
    """
    if W is None or not np.isfinite(W).all():
        return None
    start = point_of(W)
    homogeneous = all(rows.low[k] == rows.high[k] == 0 for k in range(rows.m, rows.count))
    restored: dict[int, int] = {k: rows.low[k] for k in range(rows.m, rows.count) if rows.fixed(k)}
    point: Point | None = start
    for _ in range(ROUNDS):
        if restored:
            if len(restored) > MOST:
                return None
            point = _least_change(rows, start, restored)
        if point is None:
            return None
        missed = _missed(rows, point, rows.m if only_ties else 0)
        if homogeneous:
            missed = [(k, v) for k, v in missed if v == 0]
        new = {k: v for k, v in missed if k not in restored}
        if not missed:
            return point if only_ties else _scaled(rows, point)
        if not new:
            return None
        restored.update(new)
    return None


def _least_change(rows: Rows, start: Point, restored: dict[int, int]) -> Point | None:
    """start plus the least change that gives each restored row its right-hand side.

    The change is Aᵀy with (A Aᵀ) y = right − A·start; None when that has no solution.
    """
    places = list(restored)
    A = rows.a[places]
    gap = [
        restored[k] * start.denominator - v
        for k, v in zip(places, A.dot(start.whole.ravel()), strict=True)
    ]
    if not any(gap):
        return start
    found = solve_gram([list(line) for line in A.dot(A.T)], gap)
    if found.contradiction is not None:
        return None
    change = np.array(found.numerators, dtype=object).dot(A)
    moved = start.whole.ravel() * found.denominator + change
    return Point(moved.reshape(start.whole.shape), start.denominator * found.denominator)


def _scaled(rows: Rows, point: Point) -> Point | None:
    """The point divided by its worst share of a positive margin, where ties allow it."""
    values = rows.values(point.whole.ravel())
    shares = [Fraction(int(values[k]), rows.low[k]) for k in range(rows.m) if rows.low[k] > 0]
    if not shares or any(rows.low[k] or rows.high[k] for k in range(rows.m, rows.count)):
        return point if not _missed(rows, point) else None
    worst = min(shares)
    # W / (worst / denominator) has denominator `worst`.
    return Point(point.whole, worst) if worst > 0 else None
