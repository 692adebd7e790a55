"""Whether a head's choice survives when its weights are stored in eight bits.

With W changed to W + E every margin changes by (x_a − x_t)ᵀ E z, so the choice stays where

    m_t > ‖x_a − x_t‖ ‖E z‖   for all t      (rotary positions: ‖x_a‖‖e_a‖ + ‖x_t‖‖e_t‖)

Here E comes from rounding each row of the two factors to 255 levels between −max and max; a bias is
kept as it is, as is usual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import TINY, UNIT
from attsvm.inspection.margins import WIDER, Margins, paired_blocks, turned_queries, turned_sizes
from attsvm.inspection.view import View

# Levels on either side of zero.
LEVELS = 127


class Quantized(NamedTuple):
    """Which choices (n,) are certified to stay, and the View of the head with rounded factors."""

    safe: Bools
    view: View


def quantized_of(view: View, margins: Margins) -> Quantized:
    """The choices that eight bits per row cannot change, by the bound on ‖E z‖."""
    d = view.keys.shape[2]
    Q = view.query_factor.astype(np.float64)
    coarse = replace(
        view,
        key_factor=rounded_rows(view.key_factor),
        query_factor=np.concatenate([rounded_rows(Q[:, :d]), Q[:, d:]], axis=1),
    )
    return Quantized(kept_under(view, margins, coarse), coarse)


def kept_under(view: View, margins: Margins, changed: View) -> Bools:
    """Which choices (n,) of a View are certified to stay under the factors of `changed`."""
    safe = [
        (own.least > _largest_change(block, changed, own.chosen)).all(axis=1)
        for block, own in paired_blocks(view, margins)
    ]
    return np.concatenate(safe)


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
    other = replace(view, key_factor=changed.key_factor, query_factor=changed.query_factor)
    change = np.zeros(())
    sizes = np.zeros(())
    for one, sign in ((other, 1.0), (view, -1.0)):
        change = change + sign * (turned_queries(one) @ one.key_factor)
        z = np.abs(one.queries.astype(np.float64)) @ np.abs(one.query_factor).T + TINY
        sizes = sizes + turned_sizes(one, z) @ np.abs(one.key_factor) + TINY
    count = sum(view.query_factor.shape) + len(changed.key_factor) + 20
    e = _length(change) + count * UNIT * WIDER * _length(sizes)
    e *= 1 + (view.keys.shape[2] + 8) * UNIT
    keys = view.keys.astype(np.float64)
    rows = np.arange(len(keys))
    if view.turns is None:
        apart = _length(keys[rows, chosen][:, None] - keys)
        most: Floats = apart * e
    else:
        lengths = _length(keys) * e
        most = lengths[rows, chosen][:, None] + lengths
    return most * (1 + (view.keys.shape[2] + 8) * UNIT) + TINY


def _length(x: Floats) -> Floats:
    """The lengths over the last axis; squares lost to underflow are made up for."""
    out: Floats = np.sqrt(np.einsum("...d,...d->...", x, x) + TINY)
    return out
