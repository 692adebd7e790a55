"""first-proof: the norm at which a run is first proved to converge."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.sweep.group import Group
from attsvm.theory.convergence.prover import prover


def proved_from(group: Group) -> dict[str, Any]:
    """Whether some record is proved to converge, its step and ‖W‖ there, and the least slack of a
    row that is not tight in the problem of its tokens; nan where there is none."""
    from attsvm.experiments.studies.shared.first_proofs import FIRST, first_proved

    path, W = group.path, group.path.matrices()
    out: dict[str, list[float]] = {"proved": [], "at": [], "norm": [], "slack": [], "gap": []}
    found = group.solved(group.selected)
    for b, (t, v, c) in enumerate(zip(group.tokens, group.heads, found, strict=True)):
        judge = prover(t, head=v, optimizer=group.run["optimizer"], lr=float(group.run["lr"]))
        places, proved = first_proved(judge, W[:, b])
        first = int(places[FIRST])
        out["proved"].append(float(proved))
        out["at"].append(float(path.steps[first]) if proved else np.nan)
        out["norm"].append(float(np.linalg.norm(W[first, b])) if proved else np.nan)
        out["slack"].append(_slack(c))
        out["gap"].append(float(c.gap) if np.isfinite(c.upper) else np.nan)
    columns: dict[str, Any] = {name: np.array(values) for name, values in out.items()}
    return {**columns, "proved": columns["proved"] > 0}


def _slack(certificate: Any) -> float:
    """The least margin above 1 among the rows that are surely loose, less 1; inf of none."""
    if certificate.W is None or not np.isfinite(certificate.upper):
        return float("nan")
    loose = np.ones(certificate.problem.m, dtype=bool)
    loose[certificate.tight.rows] = False
    loose &= ~certificate.tight.undecided
    return float((certificate.margins[loose] - 1.0).min(initial=np.inf))
