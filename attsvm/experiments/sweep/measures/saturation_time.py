"""saturation-time: when attention saturates, beside the least time in which it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group
from attsvm.experiments.sweep.measures.measure import gaps_of, norms_of


def steps_to_saturation(group: Group, lr: float = 0.1, decay: float = 0.0) -> dict[str, Any]:
    """The step of the first record with attention 0.999 on a token of every input, and the least
    number of steps of norm lr, from zero, that the problem of these tokens allows.

    time is nan where no record is saturated, least inf where decay forbids it.
    """
    from attsvm.experiments.studies.shared.saturation import first_saturated, least_steps
    from attsvm.experiments.studies.shared.spaced_instances import picks

    seen = first_saturated(group.path)
    found = group.solved(picks(group.tokens, seen.W))
    norms = norms_of(found)
    least = [np.nan if np.isnan(N) else least_steps(N, lr=lr, decay=decay) for N in norms]
    return {
        "saturated": seen.yes.astype(bool),
        "time": np.where(seen.yes, seen.at, np.nan),
        "least": np.array(least),
        "ratio": np.where(seen.yes, seen.at, np.nan) / np.array(least),
        "least_norm": norms,
        "gap": gaps_of(found),
    }
