"""Every entry of a sum of graded terms at its own scale."""

from __future__ import annotations

import math

import numba
import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.rules.graded.wide import NONE, level, shifted


@njit(parallel=True)
def entries(
    left: Floats, right: Floats, at: Ints, into: Ints, share: Floats, power: Ints
) -> tuple[Floats, Ints]:
    """G = Σ_k x_k left_at_k right_into_kᵀ as wide numbers (B, d, c), shares in ±[½, 1) or zero.

    As in `resolve`. An entry is as exact as its own terms allow, whatever the size of the others.
    """
    B, _, d = left.shape
    q, c = right.shape[1:]
    out, powers = np.zeros((B, d, c)), np.zeros((B, d, c), np.int64)
    for b in numba.prange(B):
        A, Z, heights = left[b].copy(), right[b].copy(), power[b].copy()
        level(A, at, heights)
        level(Z, into, heights)
        # The sums Σ_k x_k left_at_k over the terms of each right vector.
        sums, tops = np.zeros((q, d)), np.full((q, d), NONE)
        for k in range(len(at)):
            if share[b, k] != 0.0:
                for r in range(d):
                    if A[at[k], r] != 0.0:
                        tops[into[k], r] = max(tops[into[k], r], heights[k])
        for k in range(len(at)):
            i = into[k]
            if share[b, k] != 0.0:
                for r in range(d):
                    f = A[at[k], r]
                    if f != 0.0:
                        sums[i, r] += shifted(f * share[b, k], heights[k] - tops[i, r])
        for i in range(q):
            for r in range(d):
                sums[i, r], extra = math.frexp(sums[i, r])
                tops[i, r] += extra
        for r in range(d):
            for j in range(c):
                top = NONE
                for i in range(q):
                    if sums[i, r] != 0.0 and Z[i, j] != 0.0:
                        top = max(top, tops[i, r])
                s = 0.0
                for i in range(q):
                    if sums[i, r] != 0.0 and Z[i, j] != 0.0:
                        s += shifted(sums[i, r] * Z[i, j], tops[i, r] - top)
                if s != 0.0:
                    out[b, r, j], extra = math.frexp(s)
                    powers[b, r, j] = top + extra
    return out, powers
