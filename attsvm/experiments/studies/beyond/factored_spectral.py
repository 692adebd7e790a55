"""Beyond: spectral steps on factors lead where spectral steps on the weight lead."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.steepest_runs import certified_shares, steepest
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most
from attsvm.theory.measures import rank

NORMS = ("spectral", "nuclear", "frobenius")


def measure(group: Group, run: str, start: int) -> dict[str, Any]:
    """The certified share of the best margin in each norm, of a run on the weight or on factors.

    run: "weight", or "width M". rank: that of the spectral solution.
    """
    model, width = ("weight", 0) if run == "weight" else ("factored", int(run.split()[1]))
    W = steepest(group, model, "spectral", start=start, width=width).matrices()[-1]
    ranks = [float(rank(np.asarray(c.W))) for c in group.solved(group.best, "spectral")]
    return {**certified_shares(group, W, NORMS), "rank": np.array(ranks)}


def checks(table: Table, thresholds: Any) -> Checks:
    """From the width of the solution's rank on, the spectral share is that of the weight."""
    medians = table.groupby("run", sort=False)[[f"share_{norm}" for norm in NORMS]].median()
    ranks = table[table.run == "weight"]["rank"]
    whole = medians.share_spectral["weight"]
    yield at_least("weight: median spectral share", whole, thresholds["share"])
    judged = 0
    for run, (own, *others) in medians.drop("weight").iterrows():
        if int(run.split()[1]) < ranks.max():
            continue
        judged += len(ranks)
        yield at_least(f"{run}: median spectral share", own, thresholds["share"])
        yield at_least(f"{run}: spectral share less the larger of the others", own - max(others),
                       0.0)  # fmt: skip
        yield at_most(f"{run}: distance of the median share to the weight's", abs(own - whole),
                      0.02)  # fmt: skip
    text = f"{judged} runs of width at least the solutions' largest rank, {int(ranks.max())}"
    yield Premises(judged, text)
    if not table.arrived.all():
        yield Note(f"{(~table.arrived).sum()} runs end at other tokens and count with share 0")


STUDY = Study(
    id="beyond.factored-spectral",
    title="Spectral descent does not notice the factors",
    kind="question",
    source="measured",
    statement="Spectral descent on the factors of K Qᵀ maximizes the margin in the spectral norm "
    "of the product, in the median as nearly as it does on the weight itself, once the width "
    "reaches the rank of the solution.",
    family="sphere",
    grid={"run": ["weight", "width 2", "width 5", "width 10", "width 20"]},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=12,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"share": 0.98},
    quick={
        "grid": {"run": ["weight", "width 2", "width 5"]},
        "seeds": 4,
        "run": {"steps": 1500},
        "thresholds": {"share": 0.95},
    },
    figure={
        "kind": "matrix",
        "rows": "run",
        "values": [f"share_{norm}" for norm in NORMS],
        "xlabel": "norm of the margin",
        "ylabel": "the weight, or factors of a width",
        "title": "Spectral descent: median certified margin share",
        "vlabel": "share",
    },
    reference="fan2025spectral",
)
