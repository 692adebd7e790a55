"""Attacks on what is guaranteed: keys dropped, moved and rounded in earnest, violations counted.

Nothing here is shared with the guarantees: every output and every choice is computed again, from
the View's own arrays, in the longest floats that the machine has. Moves go in the worst direction,
and in random ones, by 0.9999 of the radius; none may change a choice. Where there is no limit, they
go a thousand times as far as the numbers are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.inspection.view import View

Long = np.longdouble
# Moves are this share of the radius.
NEARLY = 0.9999
# Where the radius is infinite, moves are this many times the largest number that moves.
FAR = 1000.0
# Long floats that one block of queries may hold.
_BLOCK = 1 << 21


class Attacked(NamedTuple):
    """How many attacks were made, and how many broke what was guaranteed."""

    tried: int
    broken: int


class LongHead(NamedTuple):
    """The arrays of a few queries as long floats: keys, queries, and each key's W z."""

    keys: Any
    queries: Any
    slopes: Any
    valid: Bools


def drop_keys(view: View, dropped: Ints, order: Ints, *, share: float) -> Attacked:
    """Drop the first `dropped` (n,) keys of each `order` (n, T); compare both outputs."""
    tried = broken = 0
    for rows in _blocks(view):
        whole, less = _outputs(view, rows, dropped, order)
        moved, length = _length(whole - less), _length(whole)
        some = dropped[rows] > 0
        tried += int(some.sum())
        broken += int((some & ~(moved <= Long(share) * length)).sum())
    return Attacked(tried, broken)


def layer_moves(view: View, dropped: Ints, order: Ints, allowed: Floats) -> Attacked:
    """Drop the same keys; compare what the head adds to its layer's output with `allowed` (n,) of
    that output's length. Nothing is tried where the output matrix is not known."""
    if view.layer_output is None:
        return Attacked(0, 0)
    factor, output = (part.astype(Long) for part in view.layer_output)
    tried = broken = 0
    for rows in _blocks(view):
        whole, less = _outputs(view, rows, dropped, order)
        moved, length = _length((whole - less) @ factor.T), _length(output[rows])
        some = (dropped[rows] > 0) & np.isfinite(allowed[rows])
        tried += int(some.sum())
        broken += int((some & ~(moved <= allowed[rows].astype(Long) * length)).sum())
    return Attacked(tried, broken)


def _outputs(view: View, rows: Ints, dropped: Ints, order: Ints) -> tuple[Any, Any]:
    """The head's output at these queries with all keys, and without those that are dropped."""
    head = _long(view, rows)
    values = view.values[rows].astype(Long)
    logits = _logits(head.keys, head.slopes, head.valid)
    left = logits.copy()
    for i, row in enumerate(rows):
        left[i, order[row, : dropped[row]]] = -np.inf
    return _output(logits, values), _output(left, values)


def move_keys(view: View, radius: Floats, *, seed: int = 0, factor: float = NEARLY) -> Attacked:
    """Move every key by factor · radius (n,): against the choice, and at random."""

    def move(head: LongHead, chosen: Ints, draw: AttackDraw) -> Iterator[tuple[Any, Bools]]:
        by = _steps(factor * radius[draw.rows], head.keys)[:, None, None]
        sign = np.where(np.arange(head.valid.shape[1]) == chosen[:, None], -1.0, 1.0)[:, :, None]
        worst = sign * np.broadcast_to(_unit(head.slopes), head.keys.shape)
        for direction in (worst, _unit(draw.normal(head.keys.shape))):
            logits = _logits(head.keys + by * direction, head.slopes, head.valid)
            yield logits, np.ones(len(by), dtype=bool)

    return _attack(view, radius, seed, move)


def move_query(view: View, radius: Floats, *, seed: int = 0, factor: float = NEARLY) -> Attacked:
    """Move each query by factor · radius (n,): towards every rival in turn, and at random."""

    def move(head: LongHead, chosen: Ints, draw: AttackDraw) -> Iterator[tuple[Any, Bools]]:
        d = head.keys.shape[2]
        by = _steps(factor * radius[draw.rows], head.queries[:, :d])[:, None]
        slopes = _query_slopes(view, head)[:, :, :d]
        base = _logits(head.keys, head.slopes, head.valid)
        towards = _unit(slopes - slopes[np.arange(len(by)), chosen][:, None])
        for t in range(towards.shape[1]):
            step = by * towards[:, t]
            rival = head.valid[:, t] & (chosen != t)
            yield base + (slopes @ step[:, :, None])[:, :, 0], rival
        step = by * _unit(draw.normal((len(by), d)))
        yield base + (slopes @ step[:, :, None])[:, :, 0], np.ones(len(by), dtype=bool)

    return _attack(view, radius, seed, move)


