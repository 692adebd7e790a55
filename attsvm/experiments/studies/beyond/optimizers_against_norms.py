"""Beyond: each optimizer's margin is largest in the norm of its own steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.steepest_runs import NORMS, certified_shares, steepest
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, equals
from attsvm.theory.landscape import equal_scores

# (model, optimizer) and the norm its margin is expected to be largest in, "" where none is solved
# here.
ROWS = {
    "weight ngd": "frobenius",
    "weight sign": "max",
    "weight spectral": "spectral",
    "factored ngd": "nuclear",
    "factored spectral": "spectral",
    "factored sign": "",
}


def measure(group: Group, row: str, start: int = 1) -> dict[str, Any]:
    """The certified share of the best margin in each norm; 0 at other tokens than the best."""
    model, optimizer = row.split()
    W = steepest(group, model, optimizer, start=start).matrices()[-1]
    same = [equal_scores(t, v) for t, v in zip(group.tokens, group.heads, strict=True)]
    return {**certified_shares(group, W, NORMS), "equal_scores": np.array(same)}


def checks(table: Table, thresholds: Any) -> Checks:
    """Row maxima at the expected norms, and near 1 there."""
    shares = table.groupby("row", sort=False)[[f"share_{norm}" for norm in NORMS]].median()
    for row, own in filter(all, ROWS.items()):
        values = shares.loc[row].to_numpy()
        place = NORMS.index(own)
        lead = values[place] - np.delete(values, place).max()
        yield at_least(f"{row}: median margin share in {own}", values[place], thresholds["share"])
        yield at_least(f"{row}: lead over the next norm", lead, 0.0)
    once = table.drop_duplicates("seed")
    inside = int(once.equal_scores.sum())
    yield equals("instances with equal non-optimal scores", inside, len(once))
    yield Premises(
        inside, f"{inside} of {len(once)} instances separable, with equal non-optimal scores"
    )
    if not table.arrived.all():
        yield Note(f"{(~table.arrived).sum()} runs end at other tokens and count with share 0")


STUDY = Study(
    id="beyond.rules-against-norms",
    title="Optimizers against norms",
    kind="question",
    source="measured",
    statement="With steps falling like t^−½, normalized, sign and spectral descent on the weight "
    "reach in the median nearly the best margin in the Frobenius, max and spectral norm, and on "
    "factors normalized and spectral descent in the nuclear and spectral norm of the product: each "
    "its largest share among the norms.",
    family="sphere",
    grid={"row": list(ROWS)},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=20,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"share": 0.98},
    quick={"seeds": 6, "run": {"steps": 1500}, "thresholds": {"share": 0.95}},
    figure={
        "kind": "matrix",
        "rows": "row",
        "values": [f"share_{norm}" for norm in NORMS],
        "xlabel": "norm of the margin",
        "ylabel": "model and optimizer",
        "title": "Median certified margin share (bold: the largest of a row)",
        "vlabel": "share",
    },
    reference="fan2025spectral",
)
