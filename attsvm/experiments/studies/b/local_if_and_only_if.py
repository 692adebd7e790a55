"""B: descent started near a max-margin direction stays there exactly if it is locally optimal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, cosine, selected_by
from attsvm.experiments.studies.shared.local_cones import cone, descend, steps_needed
from attsvm.experiments.studies.shared.stated_cone import (
    StatedCone,
    cone_as_stated,
    least_proved,
    plain_prover,
)
from attsvm.experiments.study import Found, Premises, Study, Table, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import prover
from attsvm.theory.optima import local_optima, optimality


@dataclass(frozen=True, eq=False)
class _Case:
    """A feasible selection of an instance: its certificate, and whether it is locally optimal, None
    where that is open."""

    seed: int
    place: int
    pair: tuple[Tokens, Floats]
    alpha: Ints
    best: Certificate
    local: bool | None

    @property
    def about(self) -> dict[str, Any]:
        """The columns that all its rows share."""
        local = "open" if self.local is None else "yes" if self.local else "no"
        return {"seed": self.seed, "selection": self.place, "local": local}


def _cases(group: Group) -> list[_Case]:
    listed = [
        (seed, k, (tokens, v), np.asarray(alpha))
        for seed, tokens, v in zip(group.seeds, group.tokens, group.heads, strict=True)
        for k, alpha in enumerate(local_optima(tokens, v).choices)
    ]
    keep = [Selection.of(tokens, alpha) for _, _, (tokens, _), alpha in listed]
    best = solve_many([Problem.of(one[2][0], s) for one, s in zip(listed, keep, strict=True)])
    local = [
        optimality(one[2][0], s, one[2][1]).locally for one, s in zip(listed, keep, strict=True)
    ]
    return [_Case(*one, c, yes) for one, c, yes in zip(listed, best, local, strict=True)]


_BLANK: dict[str, Any] = {
    "off": np.nan, "same": False, "near": False, "gap": np.nan, "stated_radius": np.nan,
    "proved_edge": np.nan, "unproved": False, "step": -1, "away": np.nan, "first": False,
    "late": False,
}  # fmt: skip


def measure(
    group: Group, margin: float, pull: float, tilt: float, pace: float, records: int, edges: int,
    stated_lr: float, stated_steps: int,
) -> dict[str, Any]:  # fmt: skip
    """Normalized descent from near the certified direction of every feasible selection.

    Rows "selection" are of one run each: ‖W(0)/R − W^mm‖ over the tilt (off), whether the tokens
    are the same and W is within the bound of its cone (near); of locally optimal ones with a cone
    in v1 its R and the least norm with a proof for a start on its edge; unproved: there is none
    after all. Rows "record" are 1 − cosine at a step. Rows "edge" are of one start each on the edge
    of v1's cone: whether it is proved to converge (first), its end is (late) or its tokens are the
    same.
    """
    cases = _cases(group)
    cones = [
        cone(
            *c.pair,
            c.best,
            choice=c.alpha,
            local=c.local is True,
            margin=margin,
            pull=pull,
            tilt=tilt,
            pace=pace,
        )
        for c in cases
    ]
    target = np.stack([np.asarray(c.best.W) for c in cases])
    draws = {seed: np.random.default_rng([group.run["start"], seed]) for seed in group.seeds}
    noise = np.stack([draws[c.seed].standard_normal(target.shape[1:]) for c in cases])
    noise /= np.linalg.norm(noise, axis=(1, 2), keepdims=True)
    R, tilts, paces = (
        np.array([getattr(c, name) for c in cones]) for name in ("radius", "tilt", "pace")
    )
    steps, W = descend(
        [c.pair for c in cases],
        R[:, None, None] * (target + tilts[:, None, None] * noise),
        lr=paces * R,
        steps=steps_needed(cones, target, most=group.run["steps"]),
        model="weight",
        records=records,
    )
    rows: list[dict[str, Any]] = []
    stated: list[tuple[_Case, StatedCone]] = []
    for k, (case, at) in enumerate(zip(cases, cones, strict=True)):
        known = None
        if case.local is True:
            known = cone_as_stated(
                *case.pair, case.alpha, case.best, edges=edges, seed=group.run["start"]
            )
        stated += [] if known is None else [(case, known)]
        own = target[k]
        row = {
            "off": float(np.linalg.norm(W[0, k] / at.radius - own) / at.tilt),
            "same": bool((selected_by(case.pair[0], W[-1, k]) == case.alpha).all()),
            "near": at.holds(W[0, k], W[-1, k], best=own),
            "gap": float(case.best.gap),
        }
        more = {} if known is None else _proved_from(case, known)
        rows.append({**_BLANK, **case.about, "row": "selection", **row, **more})
        rows += [{**_BLANK, **case.about, "row": "record", "step": step,
                  "away": max(1 - cosine(M, case.best), 1e-9)}
                 for step, M in zip(steps[:, k], W[:, k], strict=True)]  # fmt: skip
    rows += _edge_rows(stated, edges, lr=stated_lr, steps=stated_steps)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _proved_from(case: _Case, stated: StatedCone) -> dict[str, Any]:
    """v1's radius, and the least norm at which a start on the edge of its cone is proved."""
    made = plain_prover(*case.pair)
    edge, unproved = least_proved(made, stated), False
    if np.isfinite(edge):
        there = made.prove(stated.edge(edge * (1 + 1e-9))[0], explain=False)
        unproved = not (there.proved and bool((there.selection == case.alpha).all()))
    return {
        "stated_radius": stated.radius,
        "proved_edge": edge,
        "unproved": unproved,
    }


