"""The least Frobenius norm exactly: a dual active-set method in whole numbers.

    min ½‖x‖²  s.t.  a_k·x ≥ r_k  (and = on equalities)

Every step is exact, so the method ends with the one solution and its multipliers, or with a
combination of rows that proves that there is none. Floats only guess where to start.
Theory: Goldfarb and Idnani's method, which is finite in exact arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
from scipy.optimize import nnls

from tests.certificate.whole import Rows, Whole, solve_gram

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

    def reduce(self) -> None:
        common = gcd(self.denominator, *self.y.values())
        if common > 1:
            self.denominator //= common
            self.y = {k: v // common for k, v in self.y.items()}


def least_frobenius(rows: Rows) -> Least:
    """The exact solution, the exact proof that there is none, or neither for large problems."""
    if rows.count > MOST_ROWS or rows.a.shape[1] > MOST_ENTRIES:
        return Least(None)
    places, signs, right, free = _one_sided(rows)
    a = np.array([rows.a[k] * s for k, s in zip(places, signs, strict=True)], dtype=object)
    state = _State(a.reshape(len(places), -1), right, free)
    proof = _equalities(state)
    if proof is None:
        _guess(state)
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


def _guess(state: _State) -> None:
    """Add margins that floats take for active, as far as exact multipliers agree."""
    margins = [k for k in _float_support(state) if not state.free[k]]
    base = list(state.active)
    while margins:
        rows = base + margins
        found = solve_gram(state.gram_of(rows), [state.right[k] for k in rows])
        if found.contradiction is not None:
            margins = [k for k in margins if k != rows[found.contradiction]]
            continue
        kept = [rows[i] for i in found.independent]
        wrong = [k for k, v in zip(rows, found.numerators, strict=True) if v < 0 and k in margins]
        if not wrong:
            state.active = kept
            state.y = {rows[i]: found.numerators[i] for i in found.independent}
            state.denominator = found.denominator
            state.reduce()
            return
        margins = [k for k in margins if k not in wrong and k in kept]


def _float_support(state: _State) -> list[int]:
    """Rows with a positive multiplier in a float solution; any list will do."""
    scaled, levels = [], []
    for line, level in zip(state.a, state.right, strict=True):
        bits = max((abs(v).bit_length() for v in line), default=0)
        drop = max(bits - 60, 0)
        numbers = np.array([float(v >> drop) for v in line])
        size = float(np.linalg.norm(numbers)) or 1.0
        scaled.append(numbers / size)
        levels.append(_ratio(level, 1 << drop) / size)
    b = np.array(levels)
    top = float(np.abs(b).max(initial=0.0)) or 1.0
    if not np.isfinite(top):
        return []
    A, b = np.array(scaled), b / top
    ties = np.array(state.free)
    E = np.concatenate([np.c_[A, b], -np.c_[A, b][ties]]).T
    target = np.zeros(len(E))
    target[-1] = 1.0
    try:
        u = nnls(E, target)[0]
    except RuntimeError:
        return []
    return [int(k) for k in u[: len(A)].nonzero()[0]]


def _ratio(top: int, bottom: int) -> float:
    try:
        return float(Fraction(top, bottom))
    except OverflowError:
        return np.inf if top > 0 else -np.inf


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


def floats_of(found: Least, shape: tuple[int, int]) -> Any:
    """The solution rounded to floats, for people to read."""
    return np.array([_ratio(int(v), found.denominator) for v in found.x]).reshape(shape)
