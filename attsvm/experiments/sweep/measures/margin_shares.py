"""margin-shares: how much of the best margin in each norm a run's last W has."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group


def shares_by_norm(group: Group) -> dict[str, Any]:
    """The certified share of the best margin in each of five norms, 0 at other tokens."""
    from attsvm.experiments.studies.shared.proof import share
    from attsvm.experiments.studies.shared.steepest_runs import NORMS

    out: dict[str, Any] = {}
    for norm in NORMS:
        found = group.solved(group.best, norm)
        values = [share(W, c) for W, c in zip(group.ends, found, strict=True)]
        out[f"share_{norm}"] = np.array(values)
    return out
