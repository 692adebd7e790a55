"""What is guaranteed of a head's choices and outputs, with rounding on the safe side.

Eviction. Dropping the keys E and sharing their attention p_E among the others moves the output o by
exactly

    o − o' = p_E (v̄_E − o') = r (v̄_E − o),      r = p_E / (1 − p_E)

with v̄_E the mean value of the dropped keys, weighted by attention. Where only margins are known,
r ≤ |E| e^{−g} for keys at least g below the top, and ‖o − o'‖ ≤ |E| e^{−g} max_{t ∈ E} ‖v_t − o‖.
Keys are dropped in the order of their logits, lowest first: the largest such set that may go as a
whole is named. By the attention row nothing is said of a part of it, as values of dropped keys can
make up for each other; the bound by margins only falls when fewer keys go. Through the output
matrix of the head the same holds of its layer's output: it moves by W_O (o − o').

Stability. The margin m_t = logit_a − logit_t changes by at most 2ρ ‖W z‖ when every key moves by ρ,
and is linear in the query with gradient Wᵀ(x_a − x_t). So the choice stays while

    every key moves by less than  min_t m_t / (2 ‖W z‖)              (the query is held)
    the query moves by less than  min_t m_t / ‖Wᵀ(x_a − x_t)‖        (the keys are held)

and both are the best that can be said: moves of just more change it.

Weights. With W changed to W + E the choice stays where m_t > ‖x_a − x_t‖ ‖E z‖ for all t. Here E
comes from rounding each row of the two factors to 255 levels between −max and max; a bias is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import TINY, UNIT
from attsvm.inspection import attacks
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.view import WIDER, Margins, View, margins_of

# A radius above this share of the size of what moves counts as stable.
STABLE = 0.01
# Levels on either side of zero.
LEVELS = 127
# More than the attention of keys whose weight is no normal float, next to a top weight of 1.
_LOST = 1e-290
# More than what the root of a sum of squares loses when these fall below the normal floats.
_SHORT = TINY**0.5
# Every quotient is rounded down by this share.
_DOWN = 1 - 16 * UNIT


class Guaranteed(NamedTuple):
    """The fields on guarantees, and per query (n,): radii, evictable counts, int8."""

    fields: dict[str, Any]
    queries: dict[str, Any]
    order: Ints


def guarantees(view: View, config: InspectionConfig) -> Guaranteed:
    """What is guaranteed of each query's choice, with the attacks that check it."""
    margins = margins_of(view)
    radii = stability_of(view, margins)
    drop = eviction_of(view, margins, share=config.share)
    by_keys, by_query = radii.key_share, radii.query_share
    part = view.subset(np.arange(max(1, min(config.attacks, len(view.queries)))))
    attacked = []
    if config.attacks:
        attacked = [
            attacks.drop_keys(part, drop.known, drop.order, share=config.share),
            attacks.drop_keys(part, drop.bound, drop.order, share=config.share),
            attacks.layer_moves(part, drop.known, drop.order, drop.layer),
            attacks.move_keys(part, radii.keys, seed=config.seed),
            attacks.move_query(part, radii.query, seed=config.seed),
        ]
    safe, same = np.full(len(view.queries), np.nan), np.nan
    if view.space == "features":  # elsewhere the weights act before rotary positions
        coarse = quantized(view)
        kept = kept_under(view, margins, coarse)
        safe, same = kept.astype(float), float((coarse.chosen() == margins.chosen).mean())
        if config.attacks:
            attacked.append(attacks.round_weights(part, quantized(part), kept[: len(part.queries)]))
    fields = {
        "tied": int(margins.tied.sum()),
        "evictable": float((drop.known / drop.keys).mean()),
        "evictable_margins": float((drop.bound / drop.keys).mean()),
        "evictable_queries": float((drop.known > 0).mean()),
        "layer_error": float(drop.layer.max()),
        "key_radius": float(np.median(by_keys)),
        "key_radius_share": float((by_keys > STABLE).mean()),
        "query_radius": float(np.median(by_query)),
        "query_radius_share": float((by_query > STABLE).mean()),
        "int8_safe": float(safe.mean()),
        "int8_same": same,
        "attacks": sum(one.tried for one in attacked),
        "violations": sum(one.broken for one in attacked),
    }
    queries = {
        "chosen": margins.chosen,
        "gap": margins.gap,
        "key_radius": by_keys,
        "query_radius": by_query,
        "evictable": drop.known,
        "evictable_margins": drop.bound,
        "int8_safe": safe,
    }
    return Guaranteed(fields, queries, drop.order)


