"""The gradient in the logits, token by token: what the graded form of a gradient is made of.

The gradient in W is Σ_i Σ_t x_it (k_t − k_a) z_iᵀ over inputs i and tokens t other than the top one
a, with the formulas of `attention`. Here each x_it keeps its own exponent.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attsvm.ground.arrays import Bools, Floats, Ints
from attsvm.ground.compiled import njit
from attsvm.models.gradient.one_input import differences, gaps, grade, to_pooled
from attsvm.rules.graded.wide import of_log


@njit(parallel=True)
def terms(
    keys: Floats, values: Floats, present: Bools, logs: Floats, top: Ints, slopes: Floats,
    sign: Floats, log_slope: Floats, bend: Floats,
) -> tuple[Floats, Floats, Ints]:  # fmt: skip
    """(D (B, n, T, d), share (B, n, T), power (B, n, T)): D_t = k_t − k_a and the wide x_it.

    Arguments as in `attention.pull`; the mean over inputs is in x. It is 0 for tokens that add
    nothing: the top one, those with its key, those that are not there.
    """
    B, n, T, d = keys.shape
    e = values.shape[3]
    D = np.empty((B, n, T, d))
    share = np.zeros((B, n, T))
    power = np.zeros((B, n, T), np.int64)
    for b in numba.prange(B):
        gap, order = np.empty(T), np.empty(T)
        near, f, height = np.empty(e), np.empty(T), np.empty(T)
        for i in range(n):
            a = top[b, i]
            differences(keys[b, i], present[b, i], a, D[b, i])
            if log_slope[b, i] == -np.inf:
                continue
            line = logs[b, i]
            first = -np.inf
            if bend[b, i] != 0.0:
                first = to_pooled(values[b, i], present[b, i], a, line, near)
            gaps(values[b, i], present[b, i], a, slopes[b, i], (bend[b, i], first), near, gap, order)
            grade(D[b, i], gap, order, line, 0.0, f, height)
            common = log_slope[b, i] - math.log(n)
            for t in range(T):
                if f[t] != 0.0:
                    share[b, i, t], power[b, i, t] = of_log(-sign[b, i] * f[t], height[t] + common)
    return D, share, power
