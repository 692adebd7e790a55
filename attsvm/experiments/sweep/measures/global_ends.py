"""global-ends: whether a run selects the best tokens at its last step; nothing is solved."""

from __future__ import annotations

from typing import Any

from attsvm.experiments.sweep.group import Group
from attsvm.theory.outcome import DECIDED


def selects_the_best(group: Group) -> dict[str, Any]:
    """Whether the selected tokens are the best ones, and attention has decided."""
    return {
        "global_end": (group.selected == group.best).all(axis=1),
        "decided": group.path.top_attention[-1].min(axis=1) >= DECIDED,
    }
