"""ends: where a run stands at its last step, certified."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group
from attsvm.experiments.sweep.measures.measure import gaps_of, norms_of
from attsvm.problem.selection import Selection
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED


def last_selection(group: Group, norm: str = "frobenius") -> dict[str, Any]:
    """Whether the selected tokens are the best, or locally optimal by certificate in this norm.

    kind: global, local, neither, infeasible or undecided. decided: attention of 0.999 on a token of
    every input. correlation: with the solution of the selected tokens' problem.
    """
    from attsvm.experiments.studies.shared.proof import cosine

    found = group.solved(group.selected, norm)
    kinds = [
        verdict_on(t, Selection.of(t, a), v, c).kind
        for t, a, v, c in zip(group.tokens, group.selected, group.heads, found, strict=True)
    ]
    return {
        "global_end": (group.selected == group.best).all(axis=1),
        "local_end": np.isin(kinds, ("global", "local")),
        "kind": np.array(kinds),
        "decided": group.path.top_attention[-1].min(axis=1) >= DECIDED,
        "correlation": np.array([cosine(W, c) for W, c in zip(group.ends, found, strict=True)]),
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }
