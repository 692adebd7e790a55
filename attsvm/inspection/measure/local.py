"""Local optimality of a head's choices, decided at the max-margin matrix of these choices.

The theory asks whether every tight neighbour of a chosen token (one whose margin is met with
equality at the max-margin matrix) has a lower score. A trained head has no score of its own; here a
token's score is its value along the head's mean output, v·x with v = Vᵀ ō/‖ō‖: what the token adds
to what the head writes on average.

Theory: [tarzanagh2023svm].
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import ConvergenceWarning
from attsvm.inspection.measure.fits import apart, tokens_of
from attsvm.inspection.view import View
from attsvm.theory.optima import optimality


class Local(NamedTuple):
    """kind: as `attsvm.optimality` says (global, local, neither, undecided, infeasible).

    tight, loose, undecided: how many margins are certified equalities, certified not, or not
    decided; lower: the share of tight neighbours that score lower than the chosen token, nan
    without any; queries: how many it was asked of.
    """

    kind: str | None
    tight: int
    loose: int
    undecided: int
    lower: float
    queries: int


def local_of(view: View, *, queries: int) -> Local:
    """Whether the choices of the first queries are locally optimal; None where it is not asked."""
    nothing = Local(None, 0, 0, 0, np.nan, 0)
    if view.turns is not None or queries < 1:
        return nothing
    part = view.subset(np.arange(min(queries, len(view.queries))))
    rows = apart(part, part.chosen())
    score = mean_output(part) @ part.value_factor
    if not len(rows) or not score.any():
        return nothing
    part = part.subset(rows)
    chosen = part.chosen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what stops early decides less
        found = optimality(tokens_of(part, chosen), chosen, score)
    tight = found.certificate.tight
    gaps = np.array([witness.score_gap for witness in found.neighbours])
    return Local(
        kind=found.kind,
        tight=int(tight.tight.sum()),
        loose=int(tight.loose.sum()),
        undecided=int(tight.undecided.sum()),
        lower=float((gaps > 0).mean()) if len(gaps) else np.nan,
        queries=len(rows),
    )


def mean_output(view: View) -> Floats:
    """The mean of the head's outputs (h,), of length 1; zero where they cancel."""
    attention = view.attention()
    seen = np.einsum("nt,ntd->d", attention, view.keys.astype(np.float64)) / len(attention)
    out: Floats = view.value_factor @ seen + view.value_shift
    size = float(np.linalg.norm(out))
    return out / size if size > 0 else out
