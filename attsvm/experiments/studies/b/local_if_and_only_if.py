"""B: descent started near a max-margin direction stays there exactly if it is locally optimal.

v1's cone of a locally optimal selection α with a tight token in every input, T_i its tight tokens:

    Θ = 1/‖W^mm‖,   A = max ‖x_it z_iᵀ‖/Θ,   δ = ½ min (x_it − x_iτ)ᵀ W^mm z_i, t ∈ T_i, τ ∉ T_i
    μ = ⅛ (min(½, δ)/A)²,   R = (max(2, 1/δ)/Θ) log(64 T Γ A/γ_gap)
    C = {W : cos(W, W^mm) ≥ 1 − μ, ‖W‖ ≥ R}

with Γ the largest difference of two scores of an input and γ_gap the least by which a kept token
beats a tight one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, cosines
from attsvm.experiments.studies.shared.local_cones import ConeRun, cone_runs, selects
from attsvm.experiments.studies.shared.plain_descent import proved_end
from attsvm.experiments.study import Checks, Premises, Study, Table, at_most, equals
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.prover import prover
from attsvm.theory.optima import score_gaps


class StatedCone(NamedTuple):
    """μ and R of one selection, and starts (e, d, dq) of norm R on the edge of the cone."""

    mu: float
    radius: float
    starts: Floats


def cone_as_stated(
    tokens: Tokens, v: Floats, alpha: Ints, best: Certificate, *, edges: int, seed: int
) -> StatedCone | None:
    """The cone of a selection; None where an input has no tight token, for which none is stated.

    The first starts lean to the better-scoring tokens, one each, the others anywhere.
    """
    rows, tight = best.problem.rows, best.tight.tight
    if best.W is None or not all(tight[rows[:, 0] == i].any() for i in range(tokens.n)):
        return None
    gaps = score_gaps(tokens, alpha, v)[0][rows[:, 0], rows[:, 2]]
    scores, W = tokens.scores(v), np.asarray(best.W)
    norm = float(np.linalg.norm(W))
    delta = 0.5 * float((best.margins - 1)[~tight].min(initial=np.inf))
    sizes = np.linalg.norm(np.asarray(tokens.X), axis=2) * np.linalg.norm(
        tokens.queries, axis=1, keepdims=True
    )
    A = float(sizes.max()) * norm
    widest = float((scores.max(axis=1) - scores.min(axis=1)).max())
    ratio = 64 * tokens.T * widest * A / float(gaps[tight].min())
    mu = 0.125 * (min(0.5, delta) / A) ** 2
    radius = max(2.0, 1 / delta) * norm * float(np.log(ratio))
    better = np.flatnonzero(gaps < 0)[:edges]
    toward = np.random.default_rng(seed).standard_normal((edges, *W.shape))
    D, z = best.problem.differences(better), best.problem.queries[best.problem.query[better]]
    toward[: len(better)] = -np.einsum("ki,kj->kij", D, z)
    toward -= np.einsum("eij,ij->e", toward, W)[:, None, None] * W / norm**2
    toward /= np.linalg.norm(toward, axis=(1, 2), keepdims=True)
    turned = (1 - mu) * W / norm + np.sqrt(1 - (1 - mu) ** 2) * toward
    return StatedCone(mu, radius, radius * turned)


def measure(group: Group, edges: int, stated_steps: int, stated_lr: float = 0.05) -> Parts:
    """Normalized descent from near the certified direction of every feasible selection.

    Rows "record" are of one step of a run each, stated: whether v1 has a cone for the selection.
    Rows "edge" are of one start each on the edge of v1's cone: whether it is proved to converge
    (first), its end is (late) or its tokens are kept.
    """
    start = group.run["start"]
    draws = [np.random.default_rng([start, seed]) for seed in group.seeds]
    parts, stated = [], list[tuple[ConeRun, Floats]]()
    for run in cone_runs(group, draws, model="weight", margin=100.0, records=40):
        t, v = group.tokens[run.place], group.heads[run.place]
        known = None
        if run.local is True:
            known = cone_as_stated(t, v, run.alpha, run.best, edges=edges, seed=start)
        stated += [] if known is None else [(run, known.starts)]
        parts.append({
            "seed": group.seeds[run.place], **run.about, **run.end, "row": "record",
            "stated": known is not None, "step": run.steps,
            "away": np.maximum(1 - cosines(run.W, run.best), 1e-9),
        })  # fmt: skip
    if not stated:
        return parts
    places = [run.place for run, _ in stated for _ in range(edges)]
    path = train(
        [group.tokens[b] for b in places], head=group.heads[places], lr=stated_lr,
        steps=stated_steps, init={"W": np.concatenate([starts for _, starts in stated])},
    )  # fmt: skip
    ends = np.split(path.weights["W"][-1], len(stated))
    for (run, starts), W in zip(stated, ends, strict=True):
        t, v = group.tokens[run.place], group.heads[run.place]
        late = prover(t, head=v, optimizer="ngd", lr=stated_lr)
        parts.append({
            "seed": group.seeds[run.place], **run.about, "row": "edge",
            "kept": selects(t, W, run.alpha),
            "first": [proved_end(t, v, x, best=run.alpha) == "best" for x in starts],
            "late": [late.prove(x, explain=False).proved for x in W],
        })  # fmt: skip
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """Locally optimal selections are kept in direction; all others are left."""
    runs = table[table.row == "record"].drop_duplicates(["seed", "selection"])
    yes, no = runs[runs.local == "yes"], runs[runs.local == "no"]
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖W(0)/R − W^mm‖ over the tilt", runs.off.max(), 1.001)
    yield equals("locally optimal selections that are left", (~yes.stayed).sum(), 0)
    yield equals("selections that are not locally optimal and are kept in direction",
                 no.stayed.sum(), 0)  # fmt: skip
    yield equals("selections that are not locally optimal and keep their tokens", no.kept.sum(), 0)
    edges, judged = table[table.row == "edge"], len(yes) + len(no)
    if len(edges):
        yield equals("v1's cones: starts on the edge whose run leaves the tokens",
                     (~edges.kept).sum(), 0)  # fmt: skip
        # A proof at step 0 is of plain descent with η = 1/L_W; of the others the normalized run,
        # which follows the same curves, is proved at its end.
        unproved = ~edges["first"] & ~(edges.kept & edges.late)
        yield equals("v1's cones: neither proved at the start nor at the end of the run",
                     unproved.sum(), 0)  # fmt: skip
    yield Premises(
        judged,
        f"all {len(runs)} feasible selections of {runs.seed.nunique()} instances: {len(yes)} "
        f"locally optimal, {len(no)} not, {len(runs) - judged} undecided and not judged; "
        f"{runs.stated.sum()} have a tight token in every input, and so a cone in v1",
    )


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
    gap=1e-8,
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
    theorem="v1, Theorem 7",
)