class AttackDraw(NamedTuple):
    """The queries of a block, and where its random directions come from."""

    rows: Ints
    rng: np.random.Generator

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Normal numbers as long floats."""
        return self.rng.normal(size=shape).astype(Long)


def _attack(view: View, radius: Floats, seed: int, moves: Callable[..., Iterator[Any]]) -> Attacked:
    """Count what moves break: each gives the logits (n, T) after it, and where (n,) it was made."""
    rng = np.random.default_rng(seed)
    tried = broken = 0
    for rows in _blocks(view):
        head = _long(view, rows)
        chosen = _choice(head)
        for logits, made in moves(head, chosen, AttackDraw(rows, rng)):
            here = made & (radius[rows] > 0)
            tried += int(here.sum())
            broken += int((here & _lost(logits, chosen)).sum())
    return Attacked(tried, broken)


def _unit(directions: Any) -> Any:
    """The directions at length 1 along the last axis; zero stays zero."""
    length = np.sqrt((directions**2).sum(axis=-1, keepdims=True))
    return directions / np.where(length > 0, length, 1.0)


def round_weights(view: View, rounded: View, safe: Bools) -> Attacked:
    """Choose with the rounded factors: those that are `safe` (n,) must choose the same key."""
    tried = broken = 0
    for rows in _blocks(view):
        chosen = _choice(_long(view, rows))
        head = _long(rounded, rows)
        lost = _lost(_logits(head.keys, head.slopes, head.valid), chosen)
        tried += int(safe[rows].sum())
        broken += int((safe[rows] & lost).sum())
    return Attacked(tried, broken)


def _steps(radius: Floats, moving: Any) -> Any:
    """How far to move (n,): the radius, or far beyond all numbers of a row where it is infinite."""
    large = np.abs(moving).reshape(len(moving), -1).max(axis=1)
    steps = np.where(np.isinf(radius), FAR * np.where(large > 0, large, 1.0), radius)
    return np.where(radius > 0, steps, 0.0).astype(Long)


def _blocks(view: View) -> Iterator[Ints]:
    n, T, d = view.keys.shape
    step = max(1, _BLOCK // (T * d))
    for start in range(0, n, step):
        yield np.arange(start, min(start + step, n))


def _long(view: View, rows: Ints) -> LongHead:
    """The queries of these rows in long floats; slopes (n, 1, d)."""
    keys, queries = view.keys[rows].astype(Long), view.queries[rows].astype(Long)
    K, Q = view.key_factor.astype(Long), view.query_factor.astype(Long)
    q = (queries @ Q.T)[:, None, :]
    return LongHead(keys, queries, q @ K, view.valid[rows])


def _logits(keys: Any, slopes: Any, valid: Bools) -> Any:
    return np.where(valid, (keys * slopes).sum(axis=2), -np.inf)


def _choice(head: LongHead) -> Ints:
    chosen: Ints = _logits(head.keys, head.slopes, head.valid).argmax(axis=1)
    return chosen


def _lost(logits: Any, chosen: Ints) -> NDArray[np.bool_]:
    """Where another key is at least as high as the one that was chosen."""
    rows = np.arange(len(chosen))
    top = logits[rows, chosen]
    rest = logits.copy()
    rest[rows, chosen] = -np.inf
    lost: NDArray[np.bool_] = ~(top > rest.max(axis=1))
    return lost


def _length(x: Any) -> Any:
    return np.sqrt((x**2).sum(axis=1))


def _output(logits: Any, values: Any) -> Any:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (p[:, :, None] * values).sum(axis=1) / p.sum(axis=1)[:, None]


def _query_slopes(view: View, head: LongHead) -> Any:
    """The gradient (n, T, dq) of each logit in the query."""
    k = head.keys @ view.key_factor.astype(Long).T
    return k @ view.query_factor.astype(Long)
