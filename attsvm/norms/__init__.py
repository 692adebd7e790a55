"""The norms, by name: `frobenius`, `nuclear`, `spectral`, `max`, `l1`, and `lP` for any P > 1."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from attsvm.errors import Unsupported
from attsvm.norms.entrywise import Largest, Power, Sum
from attsvm.norms.frobenius import Frobenius
from attsvm.norms.matrix import Nuclear, Spectral
from attsvm.norms.norm import Norm

NORMS: dict[str, type[Norm]] = {
    "frobenius": Frobenius,
    "nuclear": Nuclear,
    "spectral": Spectral,
    "max": Largest,
    "l1": Sum,
    "lP": Power,
}


# Digits of P: beyond them float and fraction part ways.
_LONGEST = 12
_POWER = re.compile(r"l(\d+(?:\.\d+)?|\.\d+)")


def norm_of(norm: str | Norm) -> Norm:
    """The norm of this name; a Norm is handed back as it is.

    >>> norm_of("l1.75").exponent
    Fraction(7, 4)
    """
    if isinstance(norm, Norm):
        return norm
    if not isinstance(norm, str):
        raise Unsupported(f"a norm is given by name, such as 'nuclear'; this is {norm!r}")
    return _named(norm)


@cache
def _named(name: str) -> Norm:
    if name in NORMS and name != "lP":
        return NORMS[name]()  # type: ignore[call-arg]
    match = _POWER.fullmatch(name)
    if match is None:
        known = ", ".join(key for key in NORMS if key != "lP")
        raise Unsupported(f"unknown norm {name!r}: known are {known}, and lP such as l1.75")
    if len(match[1]) > _LONGEST:
        raise Unsupported(f"norm {name[:16]!r}… has too many digits: {_LONGEST} at most")
    exponent = Fraction(match[1])
    if exponent == 1:
        return Sum()
    if exponent < 1:
        raise Unsupported(f"norm {name!r} has P = {match[1]}: lP needs P > 1 (l1 is the limit)")
    return Power(name, exponent=exponent)
