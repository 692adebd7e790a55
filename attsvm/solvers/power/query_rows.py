"""Rows vec(D_k Z_kᵀ) that share queries, as a matrix that is never stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm.solvers.lp_interior_point.gram import Groups, weighted_gram

Array = NDArray[np.float64]

# Numbers in k rows of N unknowns from which they are not stacked.
MANY = 300_000
TALL = 0.6  # columns per row below which the rows are eliminated first, and stacked for that


class QueryRows:
    """A (k, dx·dz) with rows vec(D_k Z_kᵀ): A @ w, λ @ A, A[rows] and A diag(D) Aᵀ.

    >>> import numpy as np
    >>> A = QueryRows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0], [5.0]]))
    >>> A.shape, (A @ np.ones(2)).tolist(), (np.ones(2) @ A).tolist()
    ((2, 2), [3.0, 35.0], [16.0, 22.0])
    """

    # NumPy leaves λ @ A to this class.
    __array_ufunc__ = None

    def __init__(self, D: Array, Z: Array) -> None:
        self.D, self.Z = D, Z
        self.shape = (len(D), D.shape[1] * Z.shape[1])
        self.groups = Groups.of(Z)
        self.sorted = np.ascontiguousarray(D[self.groups.order])
        g = len(self.groups.queries)
        self.first = np.searchsorted(self.groups.query, np.arange(g))

    def __matmul__(self, w: Array) -> Array:
        W = w.reshape(self.D.shape[1], -1)
        pulled = (self.groups.queries @ W.T)[self.groups.query]
        return np.asarray(np.einsum("kd,kd->k", self.sorted, pulled)[self.groups.back])

    def __rmatmul__(self, lam: Array) -> Array:
        weighted = lam[self.groups.order][:, None] * self.sorted
        sums = np.add.reduceat(weighted, self.first, axis=0)
        return np.asarray((sums.T @ self.groups.queries).ravel())

    def __getitem__(self, index: Any) -> QueryRows:
        return QueryRows(self.D[index], self.Z[index])

    def gram(self, weights: Array) -> Array:
        """A diag(D) Aᵀ (k, k), both triangles."""
        D, of = weights.reshape(self.D.shape[1], self.Z.shape[1]), self.groups
        return of.whole(weighted_gram(self.sorted, of.query, of.queries, D))


def apart(k: int, N: int) -> bool:
    """Whether k rows of N unknowns are better not stacked: many numbers, and wide."""
    return k * N >= MANY and TALL * k <= N


def need(k: int, N: int) -> float:
    """Bytes that k rows of N unknowns take: six k × k matrices, and four copies where stacked."""
    return 8.0 * (6.0 * k * k + (40.0 * N if apart(k, N) else 4.0 * k * N))
