"""Margins of a head's choices: how far each logit is certified to lie below the top one.

The margin of key t is m_t = logit_a − logit_t, where a is the key chosen. What is guaranteed of a
head rests on lower bounds of margins: the rounding of the logits is taken off. The head that is
spoken of is the one with exactly these numbers, computed without rounding.

Theory: the standard model of rounding, [higham2002accuracy]. Where a product or a quotient falls
below the normal floats it errs by UNIT · TINY at most, so that TINY is added to every sum of
absolute terms: a share UNIT of that sum then bounds both kinds of error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, floats
from attsvm._utils.interval import TINY, UNIT
from attsvm.errors import BadTokens
from attsvm.inspection.view import View

# Each bound is widened by this, for the rounding of the bound itself.
WIDER = 1.01


class Margins(NamedTuple):
    """What is known of the choices of n queries over T keys.

    logits (n, T), −inf on keys that are not valid; error (n, T): how far each may be from the
    truth; chosen (n,); rivals (n, T): the valid keys that are not chosen; least (n, T): a lower
    bound of each rival's margin, inf elsewhere; gap (n,): the top logit less the second, inf where
    there is one key; tied (n,): the gap is not certified positive, so that there is no choice.
    """

    logits: Floats
    error: Floats
    chosen: Ints
    rivals: Bools
    least: Floats
    gap: Floats
    tied: Bools


def margins_of(view: View) -> Margins:
    """The margins of a View, with rounding on the safe side.

    Raises BadTokens where a number is not finite.
    """
    check_numbers(view)
    logits = view.logits()
    error = rounding_of(view)
    n = len(logits)
    rows, chosen = np.arange(n), logits.argmax(axis=1)
    rivals = view.valid.copy()
    rivals[rows, chosen] = False
    with np.errstate(invalid="ignore"):  # a key that is not valid is no rival
        apart = logits[rows, chosen][:, None] - logits
        slack = (error[rows, chosen][:, None] + error + UNIT * np.abs(apart)) * WIDER
        least = np.where(rivals, apart - slack, np.inf)
    gap = np.where(rivals, apart, np.inf).min(axis=1)
    return Margins(logits, error, chosen, rivals, least, gap, ~(least.min(axis=1) > 0))


def rounding_of(view: View) -> Floats:
    """How far each computed logit (n, T) may be from the truth: a share of |x|ᵀ|K|ᵀ|Q||z|."""
    h, d = view.key_factor.shape
    count = d + h + view.queries.shape[1] + 12
    K, Q = np.abs(view.key_factor), np.abs(view.query_factor)

    keys, queries = (np.abs(x.astype(np.float64)) for x in (view.keys, view.queries))
    slopes = (queries @ Q.T + TINY) @ K + TINY
    sizes: Floats = np.matmul(keys, slopes[:, :, None])[:, :, 0]
    return count * UNIT * WIDER * sizes + TINY


def check_numbers(view: View) -> None:
    """Raises BadTokens where a number of the View is not finite, or too large to square."""
    for name in ("keys", "queries", "key_factor", "query_factor", "values"):
        array: Any = getattr(view, name)
        if array.any():
            floats(array, f"{view.name}: {name}")


def choosing(view: View) -> View:
    """The View of the queries that have two valid keys or more; others choose nothing.

    Raises BadTokens where there is none.
    """
    rows = np.flatnonzero(view.valid.sum(axis=1) >= 2)
    if not len(rows):
        raise BadTokens(
            f"{view.name}: no query has two keys, so that none chooses; give longer texts"
        )
    return view if len(rows) == len(view.queries) else view.subset(rows)
