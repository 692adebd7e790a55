"""Norm economy: how much of a head's norm its choices need.

Among all W' that keep at least the head's own top-two gap on every query,

    (x_a − x_t)ᵀ W' z ≥ gap   for every other key t,

the least norm over ‖W‖ is the economy: W itself is one of them, so that it is at most 1. Both
bounds come from a certificate, divided by the full norm of W. It rises with the number of queries,
which is therefore reported with it; compare it with that of the nulls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import UNIT
from attsvm.inspection.margins import margins_of
from attsvm.inspection.measure.fits import quietly, tokens_of
from attsvm.inspection.measure.nulls import NULLS, decompose
from attsvm.inspection.view import View
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem

# Quotients and products of a few numbers are rounded by less than this share.
_ROUNDED = 1e-12
# A direction counts as seen where the queries have more than this share of their largest extent.
_SPANNED = 1e-9


class Economy(NamedTuple):
    """lower ≤ least norm / ‖W‖ ≤ upper, certified, over `queries` queries with a choice.

    seen: an estimate, upper divided by the norm of the part of W that these queries see; cosine:
    between W and the W' found (nan without one). Ties have no gap to keep and are left out.
    """

    lower: float
    upper: float
    seen: float
    cosine: float
    queries: int


NONE = Economy(np.nan, np.nan, np.nan, np.nan, 0)


def economy_of(view: View, norm: str = "frobenius") -> Economy:
    """The certified economy of a head, in the Frobenius or the nuclear norm."""
    margins = margins_of(view)
    rows = np.flatnonzero(~margins.tied & np.isfinite(margins.gap))
    if not len(rows):
        return NONE
    view, gap, chosen = view.subset(rows), margins.gap[rows], margins.chosen[rows]
    # The true gaps lie between `least` and `gap`, which is what W' must keep.
    least = margins.least[rows].min(axis=1)
    gap = gap + (gap - least)
    U, S, V = decompose(view)
    size = float(norm_of(norm).value(np.diag(S)))
    unsure = _rounding(view) + _ROUNDED * size
    best = quietly(Problem.of(tokens_of(view, chosen), chosen, b=gap), norm)
    upper = min(best.upper / (size - unsure), 1.0) if size > unsure else 1.0
    kept = float((least / gap).min()) * (1 - _ROUNDED)
    lower = min(kept * best.lower / (size + unsure), upper)
    basis, sizes, _ = np.linalg.svd(view.queries.astype(np.float64).T, full_matrices=False)
    basis = basis[:, sizes > _SPANNED * sizes[0]]
    part = (V.T @ basis) * S[:, None]
    seen = float(norm_of(norm).value(part))
    cosine = np.nan
    if best.W is not None:
        W = (U * S) @ V.T
        cosine = float((best.W * W).sum() / np.linalg.norm(best.W) / np.linalg.norm(W))
    return Economy(
        lower, upper, min(upper * size / seen, 1.0) if seen > 0 else np.nan, cosine, len(rows)
    )


def _rounding(view: View) -> float:
    """How far the norm of W, of its singular values as computed, may be from the truth."""
    K, Q = view.key_factor, view.query_factor
    sizes = float(np.linalg.norm(K)) * float(np.linalg.norm(Q))
    return 8 * (sum(K.shape) + sum(Q.shape)) * UNIT * sizes * len(K) ** 0.5


def null_economies(
    view: View, norm: str = "frobenius", *, draws: int, seed: int
) -> dict[str, Floats]:
    """The economies (draws,) of each null: its upper bounds, which is what the head's is."""
    found = {}
    for number, (name, null) in enumerate(NULLS.items()):
        values = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, number, draw])
            values.append(economy_of(null(view, rng), norm).upper)
        found[name] = np.array(values)
    return found
