"""The norms, by name: `frobenius`, `nuclear`, `spectral`, `max`, `l1`, and `lP` for any P > 1."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from attsvm._utils.expected import shown
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms.entrywise import FrobeniusNorm, L1Norm, LpNorm, MaxNorm
from attsvm.norms.matrix import NuclearNorm, SpectralNorm
from attsvm.norms.norm import Norm, check_norm

__all__ = ["NORMS", "Norm", "check_shape", "is_listed", "norm_of"]

NORMS: dict[str, type[Norm]] = {
    "frobenius": FrobeniusNorm,
    "nuclear": NuclearNorm,
    "spectral": SpectralNorm,
    "max": MaxNorm,
    "l1": L1Norm,
    "lP": LpNorm,
}


# The classes whose contract need not be checked: those listed, and custom ones that passed.
_KNOWN: set[type[Norm]] = set(NORMS.values())
# Digits of P: beyond them float and fraction part ways.
_LONGEST = 12
_POWER = re.compile(r"l(\d+(?:\.\d+)?|\.\d+)")


def norm_of(norm: str | Norm | object) -> Norm:
    """The norm of this name; a Norm is returned unchanged.

    Parameters
    ----------
    norm : str or Norm
        frobenius, nuclear, spectral, max, l1, or lP with a number P > 1, such as l1.75. The
        contract of a custom class is checked once, on its first object.

    Returns
    -------
    Norm

    Raises
    ------
    Unsupported
        If there is no norm of this name, or a custom norm violates the contract.

    Examples
    --------
    >>> norm_of("l1.75").exponent
    Fraction(7, 4)
    """
    if isinstance(norm, str):
        return _named(norm)
    if isinstance(norm, Norm):
        if type(norm) not in _KNOWN:
            _admit(norm)
        return norm
    if isinstance(norm, type) and issubclass(norm, Norm):
        raise Unsupported(f"{norm.__name__} is a class: give an object of it, {norm.__name__}()")
    raise Unsupported(
        "a norm is a name, such as 'nuclear', or an object of a subclass of attsvm.Norm; "
        f"this is {shown(norm)}"
    )


def check_shape(norm: Norm, shape: tuple[int, int]) -> None:
    """Raises BadTokens unless the norm takes matrices of this shape."""
    if norm.shape is not None and tuple(norm.shape) != tuple(shape):
        raise BadTokens(f"norm {norm.name} is for W of shape {norm.shape}; this one is {shape}")


def is_listed(name: str) -> bool:
    """Whether a norm of this name is one of the library's."""
    try:
        _named(name)
    except Unsupported:
        return False
    return True


def _admit(norm: Norm) -> None:
    """Raises Unsupported unless the norm keeps its contract and has a new name."""
    check_norm(norm)
    if is_listed(norm.name):
        raise Unsupported(
            f"{type(norm).__name__} has the name {norm.name!r} of another norm: give it a new name"
        )
    _KNOWN.add(type(norm))


@cache
def _named(name: str) -> Norm:
    if name in NORMS and name != "lP":
        return NORMS[name]()
    match = _POWER.fullmatch(name)
    if match is None:
        known = ", ".join(key for key in NORMS if key != "lP")
        raise Unsupported(f"unknown norm {shown(name)}: known are {known}, and lP such as l1.75")
    if len(match[1]) > _LONGEST:
        raise Unsupported(f"norm {name[:16]!r}… has too many digits: {_LONGEST} at most")
    exponent = Fraction(match[1])
    if exponent == 1:
        return L1Norm()
    if exponent < 1:
        raise Unsupported(f"norm {name!r} has P = {match[1]}: lP needs P > 1 (l1 is the limit)")
    return LpNorm(name, exponent=exponent)
