"""Method: how a norm is solved on unit rows, with and without a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from attsvm.norms.norm import Inner


def dense(k: int, N: int) -> float:
    """Bytes of six k × k matrices and four copies of k rows of N unknowns: measured peaks."""
    return 8.0 * (6.0 * k * k + 4.0 * k * N)


class Method(NamedTuple):
    """What works on unit rows, in a space where the least Frobenius norm is 1.

    inner(D, Z, b, free, tol=…, W0=…, lam0=…) and soft(rows, tol=…, W0=…, lam0=…) return the best
    (W, λ) found, which nobody trusts; need(k, N): the bytes that k rows of N unknowns take.
    """

    inner: Inner
    soft: Inner
    need: Callable[[int, int], float] = dense