def _edge_rows(
    stated: list[tuple[_Case, StatedCone]], edges: int, *, lr: float, steps: int
) -> Iterator[dict[str, Any]]:
    """Normalized descent from starts on the edges of v1's cones."""
    if not stated:
        return
    path = train(
        [case.pair[0] for case, _ in stated for _ in range(edges)],
        head=np.repeat(np.stack([case.pair[1] for case, _ in stated]), edges, axis=0),
        lr=lr, steps=steps, init={"W": np.concatenate([c.edge() for _, c in stated])},
    )  # fmt: skip
    W = path.weights["W"][-1]
    for k, (case, known) in enumerate(stated):
        (tokens, v), made = case.pair, plain_prover(*case.pair)
        late = prover(tokens, head=v, optimizer="ngd", lr=lr)
        for b, start in enumerate(known.edge(), k * edges):
            proof = made.prove(start, explain=False)
            yield {
                **_BLANK, **case.about, "row": "edge",
                "same": bool((selected_by(tokens, W[b]) == case.alpha).all()),
                "first": proof.proved and bool((proof.selection == case.alpha).all()),
                "late": late.prove(W[b], explain=False).proved,
            }  # fmt: skip


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """Locally optimal selections are kept in direction; all others are left."""
    runs = table[table.row == "selection"]
    yes, no = runs[runs.local == "yes"], runs[runs.local == "no"]
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖W(0)/R − W^mm‖ over the tilt", runs.off.max(), 1.001)
    yield equals("locally optimal selections that are left", (~(yes.same & yes.near)).sum(), 0)
    yield equals("selections that are not locally optimal and are kept in direction",
                 (no.same & no.near).sum(), 0)  # fmt: skip
    yield equals("selections that are not locally optimal and keep their tokens", no.same.sum(), 0)
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
    yield equals("v1's cones: starts on the edge whose run leaves the tokens", (~edges.same).sum(),
                 0)  # fmt: skip
    # A proof at step 0 is of plain descent with η = 1/L_W; of the others the normalized run,
    # which follows the same curves, is proved at its end.
    unproved = ~edges["first"] & ~(edges.same & edges.late)
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
    run={
        "n": 2,
        "T": 4,
        "d": 3,
        "start": 0,
        "margin": 100.0,
        "pull": 0.01,
        "tilt": 1e-3,
        "pace": 0.002,
        "steps": 5000,
        "records": 40,
        "edges": 5,
        "stated_lr": 0.05,
        "stated_steps": 5000,
    },
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
