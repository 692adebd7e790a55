"""The Newton matrix A diag(D) Aᵀ of rows a_k = Δ_k z_kᵀ, formed pair of queries by pair of queries.

For the rows I of query i and the rows J of query j, with m_ij = D (z_i∘z_j) (d,),

    block (I, J) = Δ_I diag(m_ij) Δ_Jᵀ

so k rows of g queries take O(g² d dq + k² d), or O(g² nnz(D) + k² d) where D is mostly zero, and
never rows × unknowns, k × d·dq. Beside the diagonal, a weight C_ab between the entries (a, b) and
(b, a) of W, a, b < r, adds Δ_I (C∘z_j z_iᵀ) Δ_Jᵀ in the first r features: O(k g r²) more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from attsvm._utils.arrays import Floats, Ints

# Below this share of nonzero weights they are kept as a sparse matrix.
SPARSE = 0.2


@dataclass(frozen=True, eq=False)
class Groups:
    """Which rows have the same query: queries (g, dq); order (k,) sorts the rows, back undoes it.

    query (k,): the places of the sorted rows in queries, growing.
    """

    queries: Floats
    query: Ints
    order: Ints
    back: Ints

    @classmethod
    def of(cls, Z: Floats) -> Groups:
        """The groups of rows with queries Z (k, dq)."""
        queries, place = np.unique(Z, axis=0, return_inverse=True)
        order = np.argsort(place.ravel(), kind="stable")
        return cls(queries, place.ravel()[order], order, np.argsort(order))

    def whole(self, upper: Floats) -> Floats:
        """A matrix of sorted rows from its upper triangle, in the order of the rows."""
        upper = np.triu(upper)
        upper += np.triu(upper, 1).T
        return np.ascontiguousarray(upper[np.ix_(self.back, self.back)])


def weighted_gram(
    deltas: Floats,
    query: Ints,
    queries: Floats,
    weights: Floats,
    crossed: Floats | None = None,
) -> Floats:
    """A diag(D) Aᵀ (k, k) in C order; its upper triangle alone is filled, the rest is undefined.

    deltas: (k, d), sorted by query. query: (k,) places in queries (g, dq), growing. weights: D as
    a matrix (d, dq). crossed: C (r, r), symmetric.
    """
    k, d = deltas.shape
    out, scaled = np.empty((k, k)), np.empty((k, d))
    used, first = np.unique(query, return_index=True)
    ends = np.append(first, k)
    z, place = queries[used], np.searchsorted(used, query)
    few = np.count_nonzero(weights) < SPARSE * weights.size
    D: Any = scipy.sparse.csr_array(weights) if few else weights
    for i in range(len(used)):
        low, high = ends[i], ends[i + 1]
        m = np.ascontiguousarray((D @ (z[i:] * z[i]).T).T)  # (g − i, d)
        rest = scaled[low:]
        np.take(m, place[low:] - i, axis=0, out=rest, mode="clip")
        rest *= deltas[low:]
        if crossed is not None:
            r = len(crossed)
            turned = (deltas[low:, :r] * z[i, :r]) @ crossed
            rest[:, :r] += turned * z[place[low:], :r]
        np.matmul(deltas[low:high], rest.T, out=out[low:high, low:])
    return out
