"""Sums over the tokens of one input: scores D_t·w and combinations Σ f_t D_t, four at a time."""

from __future__ import annotations

from attsvm.ground.arrays import Floats
from attsvm.ground.compiled import njit

# Functions that make no arrays need not count references to them, which costs as much as the sums
# of a small input; those that every step calls are also made part of their callers.
BARE = {"_nrt": False}
HOT = {"_nrt": False, "forceinline": True}


@njit(**HOT)
def against(D: Floats, j: int, w: Floats, i: int, out: Floats) -> None:
    """Writes D_t·w_i to out (T,), from D (·, T, d) at place j and w (·, d) at place i.

    Four tokens at a time, so that no sum waits for the one before.
    """
    T, d = D.shape[1], D.shape[2]
    for t in range(0, T - 3, 4):
        s0 = s1 = s2 = s3 = 0.0
        for r in range(d):
            s0 += D[j, t, r] * w[i, r]
            s1 += D[j, t + 1, r] * w[i, r]
            s2 += D[j, t + 2, r] * w[i, r]
            s3 += D[j, t + 3, r] * w[i, r]
        out[t], out[t + 1], out[t + 2], out[t + 3] = s0, s1, s2, s3
    for t in range(T - T % 4, T):
        s0 = 0.0
        for r in range(d):
            s0 += D[j, t, r] * w[i, r]
        out[t] = s0


@njit(**HOT)
def combine(f: Floats, D: Floats, j: int, out: Floats, i: int) -> None:
    """Writes Σ_t f_t D_t to out (·, d) at place i, from f (T,) and D (·, T, d) at place j.

    Four tokens at a time: each entry of the sum is then fetched once for four of them.
    """
    T, d = D.shape[1], D.shape[2]
    if T < 4:
        for r in range(d):
            out[i, r] = f[0] * D[j, 0, r]
        for t in range(1, T):
            for r in range(d):
                out[i, r] += f[t] * D[j, t, r]
        return
    for t in range(0, T - 3, 4):
        f0, f1, f2, f3 = f[t], f[t + 1], f[t + 2], f[t + 3]
        if t == 0:
            for r in range(d):
                out[i, r] = (f0 * D[j, t, r] + f1 * D[j, t + 1, r]) + (
                    f2 * D[j, t + 2, r] + f3 * D[j, t + 3, r]
                )
        elif f0 != 0.0 or f1 != 0.0 or f2 != 0.0 or f3 != 0.0:
            for r in range(d):
                out[i, r] += (f0 * D[j, t, r] + f1 * D[j, t + 1, r]) + (
                    f2 * D[j, t + 2, r] + f3 * D[j, t + 3, r]
                )
    for t in range(T - T % 4, T):
        if f[t] != 0.0:
            for r in range(d):
                out[i, r] += f[t] * D[j, t, r]
