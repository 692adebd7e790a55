"""Which keys may be dropped while a head's output keeps to 1 %.

Dropping the keys E and sharing their attention p_E among the others moves the output o by exactly

    o − o' = p_E (v̄_E − o') = r (v̄_E − o),      r = p_E / (1 − p_E)

with v̄_E the mean value of the dropped keys, weighted by attention. Where the attention row is known
this is the error. Where only margins are, r ≤ |E| e^{−g} for keys at least g below the top, and

    ‖o − o'‖ ≤ |E| e^{−g} max_{t ∈ E} ‖v_t − o‖.

Keys are dropped in the order of their logits, lowest first, and what is found is one set for each
query: the largest such set that may go as a whole. By the attention row nothing is said of a part
of it, as values of dropped keys can make up for each other; the bound by margins only falls when
fewer keys go, and holds for every part. Both are about the head's own output at this query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import TINY, UNIT
from attsvm.inspection.margins import WIDER, Margins, paired_blocks
from attsvm.inspection.view import View

# More than the attention of keys whose weight is no normal float, next to a top weight of 1.
_LOST = 1e-290
# More than what the root of a sum of squares loses when these fall below the normal floats.
_SHORT = TINY**0.5


class Eviction(NamedTuple):
    """How many keys each query may drop at an error of `share` of its output's length.

    known (n,): by the attention row; bound (n,): by margins alone; keys (n,): how many there are.
    They are those with the lowest logits: `order` (n, T) lists keys, lowest first, invalid last.
    """

    share: float
    known: Ints
    bound: Ints
    keys: Ints
    order: Ints


def eviction_of(view: View, margins: Margins, *, share: float = 0.01) -> Eviction:
    """The keys that each query of a View may drop, with rounding on the safe side."""
    # Where errors overflow nothing is known: infinities and nan pass no comparison below.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        counts = [_counts(block, own, share) for block, own in paired_blocks(view, margins)]
    known, bound = np.concatenate(counts, axis=1)
    return Eviction(share, known, bound, view.valid.sum(axis=1), _order(view, margins))


def _order(view: View, margins: Margins) -> Ints:
    return np.where(view.valid, margins.logits, np.inf).argsort(axis=1, kind="stable")


def _counts(view: View, margins: Margins, share: float) -> Ints:
    """How many keys may go (2, n): by the row, and by margins alone."""
    n, T = view.valid.shape
    order = _order(view, margins)
    rows = np.arange(n)[:, None]
    logits = margins.logits[rows, order]
    count = view.valid.sum(axis=1)
    top = margins.logits[np.arange(n), margins.chosen]
    p = np.where(np.isfinite(logits), np.exp(logits - top[:, None]), 0.0)
    v, sizes = _values(view, order)
    total = p.sum(axis=1)
    out = np.einsum("nt,nth->nh", p, v) / total[:, None]
    # Each weight is known to a share `loose`, each value to an error `blur` in length.
    error = np.where(view.valid, margins.error, 0.0).max(axis=1)
    loose = (np.expm1(4 * error) + (2 * T + 40) * UNIT) * WIDER
    blur = sizes.max(axis=1) * (view.keys.shape[2] + 8) * UNIT
    spread = np.sqrt((v**2).sum(axis=2)).max(axis=1) + _SHORT
    unsure = (blur + loose * spread + _SHORT) * 4
    length = np.sqrt((out**2).sum(axis=1))
    allowed = share * np.maximum(length - unsure, 0.0)
    mass = np.cumsum(p, axis=1)
    # What is left is summed from the top, where a difference would cancel; the top counts 1.
    left = np.cumsum(p[:, ::-1], axis=1)[:, ::-1][:, 1:]
    left = np.concatenate([left, np.zeros((n, 1))], axis=1)
    ratio = np.where(left > 0, mass / left, np.inf) * (1 + 4 * loose[:, None])
    middle = np.cumsum(p[:, :, None] * v, axis=1) / mass[:, :, None]
    apart = np.sqrt(((middle - out[:, None]) ** 2).sum(axis=2)) + unsure[:, None]
    lost = _LOST * spread[:, None] + TINY
    moved = np.where(mass > 0, ratio * apart, 0.0) + lost
    # The highest dropped logit is the last one of a prefix.
    below = logits - top[:, None] + 2 * error[:, None]
    most = np.arange(1, T + 1) * np.exp(below) * (1 + 8 * UNIT)
    far = np.maximum.accumulate(
        np.sqrt(((v - out[:, None]) ** 2).sum(axis=2)) + unsure[:, None], axis=1
    )
    bounded = np.where(np.isfinite(logits), most * far + lost, np.inf)
    some = np.arange(1, T + 1) < count[:, None]  # one key is always left
    return np.stack([_longest(some & (error < allowed[:, None])) for error in (moved, bounded)])


def _values(view: View, order: Ints) -> tuple[Floats, Floats]:
    """The values (n, T, h) in this order, and the lengths (n, T) of sums of absolute terms."""
    rows = np.arange(len(order))[:, None]
    keys = view.keys.astype(np.float64)[rows, order]
    v = keys @ view.value_factor.T + view.value_shift
    sizes = np.abs(keys) @ np.abs(view.value_factor).T + np.abs(view.value_shift)
    return v, np.sqrt((sizes**2).sum(axis=2))


def _longest(fine: Bools) -> Ints:
    """The longest prefix (n,) that is fine, 0 where none is."""
    T = fine.shape[1]
    return np.where(fine.any(axis=1), T - fine[:, ::-1].argmax(axis=1), 0)