class Eviction(NamedTuple):
    """How many keys each query may drop at an error of `share` of its output's length.

    known (n,): by the attention row; bound (n,): by margins alone; keys (n,): how many there are.
    They are the first of `order` (n, T). layer (n,): how far the layer's output moves at most when
    the known ones go, over its length; nan where the output matrix is not known.
    """

    known: Ints
    bound: Ints
    keys: Ints
    order: Ints
    layer: Floats


def eviction_of(view: View, margins: Margins, *, share: float = 0.01) -> Eviction:
    """The keys that each query of a View may drop: those with the lowest logits."""
    order = np.where(view.valid, margins.logits, np.inf).argsort(axis=1, kind="stable")
    prefixes = _prefixes(view, margins, order, share)
    known, bound = _longest(prefixes.known), _longest(prefixes.bound)
    layer = _layer_error(view, prefixes, known)
    return Eviction(known, bound, view.valid.sum(axis=1), order, layer)


class _Prefixes(NamedTuple):
    """For each query and each prefix of its order (n, T): whether it may go, by the row and by
    margins; how the output moves (n, T, hv), and how far that may be from the truth (n, T)."""

    known: Bools
    bound: Bools
    moves: Floats
    unsure: Floats


# Where errors overflow nothing is known: infinities and nan pass no comparison.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _prefixes(view: View, margins: Margins, order: Ints, share: float) -> _Prefixes:
    n, T = view.valid.shape
    rows = np.arange(n)[:, None]
    logits = margins.logits[rows, order]
    top = margins.logits[np.arange(n), margins.chosen]
    p = np.where(np.isfinite(logits), np.exp(logits - top[:, None]), 0.0)
    v = view.values.astype(np.float64)[rows, order]
    total = p.sum(axis=1)
    out = np.einsum("nt,nth->nh", p, v) / total[:, None]
    # Each weight is known to a share `loose`.
    error = np.where(view.valid, margins.error, 0.0).max(axis=1)
    loose = (np.expm1(4 * error) + (2 * T + 40) * UNIT) * WIDER
    spread = np.sqrt((v**2).sum(axis=2)).max(axis=1) + _SHORT
    unsure = (spread * (v.shape[2] + 8) * UNIT + loose * spread + _SHORT) * 4
    length = np.sqrt((out**2).sum(axis=1))
    allowed = share * np.maximum(length - unsure, 0.0)
    mass = np.cumsum(p, axis=1)
    # What is left is summed from the end, where a difference would cancel.
    left = np.cumsum(p[:, ::-1], axis=1)[:, ::-1][:, 1:]
    left = np.concatenate([left, np.zeros((n, 1))], axis=1)
    ratio = np.where(left > 0, mass / left, np.inf) * (1 + 4 * loose[:, None])
    middle = np.cumsum(p[:, :, None] * v, axis=1) / mass[:, :, None]
    apart = np.where(mass[:, :, None] > 0, middle - out[:, None], 0.0)
    lost = _LOST * spread[:, None] + TINY
    moved = np.where(mass > 0, ratio * (np.sqrt((apart**2).sum(axis=2)) + unsure[:, None]), 0.0)
    # The highest dropped logit, where the order is that of logits, is the last one of a prefix.
    below = np.maximum.accumulate(logits, axis=1) - top[:, None] + 2 * error[:, None]
    most = np.arange(1, T + 1) * np.exp(below) * (1 + 8 * UNIT)
    far = np.maximum.accumulate(
        np.sqrt(((v - out[:, None]) ** 2).sum(axis=2)) + unsure[:, None], axis=1
    )
    bounded = np.where(np.isfinite(logits), most * far + lost, np.inf)
    # One valid key is always left.
    some = np.cumsum(view.valid[rows, order], axis=1) < view.valid.sum(axis=1)[:, None]
    return _Prefixes(
        known=some & (moved + lost < allowed[:, None]),
        bound=some & (bounded < allowed[:, None]),
        moves=np.where(mass > 0, ratio, 0.0)[:, :, None] * apart,
        unsure=np.where(mass > 0, ratio * unsure[:, None], 0.0) + lost,
    )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _layer_error(view: View, prefixes: _Prefixes, count: Ints) -> Floats:
    """How far the layer's output moves at most (n,), over its length, when so many keys go."""
    if view.layer_output is None:
        return np.full(len(count), np.nan)
    factor, output = view.layer_output
    rows, last = np.arange(len(count)), np.maximum(count - 1, 0)
    moves, unsure = prefixes.moves[rows, last], prefixes.unsure[rows, last]
    size = float(np.linalg.norm(factor)) * (1 + factor.size * UNIT)
    rounding = (factor.shape[1] + 8) * UNIT * np.sqrt((moves**2).sum(axis=1))
    moved = np.sqrt(((moves @ factor.T) ** 2).sum(axis=1)) + size * (unsure + rounding) + _SHORT
    share: Floats = moved / np.sqrt((output**2).sum(axis=1)) * (1 + 4 * len(factor) * UNIT)
    return np.where(count > 0, share, 0.0)


