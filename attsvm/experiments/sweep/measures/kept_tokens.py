"""kept-tokens: which tokens a max-margin solution keeps where labels are flipped."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.errors import Unsupported
from attsvm.experiments.sweep.group import Group
from attsvm.experiments.sweep.measures.measure import gaps_of, norms_of


def kept(
    group: Group, n: int = 10, T: int = 5, d: int = 60, signal: float = 1.0, fresh: int = 200
) -> dict[str, Any]:
    """The share of relevant tokens among those kept, of clean and of flipped inputs, and on fresh
    inputs under the solution; nan where there is none."""
    from attsvm.experiments.studies.shared.flipped_labels import fresh_share

    about = group.drawn.about
    if "relevant" not in about:
        raise Unsupported("kept-tokens is for the family flipped-labels")
    found = group.solved(group.best)
    same, flips = group.best == about["relevant"], about["flips"]
    shares = [
        np.nan
        if c.W is None or not np.isfinite(c.upper)
        else fresh_share((n, T, d), seed, signal=signal, p=np.asarray(c.W)[:, 0], count=fresh)
        for c, seed in zip(found, group.seeds, strict=True)
    ]
    return {
        "flipped": flips.sum(axis=1),
        "clean_relevant": _share(same, ~flips),
        "flipped_relevant": _share(same, flips),
        "separable": np.array([np.isfinite(c.upper) for c in found]),
        "fresh": np.array(shares),
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }


def _share(same: Any, among: Any) -> Any:
    """The share of `same` among some inputs of each instance; nan of none."""
    count = among.sum(axis=1)
    return np.where(count > 0, (same & among).sum(axis=1) / np.maximum(count, 1), np.nan)
