"""separable: whether the tokens to be selected can be separated."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group
from attsvm.experiments.sweep.measures.measure import gaps_of, norms_of


def can_separate(group: Group, norm: str = "frobenius") -> dict[str, Any]:
    """A W with positive margins, or an exact proof that there is none, and the least norm."""
    found = group.solved(group.best, norm)
    can = np.array([np.isfinite(c.upper) for c in found])
    return {
        "separable": can,
        "proved_not": np.array([c.proof == "exact" for c in found]) & ~can,
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }
