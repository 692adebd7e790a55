"""Norm ratio: how much of a head's norm its choices need, beside heads made by chance.

Among all W' that keep at least the head's own top-two gap on every query,

    (x_a − x_t)ᵀ W' z ≥ gap   for every other key t,

the least norm over ‖W‖ is the norm ratio: W itself is one of them, so that it is at most 1. Both
bounds come from a certificate, divided by the full norm of W. It rises with the number of queries,
which is therefore reported with it; compare it with that of the nulls.

Nulls are heads made of the same numbers by chance, which choose for themselves. With the singular
values of W = U S Vᵀ, `spectrum` draws both subspaces anew, and `rotated` keeps the head's own
subspaces and turns inside them: W = U R S R'ᵀ Vᵀ. What a trained head does no better than these is
no finding about training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.interval import UNIT
from attsvm.inspection.fits import quietly, tokens_of
from attsvm.inspection.margins import margins_of
from attsvm.inspection.view import View
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem

# Quotients and products of a few numbers are rounded by less than this share.
_ROUNDED = 1e-12
# A direction counts as seen where the queries have more than this share of their largest extent.
_SPANNED = 1e-9


class NormRatio(NamedTuple):
    """lower ≤ least norm / ‖W‖ ≤ upper, certified, over `queries` queries with a choice.

    seen: an estimate, upper divided by the norm of the part of W that these queries see. Ties have
    no gap to keep and are left out.
    """

    lower: float
    upper: float
    seen: float
    queries: int


def norm_ratio_of(view: View, norm: str = "frobenius") -> NormRatio:
    """The certified norm ratio of a head, in the Frobenius or the nuclear norm."""
    margins = margins_of(view)
    rows = np.flatnonzero(~margins.tied & np.isfinite(margins.gap))
    if not len(rows):
        return NormRatio(np.nan, np.nan, np.nan, 0)
    view, gap, chosen = view.subset(rows), margins.gap[rows], margins.chosen[rows]
    # The true gaps lie between `least` and `gap`, which is what W' must keep.
    least = margins.least[rows].min(axis=1)
    gap = gap + (gap - least)
    _, S, V = decompose(view)
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
    ratio = min(upper * size / seen, 1.0) if seen > 0 else np.nan
    return NormRatio(lower, upper, ratio, len(rows))


def _rounding(view: View) -> float:
    """How far the norm of W, of its singular values as computed, may be from the truth."""
    K, Q = view.key_factor, view.query_factor
    sizes = float(np.linalg.norm(K)) * float(np.linalg.norm(Q))
    return 8 * (sum(K.shape) + sum(Q.shape)) * UNIT * sizes * len(K) ** 0.5


def null_ratios(view: View, norm: str = "frobenius", *, draws: int, seed: int) -> dict[str, Floats]:
    """The norm ratios (draws,) of each null: its upper bounds, which is what the head's is."""
    found = {}
    for number, (name, null) in enumerate(NULLS.items()):
        values = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, number, draw])
            values.append(norm_ratio_of(null(view, rng), norm).upper)
        found[name] = np.array(values)
    return found


# Singular values below this share of the largest are rounding.
_RANK = 1e-12


def spectrum(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and random subspaces."""
    U, S, V = decompose(view)
    left = _orthonormal(rng, U.shape[0], len(S))
    return _with(view, left, S, _orthonormal(rng, V.shape[0], len(S)))


def rotate(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and subspaces, rotated inside them."""
    U, S, V = decompose(view)
    rank = max(1, int((_RANK * S.max() < S).sum()))  # what lies beyond is none of the head's
    turns = (_orthonormal(rng, rank, rank) for _ in range(2))
    left, right = (part[:, :rank] @ turn for part, turn in zip((U, V), turns, strict=True))
    return _with(view, left, S[:rank], right)


NULLS: dict[str, Callable[[View, np.random.Generator], View]] = {
    "spectrum": spectrum,
    "rotated": rotate,
}


def decompose(view: View) -> tuple[Floats, Floats, Floats]:
    """U (d, h), S (h,), V (dq, h) with W = U S Vᵀ, from the factors alone."""
    left, A = np.linalg.qr(view.key_factor.astype(np.float64).T)
    right, B = np.linalg.qr(view.query_factor.astype(np.float64).T)
    u, S, v = np.linalg.svd(A @ B.T, full_matrices=False)
    return left @ u, S, right @ v.T


def permute(view: View, chosen: Ints, rng: np.random.Generator) -> Ints:
    """The choices (n,) of other queries, drawn without repetition.

    They are counted among the valid keys; where there are fewer, modulo their number.
    """
    rank = (np.cumsum(view.valid, axis=1) - 1)[np.arange(len(chosen)), chosen]
    other = rank[rng.permutation(len(chosen))] % view.valid.sum(axis=1)
    places = np.argsort(~view.valid, axis=1, kind="stable")
    keys: Ints = places[np.arange(len(chosen)), other]
    return keys


def _with(view: View, U: Floats, S: Floats, V: Floats) -> View:
    root = np.sqrt(S)
    return replace(view, key_factor=(U * root).T, query_factor=(V * root).T)


def _orthonormal(rng: np.random.Generator, d: int, h: int) -> Floats:
    """h orthonormal columns of d entries, uniform over all such."""
    basis, R = np.linalg.qr(rng.normal(size=(d, h)))
    columns: Floats = basis * np.sign(np.diag(R))
    return columns