def _longest(fine: Bools) -> Ints:
    """The longest prefix (n,) that is fine, 0 where none is."""
    T = fine.shape[1]
    return np.where(fine.any(axis=1), T - fine[:, ::-1].argmax(axis=1), 0)


def cache_of(
    views: Sequence[View], rows: Ints, first: Ints, config: InspectionConfig
) -> list[dict[str, Any]]:
    """What a cache of keys can drop, for heads that share their keys: fields for each head.

    views: the heads on the same queries, all those of some texts that come after the first half;
    rows (n,): the text of each query; first (n,): how many keys of its text are in the cache when
    the first of these queries is asked. Of a text those keys are named, as one set, without which
    the output of each of these heads at each later query moves by less than the share. Keys are
    tried in the order of the most attention that any later query pays to them, least first.
    """
    shares, tried, broken = [], 0, 0
    moves: list[list[float]] = [[] for _ in views]
    for text in np.unique(rows):
        mine = np.flatnonzero(rows == text)
        parts = [view.subset(mine) for view in views]
        held, T = int(first[mine[0]]), parts[0].valid.shape[1]
        most = np.max([part.attention().max(axis=0) for part in parts], axis=0)
        most = np.where(np.arange(T) < held, most, np.inf)  # later keys are not in the cache yet
        order = np.tile(most.argsort(kind="stable"), (len(mine), 1))
        found = [_prefixes(part, margins_of(part), order, config.share) for part in parts]
        fine = np.all([one.known.all(axis=0) for one in found], axis=0)
        count = int(_longest((fine & (np.arange(1, T + 1) <= held))[None])[0])
        shares.append(count / held)
        counts = np.full(len(mine), count)
        for own, part, one in zip(moves, parts, found, strict=True):
            error = _layer_error(part, one, counts)
            own.append(float(error.max()))
            for made in (
                attacks.drop_keys(part, counts, order, share=config.share),
                attacks.layer_moves(part, counts, order, error),
            ):
                tried, broken = tried + made.tried, broken + made.broken
    same = {"cache_evictable": float(np.mean(shares)), "cache_texts": len(shares)}
    fields = [
        {**same, "cache_layer_error": max(own), "attacks": 0, "violations": 0} for own in moves
    ]
    fields[0] |= {"attacks": tried, "violations": broken}  # counted once
    return fields


class Stability(NamedTuple):
    """The radii (n,) within which the choice of each query cannot change; 0 where it is a tie.

    keys: every key may move by less than this; query: the query may. key_share, query_share (n,):
    the same over what moves: the root mean square length of the valid keys, the length of the query
    without its constant 1.
    """

    keys: Floats
    query: Floats
    key_share: Floats
    query_share: Floats


