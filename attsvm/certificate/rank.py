"""How independent rows surely are: a proved lower bound on the least singular value of unit rows.

What rounding leaves on k rows A (unit, as vectors) can be removed by a change of Frobenius norm at
most ‖left‖/σ_min(A), if σ_min > 0. A computed σ_min proves that only beyond its own error: below
it, rows may be independent, dependent and consistent, or dependent and contradictory, and floats
cannot tell which.

Theory: singular values move by at most ‖δA‖ [higham2002accuracy].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms.norm import UNIT

# The Gram squares singular values: below this eigenvalue the rows themselves are looked at.
_CLEAR = 1e-8
# Numbers in the dense rows at most.
_DENSE = 40_000_000
# Rows beyond which only their least singular value is found, without vectors.
_VECTORS = 1000
# An eigenvalue or singular value errs by this many units for each row and column.
_EACH = 16


@dataclass(frozen=True)
class Independence:
    """sigma: a proved lower bound of σ_min, 0 when nothing is proved; solve(gap) (k,): y with
    A Aᵀ y ≈ gap, by least squares."""

    sigma: float
    solve: Callable[[Floats], Floats]


def least_singular(A: Floats, Z: Floats) -> float:
    """A proved lower bound of σ_min of the unit rows A_k z_kᵀ, 0 when nothing is proved."""
    if len(A) <= _VECTORS:
        return independence(A, Z).sigma
    low = float(np.linalg.eigvalsh((A @ A.T) * (Z @ Z.T))[0]) - _gram_error(A, Z)
    return sqrt(max(low, 0.0))


def _gram_error(A: Floats, Z: Floats) -> float:
    """How far a computed eigenvalue of the Gram may be off: its entries are at most 1."""
    k = len(A)
    return (_EACH * k + 2 * (A.shape[1] + Z.shape[1]) + 16) * UNIT * k


def independence(A: Floats, Z: Floats) -> Independence:
    """The independence of the unit rows A_k z_kᵀ, A (k, d) and Z (k, dq)."""
    k, d = A.shape
    dq = Z.shape[1]
    level, Q = np.linalg.eigh((A @ A.T) * (Z @ Z.T))
    error = _gram_error(A, Z)
    low = float(level[0]) - error
    dense = k * d * dq <= _DENSE
    if low > _CLEAR or not dense:
        solid = level > max(error, 0.0)
        return Independence(sqrt(max(low, 0.0)), _inverse(Q[:, solid], level[solid]))
    F = (A[:, :, None] * Z[:, None, :]).reshape(k, -1)
    Q, sigma, _ = np.linalg.svd(F, full_matrices=False)
    # The rows' own entries err by a few units each, the decomposition by more with the size.
    error = (_EACH * (k + d * dq) * float(sigma[0]) + _EACH * sqrt(k)) * UNIT
    low = float(sigma[-1]) - error if k <= d * dq else 0.0
    solid = sigma > 4 * UNIT * float(sigma[0])
    return Independence(max(low, 0.0), _inverse(Q[:, solid], sigma[solid] ** 2))


def _inverse(Q: Floats, level: Floats) -> Callable[[Floats], Floats]:
    """y = Q diag(1/level) Qᵀ gap."""
    return lambda gap: Q @ ((Q.T @ gap) / level)
