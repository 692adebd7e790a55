"""The Newton matrix A diag(D) Aᵀ of rows a_k = Δ_k z_kᵀ, formed pair of queries by pair of queries.

For the rows I of query i and the rows J of query j, with m_ij = D (z_i∘z_j) (d,),

    block (I, J) = Δ_I diag(m_ij) Δ_Jᵀ

so k rows of g queries take O(g² d dq + k² d), or O(g² nnz(D) + k² d) where D is mostly zero, and
never rows × unknowns, k × d·dq.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from attsvm.ground.arrays import Floats, Ints

# Below this share of nonzero weights they are kept as a sparse matrix.
SPARSE = 0.2


def weighted_gram(deltas: Floats, query: Ints, queries: Floats, weights: Floats) -> Floats:
    """A diag(D) Aᵀ (k, k) in C order; its upper triangle alone is filled, the rest is undefined.

    deltas: (k, d), sorted by query. query: (k,) places in queries (g, dq), growing. weights: D as
    a matrix (d, dq).
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
        np.matmul(deltas[low:high], rest.T, out=out[low:high, low:])
    return out


def weighted_gram_twin(deltas: Floats, query: Ints, queries: Floats, weights: Floats) -> Floats:
    """The whole matrix once more, from rows × unknowns in plain NumPy, for comparison."""
    A = (deltas[:, :, None] * queries[query][:, None, :]).reshape(len(deltas), weights.size)
    return np.asarray((A * weights.ravel()) @ A.T)