# A slope that overflows leaves a radius of 0.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def stability_of(view: View, margins: Margins) -> Stability:
    """The certified radii of each query of a View."""
    least = np.maximum(margins.least, 0.0)
    by_keys = _least_ratio(least, 2 * _key_slopes(view)[:, None])
    by_query = _least_ratio(least, _query_slopes(view, margins))
    keys = np.where(view.valid[:, :, None], view.keys.astype(np.float64), 0.0)
    size = np.sqrt(np.einsum("ntd,ntd->n", keys, keys) / view.valid.sum(axis=1))
    query = view.queries[:, : keys.shape[2]].astype(np.float64)
    length = np.sqrt(np.einsum("nd,nd->n", query, query))
    parts = ((by_keys, size), (by_query, length))
    shares = (np.where(radius > 0, radius / of, 0.0) for radius, of in parts)
    return Stability(by_keys, by_query, *shares)


def _least_ratio(margin: Floats, slope: Floats) -> Floats:
    """min_t margin/slope, rounded down; a margin of inf stands for no rival."""
    ratio = np.where(margin == 0.0, 0.0, margin / slope)
    least: Floats = ratio.min(axis=1) * _DOWN - TINY
    return np.maximum(least, 0.0)


def _key_slopes(view: View) -> Floats:
    """‖W z‖ (n,), rounded up."""
    z = view.queries.astype(np.float64)
    sizes = np.abs(z) @ np.abs(view.query_factor).T + TINY
    return _lengths_above(z @ view.query_factor.T, sizes, view.key_factor, 2 * z.shape[1])


def _query_slopes(view: View, margins: Margins) -> Floats:
    """‖Wᵀ(x_a − x_t)‖ (n, T), rounded up; a constant 1 at the query's end cannot move."""
    d = view.keys.shape[2]
    keys = view.keys.astype(np.float64)
    k = keys @ view.key_factor.T
    sizes = np.abs(keys) @ np.abs(view.key_factor).T + TINY
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


def quantized(view: View) -> View:
    """The head with both factors in eight bits per row, a bias as it is."""
    d = view.keys.shape[2]
    Q = view.query_factor.astype(np.float64)
    coarse = np.concatenate([rounded_rows(Q[:, :d]), Q[:, d:]], axis=1)
    return replace(view, key_factor=rounded_rows(view.key_factor), query_factor=coarse)


def kept_under(view: View, margins: Margins, changed: View) -> Bools:
    """Which choices (n,) of a View are certified to stay under the factors of `changed`."""
    return np.all(margins.least > _largest_change(view, changed, margins.chosen), axis=1)


def rounded_rows(factor: Floats) -> Floats:
    """The factor with each row rounded to whole multiples of its largest entry over 127."""
    F = np.asarray(factor, dtype=np.float64)
    step = np.abs(F).max(axis=1, keepdims=True) / LEVELS
    step = np.where(step > 0, step, 1.0)
    out: Floats = np.rint(F / step) * step
    return out


# What overflows is larger than any margin, or no number: not safe.
@np.errstate(over="ignore", invalid="ignore")
def _largest_change(view: View, changed: View, chosen: Ints) -> Floats:
    """How much each margin (n, T) can change at most, rounded up."""
    z = view.queries.astype(np.float64)
    change, sizes = np.zeros(()), np.zeros(())
    for one, sign in ((changed, 1.0), (view, -1.0)):
        change = change + sign * (z @ one.query_factor.T @ one.key_factor)
        size = np.abs(z) @ np.abs(one.query_factor).T + TINY
        sizes = sizes + size @ np.abs(one.key_factor) + TINY
    count = sum(view.query_factor.shape) + len(changed.key_factor) + 20
    e = _length(change) + count * UNIT * WIDER * _length(sizes)
    e *= 1 + (view.keys.shape[2] + 8) * UNIT
    keys = view.keys.astype(np.float64)
    apart = _length(keys[np.arange(len(keys)), chosen][:, None] - keys)
    most: Floats = apart * e[:, None]
    return most * (1 + (view.keys.shape[2] + 8) * UNIT) + TINY


def _length(x: Floats) -> Floats:
    """The lengths over the last axis; squares lost to underflow are made up for."""
    out: Floats = np.sqrt(np.einsum("...d,...d->...", x, x) + TINY)
    return out
