"""The gradient in the logits, token by token: what the graded form of a gradient is made of.

The gradient in W is Σ_i Σ_t x_it (k_t − k_a) z_iᵀ over inputs i and tokens t other than the top one
a, with the formulas of `attention`. Here each x_it keeps its own exponent.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm._utils.parallel import map_chunks
from attsvm.training.models.gradient.attention import SHARE, Inputs, Slopes, Workspace
from attsvm.training.models.gradient.one_input import differences, gaps, grade, to_pooled
from attsvm.training.optimizers.graded.wide import of_log


@njit(**ENTRY)
def _terms(
    inputs: Inputs,
    at: Slopes,
    room: Workspace,
    D: Floats,
    share: Floats,
    power: Ints,
    begin: int,
    end: int,
) -> None:
    """Writes D, share and power as in `terms` for the instances from begin to end."""
    n, T = inputs.present.shape[1:]
    gap, order, f, height = room.gap, room.order, room.mass, room.rises
    for b in range(begin, end):
        for i in range(n):
            a = at.top[b, i]
            line, values, present = at.logs[b, i], inputs.values[b, i], inputs.present[b, i]
            differences(inputs.keys[b, i], present, a, D[b, i])
            if at.log_slope[b, i] == -np.inf:
                continue
            first = -np.inf
            if at.curvature[b, i] != 0.0:
                first = to_pooled(values, present, a, line, room.near)
            gaps(
                values,
                present,
                a,
                at.slopes[b, i],
                (at.curvature[b, i], first),
                room.near,
                gap,
                order,
            )
            grade(D[b, i], gap, order, line, 0.0, f, height)
            common = at.log_slope[b, i] - math.log(n)
            for t in range(T):
                if f[t] != 0.0:
                    x, e = of_log(-at.sign[b, i] * f[t], height[t] + common)
                    share[b, i, t] = x
                    power[b, i, t] = e


def terms(
    keys: Floats, values: Floats, queries: Floats, present: Bools, at: Slopes
) -> tuple[Floats, Floats, Ints]:
    """(D (B, n, T, d), share (B, n, T), power (B, n, T)): D_t = k_t − k_a and the wide x_it.

    Arguments as in `attention.pull`; the mean over inputs is in x. It is 0 for tokens that add
    nothing: the top one, those with its key, those that are not there.
    """
    inputs = Inputs(plain(keys), plain(values), plain(queries), plain(present))
    at = at.plain()
    D, share = np.empty(keys.shape), np.zeros(present.shape)
    power = np.zeros(present.shape, np.int64)

    def some(begin: int, end: int) -> None:
        _terms(inputs, at, Workspace.of(inputs), D, share, power, begin, end)

    map_chunks(some, len(keys), SHARE)
    return D, share, power
