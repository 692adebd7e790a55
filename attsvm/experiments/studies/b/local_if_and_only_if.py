"""B: descent started near a max-margin direction stays there exactly if it is locally optimal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.local_cones import ConeRun, cone_runs
from attsvm.experiments.studies.shared.stated_cone import (
    StatedCone,
    cone_as_stated,
    least_proved,
    plain_prover,
)
from attsvm.experiments.study import Found, Premises, Study, Table, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.theory.convergence.prover import prover

_BLANK: dict[str, Any] = {
    "off": np.nan, "kept": False, "stayed": False, "gap": np.nan, "stated_radius": np.nan,
    "proved_edge": np.nan, "unproved": False, "step": -1, "away": np.nan, "first": False,
    "late": False,
}  # fmt: skip


def measure(group: Group, edges: int, stated_steps: int, stated_lr: float = 0.05) -> dict[str, Any]:
    """Normalized descent from near the certified direction of every feasible selection.

    Rows "selection" are of one run each; of locally optimal ones with a cone in v1 its R and the
    least norm with a proof for a start on its edge; unproved: there is none after all. Rows
    "record" are 1 − cosine at a step. Rows "edge" are of one start each on the edge of v1's cone:
    whether it is proved to converge (first), its end is (late) or its tokens are kept.
    """
    draws = [np.random.default_rng([group.run["start"], seed]) for seed in group.seeds]
    runs = cone_runs(group, draws, model="weight", margin=100.0, records=40)
    rows: list[dict[str, Any]] = []
    stated: list[tuple[ConeRun, StatedCone]] = []
    for run in runs:
        base = {**_BLANK, "seed": group.seeds[run.place], **run.about}
        known = None
        if run.local is True:
            known = cone_as_stated(
                *run.pair, run.alpha, run.best, edges=edges, seed=group.run["start"]
            )
        stated += [] if known is None else [(run, known)]
        more = {} if known is None else _proved_from(run, known)
        rows.append({**base, "row": "selection", **run.end, **more})
        rows += [{**base, "row": "record", "step": step,
                  "away": max(1 - cosine(M, run.best), 1e-9)}
                 for step, M in zip(run.steps, run.W, strict=True)]  # fmt: skip
    ends = _edge_rows(stated, edges, lr=stated_lr, steps=stated_steps)
    rows += [{**_BLANK, "seed": group.seeds[place], **end} for place, end in ends]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _proved_from(run: ConeRun, stated: StatedCone) -> dict[str, Any]:
    """v1's radius, and the least norm at which a start on the edge of its cone is proved."""
    made = plain_prover(*run.pair)
    edge, unproved = least_proved(made, stated), False
    if np.isfinite(edge):
        there = made.prove(stated.edge(edge * (1 + 1e-9))[0], explain=False)
        unproved = not (there.proved and bool((there.selection == run.alpha).all()))
    return {"stated_radius": stated.radius, "proved_edge": edge, "unproved": unproved}


def _edge_rows(
    stated: list[tuple[ConeRun, StatedCone]], edges: int, *, lr: float, steps: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Normalized descent from starts on the edges of v1's cones: (place of the instance, row)."""
    if not stated:
        return
    path = train(
        [run.pair[0] for run, _ in stated for _ in range(edges)],
        head=np.repeat(np.stack([run.pair[1] for run, _ in stated]), edges, axis=0),
        lr=lr, steps=steps, init={"W": np.concatenate([c.edge() for _, c in stated])},
    )  # fmt: skip
    W = path.weights["W"][-1]
    for k, (run, known) in enumerate(stated):
        (tokens, v), made = run.pair, plain_prover(*run.pair)
        late = prover(tokens, head=v, optimizer="ngd", lr=lr)
        for b, start in enumerate(known.edge(), k * edges):
            proof = made.prove(start, explain=False)
            yield (
                run.place,
                {
                    **run.about,
                    "row": "edge",
                    "kept": run.selects(W[b]),
                    "first": proof.proved and bool((proof.selection == run.alpha).all()),
                    "late": late.prove(W[b], explain=False).proved,
                },
            )


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """Locally optimal selections are kept in direction; all others are left."""
    runs = table[table.row == "selection"]
    yes, no = runs[runs.local == "yes"], runs[runs.local == "no"]
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖W(0)/R − W^mm‖ over the tilt", runs.off.max(), 1.001)
    yield equals("locally optimal selections that are left", (~yes.stayed).sum(), 0)
    yield equals("selections that are not locally optimal and are kept in direction",
                 no.stayed.sum(), 0)  # fmt: skip
    yield equals("selections that are not locally optimal and keep their tokens", no.kept.sum(), 0)
    stated, edges = runs[runs.stated_radius.notna()], table[table.row == "edge"]
    if len(stated):
        yield from _stated_checks(stated, edges)
    yield at_most("largest certified gap", runs.gap.max(), norm_of("frobenius").tolerance)
    judged = len(yes) + len(no)
    yield Premises(
        judged,
        f"all {len(runs)} feasible selections of {runs.seed.nunique()} instances: {len(yes)} "
        f"locally optimal, {len(no)} not, {len(runs) - judged} undecided and not judged; "
        f"{len(stated)} have a tight token in every input, and so a cone in v1",
        runs.gap.max(),
    )


def _stated_checks(stated: Table, edges: Table) -> Iterator[Found]:
    """What the runs and the proofs say of v1's cones."""
    yield equals("v1's cones: starts on the edge whose run leaves the tokens", (~edges.kept).sum(),
                 0)  # fmt: skip
    # A proof at step 0 is of plain descent with η = 1/L_W; of the others the normalized run,
    # which follows the same curves, is proved at its end.
    unproved = ~edges["first"] & ~(edges.kept & edges.late)
    yield equals("v1's cones: neither proved at the start nor at the end of the run",
                 unproved.sum(), 0)  # fmt: skip
    yield info("v1's R over the least norm proved at its edge, median",
               (stated.stated_radius / stated.proved_edge).median())  # fmt: skip
    yield equals("least norms on file at which there is no proof", stated.unproved.sum(), 0)


STUDY = Study(
    id="B.local-if-and-only-if",
    title="Directions that descent keeps are the locally optimal ones",
    kind="theorem",
    source="paper",
    statement="Descent on W started far out and in a cone around the max-margin direction of a "
    "selection converges to that direction if the selection is locally optimal (Theorem 7), and "
    "leaves it if it is not. Judged in v1's cone with its printed μ and R, which ask for a tight "
    "token in every input and leave the R of the direction open, and in one derived here from the "
    "slack of the better-scoring tokens.",
    family="sphere",
    run={"n": 2, "T": 4, "d": 3, "steps": 5000, "edges": 5, "stated_steps": 5000},
    seeds=30,
    group=6,
    measure=measure,
    checks=checks,
    quick={"seeds": 6, "run": {"edges": 2, "stated_steps": 3000}},
    figure={
        "kind": "paths",
        "where": lambda t: (t.row == "record") & (t.step > 0),
        "x": "step",
        "y": "away",
        "each": ["seed", "selection"],
        "lines": "local",
        "log": "xy",
        "ylabel": "1 − cosine to the direction started from",
        "title": "Selections by whether they are locally optimal",
    },
    reference="tarzanagh2023svm",
    theorem="v1, Theorem 7",
)
