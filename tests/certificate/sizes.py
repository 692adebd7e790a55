"""Norms of matrices of whole numbers, compared with bounds: exactly, or in many digits.

Frobenius, l1, max, whole powers and the spectral norm are compared without any rounding; other
powers and the nuclear norm in mpmath, with digits to spare. Nothing of the library is used.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from tests.certificate.whole import Whole, is_psd

DIGITS = 60
# Two numbers of so many digits that differ by less than this share are the same number.
SAME = Fraction(1, 10**50)

Norm = str | Fraction  # "nuclear", "spectral", "max", or the power of an entrywise norm


def norm_called(name: str) -> Norm:
    """The norm of this name: 'frobenius' and 'l1' are powers 2 and 1."""
    if name in ("nuclear", "spectral", "max"):
        return name
    return Fraction(2) if name == "frobenius" else Fraction(name[1:])


def dual_of(norm: Norm) -> Norm:
    """The dual norm."""
    pairs: dict[Norm, Norm] = {
        "nuclear": "spectral", "spectral": "nuclear", "max": Fraction(1), Fraction(1): "max"
    }  # fmt: skip
    if norm in pairs:
        return pairs[norm]
    assert isinstance(norm, Fraction)
    return norm / (norm - 1)


def at_most(norm: Norm, M: Whole, square: Fraction) -> bool:
    """Whether ‖M‖² ≤ square, for a matrix M (d, dq) of ints."""
    if square < 0:
        return False
    top, bottom = square.numerator, square.denominator
    norm = _plain(norm, M)
    if norm == "max":
        return max((abs(v) for v in M.flat), default=0) ** 2 * bottom <= top
    if norm == "spectral":
        S = _small_gram(M)
        return is_psd(top * np.eye(len(S), dtype=int).astype(object) - bottom * S)
    if isinstance(norm, Fraction) and norm.denominator == 1:
        p = norm.numerator
        total = sum(abs(v) ** p for v in M.flat)
        if p == 2:
            return total * bottom <= top
        return bool(total**2 * bottom**p <= top**p)
    if not M.any():
        return True
    if square == 0:
        return False
    with mpmath.workdps(DIGITS):
        ratio = value(norm, M) ** 2 * bottom / top
        return bool(ratio <= 1 + mpmath.mpf(SAME.numerator) / SAME.denominator)


def value(norm: Norm, M: Whole) -> Any:
    """‖M‖ as a number of mpmath, to DIGITS digits."""
    with mpmath.workdps(DIGITS):
        norm = _plain(norm, M)
        if norm == "max":
            return mpmath.mpf(max((abs(v) for v in M.flat), default=0))
        if isinstance(norm, Fraction):
            p = mpmath.mpf(norm.numerator) / norm.denominator
            top = max((abs(v) for v in M.flat), default=0)
            if top == 0:
                return mpmath.mpf(0)
            if norm == 2:
                return mpmath.sqrt(sum(v * v for v in M.flat))
            return top * mpmath.fsum((mpmath.mpf(abs(v)) / top) ** p for v in M.flat if v) ** (
                1 / p
            )
        squares = _squares(M)
        if norm == "spectral":
            return mpmath.sqrt(max(squares))
        return mpmath.fsum(mpmath.sqrt(max(s, 0)) for s in squares)


def _plain(norm: Norm, M: Whole) -> Norm:
    """A norm of singular values of a matrix of rank one or less is the Frobenius norm."""
    return Fraction(2) if norm in ("nuclear", "spectral") and min(M.shape) == 1 else norm


def _small_gram(M: Whole) -> Whole:
    """MᵀM or MMᵀ, the smaller one."""
    return M.T.dot(M) if M.shape[0] >= M.shape[1] else M.dot(M.T)


def _squares(M: Whole) -> list[Any]:
    """The squares of the singular values, in twice the digits that their roots keep."""
    with mpmath.workdps(2 * DIGITS + 10):
        S = _small_gram(M)
        top = max(int(v) for v in S.flat) or 1
        scaled = mpmath.matrix([[mpmath.mpf(int(v)) / top for v in line] for line in S])
        if len(S) == 1:
            found = [scaled[0, 0]]
        else:
            found = list(mpmath.eigsy(scaled, eigvals_only=True))
        return [v * top for v in found]


def number(square: Fraction) -> float:
    """The root of a rational as a float, for people to read."""
    with mpmath.workdps(DIGITS):
        return float(mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator))
