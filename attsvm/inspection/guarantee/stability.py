"""How far keys, or the query, may move before a head's choice can change.

With w_t the gradient of logit t in its key (W z; with rotary positions one per key), the margin
m_t = w_aᵀ x_a − w_tᵀ x_t changes by at most ρ (‖w_a‖ + ‖w_t‖) when every key moves by ρ. It is
linear in the query too, with gradient g_t = Wᵀ(x_a − x_t). So the choice stays while

    every key moves by less than  min_t m_t / (‖w_a‖ + ‖w_t‖)        (the query is held)
    the query moves by less than  min_t m_t / ‖g_t‖                  (the keys are held)

and both are the best that can be said: moves of just more, along w and g, change it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import TINY, UNIT
from attsvm.inspection.margins import WIDER, Margins, paired_blocks, turned_queries, turned_sizes
from attsvm.inspection.view import View, rotate_half

# Every quotient is rounded down by this share.
_DOWN = 1 - 16 * UNIT


class Stability(NamedTuple):
    """The radii (n,) within which the choice of each query cannot change; 0 where it is a tie.

    keys: every key may move by less than this; query: the query may; key_size, query_size (n,):
    the root mean square length of the valid keys and the length of the query (without its
    constant 1), to compare with.
    """

    keys: Floats
    query: Floats
    key_size: Floats
    query_size: Floats


def stability_of(view: View, margins: Margins) -> Stability:
    """The certified radii of each query of a View."""
    parts = [
        np.stack([*_radii(block, own), *_sizes(block)])
        for block, own in paired_blocks(view, margins)
    ]
    return Stability(*np.concatenate(parts, axis=1))


# A slope that overflows leaves a radius of 0.
@np.errstate(over="ignore", invalid="ignore")
def _radii(view: View, margins: Margins) -> tuple[Floats, Floats]:
    rows = np.arange(len(view.queries))
    w = key_slopes(view)
    w = np.broadcast_to(w, margins.least.shape)
    least = np.maximum(margins.least, 0.0)
    by_keys = _least_ratio(least, w[rows, margins.chosen][:, None] + w)
    by_query = _least_ratio(least, query_slopes(view, margins))
    return by_keys, by_query


def _least_ratio(margin: Floats, slope: Floats) -> Floats:
    """min_t margin/slope, rounded down; a margin of inf stands for no rival."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(margin == 0.0, 0.0, margin / slope)
    least: Floats = ratio.min(axis=1) * _DOWN - TINY
    return np.maximum(least, 0.0)


def key_slopes(view: View) -> Floats:
    """‖w_t‖ of each key, rounded up: (n, 1), or (n, T) with rotary positions."""
    q = turned_queries(view)
    z = np.abs(view.queries.astype(np.float64))
    sizes = turned_sizes(view, z @ np.abs(view.query_factor).T + TINY)
    return _lengths_above(q, sizes, view.key_factor, 2 * view.queries.shape[1])


def query_slopes(view: View, margins: Margins) -> Floats:
    """‖g_t‖ (n, T) of each margin, rounded up; a constant 1 at the query's end cannot move."""
    d = view.keys.shape[2]
    keys = view.keys.astype(np.float64)
    k = keys @ view.key_factor.T
    sizes = np.abs(keys) @ np.abs(view.key_factor).T + TINY
    if view.turns is not None:
        # k·(cos q + sin rotate_half(q)) = (cos k − rotate_half(sin k))·q, as rotated is skew.
        cos, sin = view.turns
        k = cos * k - rotate_half(sin * k)
        sizes = np.abs(cos) * sizes + np.abs(rotate_half(np.abs(sin) * sizes)) + TINY
    rows = np.arange(len(keys))
    apart = k[rows, margins.chosen][:, None] - k
    sizes = sizes[rows, margins.chosen][:, None] + sizes
    return _lengths_above(apart, sizes, view.query_factor[:, :d], 2 * d)


def _lengths_above(a: Floats, sizes: Floats, factor: Floats, count: int) -> Floats:
    """‖factorᵀ a‖ over the last axis of a, rounded up, by the Gram matrix of the factor.

    sizes: what the entries of a are sums of, in absolute value; count: twice how many terms.
    """
    h, d = factor.shape
    factor = factor.astype(np.float64)
    gram, bound = factor @ factor.T, np.abs(factor) @ np.abs(factor).T + TINY
    square = np.einsum("...h,...h->...", a @ gram, a)
    within = np.einsum("...h,...h->...", sizes @ bound + TINY, sizes)
    slack = (count + 2 * d + 4 * h + 40) * UNIT * WIDER * within + TINY
    above: Floats = np.sqrt(np.maximum(square, 0.0) + slack) * (1 + 8 * UNIT)
    return above


def _sizes(view: View) -> tuple[Floats, Floats]:
    keys = np.where(view.valid[:, :, None], view.keys.astype(np.float64), 0.0)
    count = view.valid.sum(axis=1)
    size = np.sqrt(np.einsum("ntd,ntd->n", keys, keys) / count)
    query = view.queries[:, : keys.shape[2]].astype(np.float64)
    return size, np.sqrt(np.einsum("nd,nd->n", query, query))
