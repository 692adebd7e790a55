"""A: descent started near a max-margin direction stays there exactly at locally optimal tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared.local_cones import cone_runs
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals


def measure(group: Group) -> Parts:
    """A row for each feasible selection, started from the edge of its cone; feasible: how many
    selections of the instance are."""
    draws = [np.random.default_rng([*group.tokens[0].X.shape, seed, 7]) for seed in group.seeds]
    runs = cone_runs(group, draws, model="prompt", margin=1000.0)
    counts = np.bincount([run.place for run in runs])
    return [
        {
            "seed": group.seeds[run.place],
            "feasible": counts[run.place],
            "away": max(1 - cosine(run.W[-1], run.best), 1e-16),
            **run.about,
            **run.end,
        }
        for run in runs
    ]


def checks(table: Table, thresholds: Any) -> Checks:
    """Locally optimal selections are kept from the edges of their cones, and no others."""
    yes, no = (table[table.local == word] for word in ("yes", "no"))
    yield equals("locally optimal: stayed, from the edge of the cone", yes.stayed.sum(), len(yes))
    yield equals("not locally optimal: stayed", no.stayed.sum(), 0)
    yield equals("not locally optimal: tokens kept to the end", no.kept.sum(), 0)
    yield at_least("locally optimal selections judged", len(yes), 1)
    yield at_least("other selections judged", len(no), 1)
    owners = table.groupby(["n", "T", "d", "seed"])
    different = owners.selection.nunique()
    missing = (owners.feasible.first() - different).sum() + len(table) - different.sum()
    yield equals("feasible selections that were not started, or twice", missing, 0)
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖p(0)/R − p^mm‖ over the tilt", table.off.max(), 1.001)
    yield Premises(
        len(yes) + len(no),
        f"{len(different)} random instances: {len(yes)} feasible selections are locally optimal, "
        f"{len(no)} are not, {len(table) - len(yes) - len(no)} are undecided and not judged",
    )


STUDY = Study(
    id="A.local-if-and-only-if",
    title="Exactly the locally optimal tokens hold the descent",
    kind="theorem",
    source="paper",
    statement="Descent on the prompt, started at a large multiple of the max-margin direction of a "
    "selection and inside a cone around it, keeps the selection and its direction exactly when the "
    "selection is locally optimal: no tight neighbour of a kept token has a higher score. That it "
    "stays is paper B's Theorem 7 (v1) with one common query; cone and radius are derived here "
    "from the slack of the better-scoring tokens. The converse is Theorem 4 of this paper, read "
    "where B cites it (v1, p. 12), on regularization paths; ours is on descent.",
    family="sphere",
    grid={"n T d": [(2, 4, 4), (3, 3, 5)]},
    run={"steps": 5000, "queries": "none"},
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={"seeds": 3},
    figure={
        "kind": "histogram",
        "value": "away",
        "lines": "local",
        "log": True,
        "xlabel": "1 − cosine to the own direction, at the end (lines: locally optimal)",
        "ylabel": "selections",
    },
    theorem="B v1, Theorem 7; Theorem 4 as cited in B v1",
)
