"""Proximal maps, argmin over X of t·f(X) + ½‖X − V‖_F², of norms of entries and singular values.

A map of the singular values moves them alone: X has the singular vectors of V.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.compiled import ENTRY, njit, plain

# Halvings or Newton steps until the root of a power is found to rounding, at most.
_STEPS = 60


def shrink(V: Floats, t: float) -> Floats:
    """sign(V) max(|V| − t, 0): the map of Σ |V|."""
    return np.asarray(np.sign(V) * np.maximum(np.abs(V) - t, 0.0))


def clip_largest(V: Floats, t: float) -> Floats:
    """V with its largest entries cut to one size, by t in sum: the map of max |V|.

    Zero when all of V is at most t in sum.
    """
    sizes = np.sort(np.abs(V), axis=None)[::-1]
    excess = np.cumsum(sizes) - t
    if not len(sizes) or excess[-1] <= 0.0:
        return np.zeros_like(V)
    # The least number k of entries whose cut, (Σ of the k largest − t)/k, the next one respects.
    level = excess / np.arange(1, len(sizes) + 1)
    k = int(np.flatnonzero(sizes > level)[-1])
    return np.asarray(np.clip(V, -level[k], level[k]))


def on_singular_values(values: Callable[[Floats, float], Floats], V: Floats, t: float) -> Floats:
    """V (d, dq) with its singular values s replaced by values(s, t)."""
    U, s, Vt = np.linalg.svd(V, full_matrices=False)
    s = values(s, t)
    live = s > 0.0
    return np.asarray((U[:, live] * s[live]) @ Vt[live])


def shrink_power(V: Floats, t: float, p: float) -> Floats:
    """X with X + t sign(X)|X|^(p−1) = V entry by entry: the map of Σ |V|^p/p."""
    out = np.empty(V.size)
    _shrink_power(plain(np.ascontiguousarray(V).ravel()), float(t), float(p), out)
    return out.reshape(V.shape)


@njit(**ENTRY)
def _shrink_power(V: Floats, t: float, p: float, out: Floats) -> None:
    """out (N,) filled by Newton steps on x + t x^(p−1) = |v|, kept inside a bracket.

    For p < 2 the unknown is u = x^(p−1), in which the equation u^(1/(p−1)) + t u = |v| is convex
    and Newton from the right falls straight to the root; for p ≥ 2 it is so in x itself.
    """
    low = p < 2.0
    r = 1.0 / (p - 1.0) if low else p - 1.0
    for i in range(V.size):
        a = abs(V[i])
        if a == 0.0:
            out[i] = 0.0
            continue
        # The root lies below both ends of the bracket: a convex sum of two growing terms.
        if low:
            u = min(a / t, a ** (1.0 / r)) if t > 0.0 else a ** (1.0 / r)
            for _ in range(_STEPS):
                w = u**r
                f = w + t * u - a
                step = f / (r * w / u + t) if u > 0.0 else 0.0
                if not step > 1e-16 * u:
                    break
                u -= step
            x = u**r
            # x itself where it is the large part of the sum: exact to rounding there.
            if x > 0.5 * a:
                x = a - t * u
        else:
            x = min(a, (a / t) ** (1.0 / r)) if t > 0.0 else a
            for _ in range(_STEPS):
                w = t * x**r
                f = x + w - a
                step = f / (1.0 + r * w / x) if x > 0.0 else 0.0
                if not step > 1e-16 * x:
                    break
                x -= step
        out[i] = x if V[i] > 0.0 else -x
