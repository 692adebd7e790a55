"""Numbers between two decimals, by directed rounding, and the losses of such numbers."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

Array = np.ndarray
NEAR, DOWN, UP = (
    decimal.Context(60, rounding, decimal.MIN_EMIN, decimal.MAX_EMAX)
    for rounding in (decimal.ROUND_HALF_EVEN, decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
)


def need(fact: object, sentence: str, code: int = 1) -> None:
    """Raises unless the fact holds; code 1: a claim is false, 2: the file is unreadable."""
    if not fact:
        raise (ArithmeticError if code == 1 else ValueError)(sentence)


class Real:
    """A number between two decimals; x < y only if that is certain."""

    __slots__ = ("hi", "lo")

    def __init__(self, lo: Decimal, hi: Decimal) -> None:
        self.lo, self.hi = lo, hi

    def __add__(self, other: object) -> "Real":
        b = real(other)
        return Real(DOWN.add(self.lo, b.lo), UP.add(self.hi, b.hi))

    def __neg__(self) -> "Real":
        return Real(self.hi.copy_negate(), self.lo.copy_negate())

    def __sub__(self, other: object) -> "Real":
        return self + -real(other)

    def __rsub__(self, other: object) -> "Real":
        return real(other) + -self

    def __mul__(self, other: object) -> "Real":
        b = real(other)
        if self.lo >= 0 and b.lo >= 0:
            return Real(DOWN.multiply(self.lo, b.lo), UP.multiply(self.hi, b.hi))
        ends = [(x, y) for x in (self.lo, self.hi) for y in (b.lo, b.hi)]
        return Real(min(DOWN.multiply(*e) for e in ends), max(UP.multiply(*e) for e in ends))

    def __truediv__(self, other: object) -> "Real":
        b = real(other)
        need(b.lo > 0, "a divisor is not known to be positive")
        return self * Real(DOWN.divide(Decimal(1), b.hi), UP.divide(Decimal(1), b.lo))

    def __rtruediv__(self, other: object) -> "Real":
        return real(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: object) -> bool:
        return self.hi < real(other).lo

    def __le__(self, other: object) -> bool:
        return self.hi <= real(other).lo

    def __gt__(self, other: object) -> bool:
        return self.lo > real(other).hi

    def __ge__(self, other: object) -> bool:
        return self.lo >= real(other).hi


def real(x: object) -> Real:
    """A Real as it is; an integer, float or fraction between two decimals."""
    if isinstance(x, Real):
        return x
    return ratio(*Fraction(x).as_integer_ratio())  # type: ignore[arg-type]


def ratio(n: int, d: int) -> Real:
    """n/d for integers, d > 0."""
    return Real(DOWN.divide(Decimal(n), Decimal(d)), UP.divide(Decimal(n), Decimal(d)))


def exp(x: Real) -> Real:
    """e^x: decimal's exp, ln and sqrt are correctly rounded, so one unit each side is enough."""
    return Real(max(NEAR.next_minus(NEAR.exp(x.lo)), Decimal(0)), NEAR.next_plus(NEAR.exp(x.hi)))


def ln(x: Real) -> Real:
    need(x > 0, "the argument of a logarithm is not known to be positive")
    return Real(NEAR.next_minus(NEAR.ln(x.lo)), NEAR.next_plus(NEAR.ln(x.hi)))


def sqrt(x: object) -> Real:
    """The root; what may be negative by rounding counts from zero."""
    lo, hi = (NEAR.sqrt(max(end, Decimal(0))) for end in (real(x).lo, real(x).hi))
    return Real(max(NEAR.next_minus(lo), Decimal(0)), NEAR.next_plus(hi))


def largest(values: object) -> Real:
    """The largest of some Reals."""
    every = [real(x) for x in values]  # type: ignore[attr-defined]
    return Real(max(x.lo for x in every), max(x.hi for x in every))


def smallest(values: object) -> Real:
    return -largest([-real(x) for x in values])  # type: ignore[attr-defined]


def array(values: object) -> Array:
    """A vector of Reals."""
    return np.array([real(x) for x in values], object)  # type: ignore[attr-defined]


def integers(values: Array) -> tuple[Array, int]:
    """Floats as integers over one positive denominator, exactly."""
    pairs = [x.as_integer_ratio() for x in values.ravel().tolist()]
    below = math.lcm(*(d for _, d in pairs))
    return np.array([n * (below // d) for n, d in pairs], object).reshape(values.shape), below


def loss_value(name: str, x: Real) -> Real:
    e = exp(-x) if name != "linear" else -x
    return ln(1 + e) if name == "logistic" else e


def slope(name: str, x: Real) -> Real:
    """|ℓ'| on x, which falls for every loss here."""
    if name == "logistic":
        return 1 / (1 + exp(x))
    return exp(-x) if name == "exponential" else real(1)


def bend(name: str, x: Real) -> Real:
    """The largest ℓ'' on x: at its end next to 0 (logistic), at its lower end (exponential)."""
    if name == "linear":
        return real(0)
    at = max(x.lo, min(x.hi, Decimal(0))) if name == "logistic" else x.lo
    e = exp(Real(at, at))
    return 1 / (2 + e + 1 / e) if name == "logistic" else 1 / e
