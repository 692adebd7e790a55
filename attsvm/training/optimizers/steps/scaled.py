"""Arithmetic on stacks of arrays in scaled form, direction × e^log_scale, without overflow.

The size of a direction is never taken from a sum of squares that could leave the range of floats,
and a gradient is zero when its direction is zero or its log_scale is −inf.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats

# Squares add up safely while their sum stays between these.
_SMALLEST, _GREATEST = 1e-280, 1e280
# e to this power is still a float.
LARGEST_LOG = 700.0


def over(values: Floats, stack: Floats) -> Floats:
    """values (B,) shaped (B, 1, ...), to multiply each array of a stack (B, ...)."""
    return values.reshape(-1, *(1,) * (stack.ndim - 1))


def peak(G: Floats) -> Floats:
    """The largest |entry| of each array of a stack: (B,)."""
    return np.abs(G).reshape(len(G), -1).max(axis=1, initial=0.0)


def length(G: Floats) -> Floats:
    """The Frobenius norm of each array of a stack: (B,)."""
    flat = G.reshape(len(G), -1)
    squares = np.einsum("bi,bi->b", flat, flat)
    if ((squares > _SMALLEST) & (squares < _GREATEST)).all():
        return np.sqrt(squares)
    top = peak(G)
    flat = flat / np.where(top == 0, 1.0, top)[:, None]
    return top * np.sqrt(np.einsum("bi,bi->b", flat, flat))


def log(x: Floats) -> Floats:
    """The logarithm of x ≥ 0, −inf at zero."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def log_of(x: float) -> float:
    """The logarithm of one number x ≥ 0, −inf at zero."""
    return math.log(x) if x > 0 else -math.inf


def unit(G: Floats, size: Floats, log_scale: Floats) -> Floats:
    """G / size for each array of a stack, exactly zero where the gradient is zero."""
    zero = (size == 0) | (log_scale == -np.inf)
    return G / over(np.where(zero, np.inf, size), G)


def grown(logs: Floats, G: Floats) -> Floats:
    """e^logs G for logs (B,): zero where it underflows, ±inf where it is too large for floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = over(np.exp(logs), G) * G
    return out if (logs < LARGEST_LOG).all() else np.where(G == 0, 0.0, out)
