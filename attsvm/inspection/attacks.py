"""Attacks on what is guaranteed: keys dropped, moved and rounded in earnest, violations counted.

Nothing here is shared with the guarantees: every output and every choice is computed again, from
the View's own arrays, in the longest floats that the machine has. Moves go in the worst direction,
and in random ones, by 0.9999 of the radius; none may change a choice. Where there is no limit, they
go a thousand times as far as the numbers are large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.inspection.view import View

Long = np.longdouble
# Moves are this share of the radius.
NEARLY = 0.9999
# Where the radius is infinite, moves are this many times the largest number that moves.
FAR = 1000.0


class Attacked(NamedTuple):
    """How many attacks were made, and how many broke what was guaranteed."""

    tried: int
    broken: int


class LongQuery(NamedTuple):
    """One query over its valid keys as long floats: keys (T, d), the query (dq,), W z (d,), the
    logits (T,), and which key it chooses."""

    row: int
    keys: Any
    query: Any
    slope: Any
    logits: Any
    chosen: int


def drop_keys(view: View, dropped: Ints, order: Ints, *, share: float) -> Attacked:
    """Drop the first `dropped` (n,) keys of each `order` (n, T); compare both outputs."""
    return _count(
        not _length(whole - less) <= Long(share) * _length(whole)
        for _, whole, less, _ in _outputs(view, dropped, order)
    )


def layer_moves(view: View, dropped: Ints, order: Ints, allowed: Floats) -> Attacked:
    """Drop the same keys; compare what the head adds to its layer's output with `allowed` (n,) of
    that output's length, beyond what two long outputs are rounded by. Nothing is tried where the
    output matrix is not known."""
    if view.layer_output is None:
        return Attacked(0, 0)
    factor, output = (part.astype(Long) for part in view.layer_output)
    rounded = 8 * view.valid.shape[1] * np.finfo(Long).eps * np.sqrt((factor**2).sum())
    return _count(
        not _length(factor @ (whole - less))
        <= Long(allowed[row]) * _length(output[row]) + rounded * largest
        for row, whole, less, largest in _outputs(view, dropped, order)
        if np.isfinite(allowed[row])
    )


def move_keys(view: View, radius: Floats, *, seed: int = 0, factor: float = NEARLY) -> Attacked:
    """Move every key by factor · radius (n,): against the choice, and at random."""
    rng, lost = np.random.default_rng(seed), []
    for one in _queries(view):
        by = _step(factor * radius[one.row], one.keys)
        sign = np.where(np.arange(len(one.keys)) == one.chosen, -1, 1)[:, None]
        directions = (sign * _unit(one.slope), _unit(rng.normal(size=one.keys.shape).astype(Long)))
        for direction in directions if by > 0 else ():
            lost.append(_lost((one.keys + by * direction) @ one.slope, one.chosen))
    return _count(lost)


def move_query(view: View, radius: Floats, *, seed: int = 0, factor: float = NEARLY) -> Attacked:
    """Move each query by factor · radius (n,): towards every rival in turn, and at random."""
    rng, lost = np.random.default_rng(seed), []
    K, Q = view.key_factor.astype(Long), view.query_factor.astype(Long)
    d = view.keys.shape[2]
    for one in _queries(view):
        by = _step(factor * radius[one.row], one.query[:d])
        slopes = one.keys @ K.T @ Q[:, :d]  # of each logit in the query
        towards = _unit(slopes - slopes[one.chosen])
        directions = [
            *np.delete(towards, one.chosen, axis=0),
            _unit(rng.normal(size=(d,)).astype(Long)),
        ]
        for direction in directions if by > 0 else ():
            lost.append(_lost(one.logits + by * (slopes @ direction), one.chosen))
    return _count(lost)


def round_weights(view: View, rounded: View, safe: Bools) -> Attacked:
    """Choose with the rounded factors: those that are `safe` (n,) must choose the same key."""
    pairs = zip(_queries(view), _queries(rounded), strict=True)
    return _count(_lost(other.logits, one.chosen) for one, other in pairs if safe[one.row])


def _count(broken: Iterable[Any]) -> Attacked:
    """The number of attacks, each told by whether it broke what was guaranteed."""
    found = list(broken)
    return Attacked(len(found), sum(map(bool, found)))


def _queries(view: View) -> Iterator[LongQuery]:
    """Each query in long floats."""
    K, Q = view.key_factor.astype(Long), view.query_factor.astype(Long)
    for row, valid in enumerate(view.valid):
        keys, query = view.keys[row][valid].astype(Long), view.queries[row].astype(Long)
        slope = (Q @ query) @ K
        logits = keys @ slope
        yield LongQuery(row, keys, query, slope, logits, int(logits.argmax()))


def _outputs(view: View, dropped: Ints, order: Ints) -> Iterator[tuple[int, Any, Any, Any]]:
    """For each query that drops keys: its row, its output with and without them, and the length of
    its largest value."""
    for one in _queries(view):
        if not dropped[one.row]:
            continue
        valid = view.valid[one.row]
        values = view.values[one.row][valid].astype(Long)
        gone = np.zeros(len(valid), dtype=bool)
        gone[order[one.row, : dropped[one.row]]] = True
        weights = np.exp(one.logits - one.logits.max())
        left = np.where(gone[valid], 0, np.exp(one.logits - one.logits[~gone[valid]].max()))
        whole, less = (p @ values / p.sum() for p in (weights, left))
        yield one.row, whole, less, np.sqrt((values**2).sum(axis=1)).max()


def _unit(directions: Any) -> Any:
    """The directions at length 1 along the last axis; zero stays zero."""
    length = np.sqrt((directions**2).sum(axis=-1, keepdims=True))
    return directions / np.where(length > 0, length, 1)


def _step(radius: float, moving: Any) -> Any:
    """How far to move: the radius, or far beyond all numbers where it is infinite."""
    return Long(FAR) * (np.abs(moving).max() or 1) if np.isinf(radius) else Long(radius)


def _lost(logits: Any, chosen: int) -> bool:
    """Whether another key is at least as high as the one that was chosen."""
    return bool((np.delete(logits, chosen) >= logits[chosen]).any() or np.isnan(logits).any())


def _length(x: Any) -> Any:
    return np.sqrt((x**2).sum())
