"""B: descent started near a max-margin direction stays there exactly if it is locally optimal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, cosine, selected_by
from attsvm.experiments.studies.shared.stated_cone import (
    StatedCone,
    cone_as_stated,
    cosines_to,
    least_cone,
    least_proved,
    plain_prover,
)
from attsvm.experiments.study import Found, Premises, Study, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import prover
from attsvm.theory.optima import local_optima, optimality, score_gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class LocalCone:
    """Where the theorem's starts lie: R (p^mm + e), ‖e‖ ≤ tilt, and steps of length `pace` R.

    Let D = max ‖Δ_k‖ and s the least slack of a margin over a better-scoring token. A tilt e
    changes the difference of two margins by at most 2D‖e‖ R, a step by 2D pace R. With both at
    most s/(8D), half of the slack is left, and better tokens pull at most `pull` of what the tight
    ones do once R ≥ (2/s) log(ratio/pull), ratio being that of their pulls at equal margins.
    Under the pull of the others alone, Σ w_k e^−m_k, the part of p across p^mm obeys

        ‖across‖² ≤ (R‖e‖)² + (2C + pace R D) ‖p^mm‖² (r − R),   C = log(Σ w / least tight w),

    where r = ⟨p, p^mm⟩/‖p^mm‖²: the pulled rows have mean margin at most r + C, and r grows.
    """

    radius: float
    tilt: float
    pace: float
    spread: float
    size: float

    def holds(self, start: Floats, end: Floats, *, best: Floats) -> bool:
        """Whether the end is grown along p^mm and within the bound across it."""
        (r0, across0), (r, across) = (parts(x, best) for x in (start, end))
        rate = 2 * self.spread + self.pace * self.radius * self.size
        most = across0**2 + rate * float(np.vdot(best, best)) * (r - r0)
        return bool(r > r0 and across**2 <= most * (1 + 1e-9))


def parts(p: Floats, best: Floats) -> tuple[float, float]:
    """r = ⟨p, p^mm⟩/‖p^mm‖² and the norm of what is left of p."""
    r = float(np.vdot(p, best) / np.vdot(best, best))
    return r, float(np.linalg.norm(p - r * best))


def cone(
    tokens: Tokens,
    v: Floats,
    *,
    choice: Ints,
    best: Certificate,
    config: Mapping[str, Any],
    local: bool,
) -> LocalCone:
    """The Cone of a selection, which is started from its edge; what is not locally optimal has
    none, and starts within a small tilt of its direction.

    config: margin, the least radius; pull, tilt and pace.
    """
    gaps, _ = score_gaps(tokens, choice, v)
    rows = best.problem.rows
    gap = gaps[rows[:, 0], rows[:, 2]]
    kept_scores = tokens.scores(v)[rows[:, 0], choice[rows[:, 0]]]
    pull = np.abs(gap) / (1 + np.exp(kept_scores))  # |ℓ'| times the score gap
    better, tight = gap <= 0, best.tight.tight
    size = float(best.problem.row_norms.max())
    least = float(pull[tight & ~better].min(initial=np.inf))
    least = least if np.isfinite(least) else float(pull.max())
    slack, radius = 2.0, float(config["margin"])
    if local and best.W is not None and better.any():
        # Positive where the tokens are certified loose; the floor is for solutions that are not.
        slack = min(slack, max(float((best.margins - 1)[better].min()), 1e-9))
        ratio = float(pull[better].sum()) / least
        radius = max(radius, 2 / slack * np.log(max(ratio, 1.0) / config["pull"]))
    edge = slack / (8 * size)
    spread = float(np.log(max(pull[~better].sum(), least) / least))
    tilt = edge if local else config["tilt"]
    return LocalCone(radius, tilt, min(config["pace"], edge), spread, size)


def descend(
    stack: Sequence[tuple[Tokens, Floats]],
    start: Floats,
    *,
    lr: Floats,
    steps: Ints,
    model: str,
    records: int = 1,
) -> tuple[Ints, Floats]:
    """Normalized descent with step lr (K,) from each start, so many steps (K,): the steps of the
    records (R, K) and the weights (R, K, ...); of a single record, the end.

    Steps of length 1 in weights/lr with keys times lr are the same descent.
    """
    out = np.empty((records, *start.shape))
    at = np.empty((records, len(start)), dtype=np.int64)
    name = "p" if model == "prompt" else "W"
    scale = lr.reshape(-1, *[1] * (start.ndim - 1))
    for count in np.unique(steps).tolist():
        here = np.flatnonzero(steps == count).tolist()
        scaled = [
            Tokens(
                t.X,
                keys=step * np.asarray(t.keys),
                labels=t.labels,
                queries=None if model == "prompt" else t.queries,
            )
            for step, (t, _) in ((lr[k], stack[k]) for k in here)
        ]
        path = train(
            scaled,
            model=model,
            head=np.stack([stack[k][1] for k in here]),
            lr=1.0,
            steps=count,
            init={name: start[here] / scale[here]},
        )
        rows = np.linspace(len(path.steps) - 1, 0, records).round().astype(int)[::-1]
        out[:, here] = path.weights[name][rows] * scale[here]
        at[:, here] = path.steps[rows][:, None]
    return at, out


def steps_needed(cones: Sequence[LocalCone], best: Floats, *, most: int) -> Ints:
    """`most` steps, or ten times as many where those could not double the norm (K,)."""
    reach = np.array([c.pace for c in cones]) * most
    short = reach < np.linalg.norm(best.reshape(len(best), -1), axis=1)
    return np.where(short, 10 * most, most)


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
    "off": np.nan, "radius": np.nan, "tilt": np.nan, "cosine": np.nan, "same": False,
    "near": False, "grown": np.nan, "gap": np.nan, "stated_radius": np.nan,
    "stated_angle": np.nan, "proved_edge": np.nan, "proved_cone": np.nan, "unproved": False,
    "step": -1, "away": np.nan, "first": False, "late": False, "widest": np.nan,
}  # fmt: skip


def measure(
    group: Group, margin: float, pull: float, tilt: float, pace: float, records: int, edges: int,
    stated_lr: float, stated_steps: int,
) -> dict[str, Any]:  # fmt: skip
    """Normalized descent from near the certified direction of every feasible selection.

    Rows "selection" are of one run each: ‖W(0)/R − W^mm‖ over the tilt (off), R, the tilt in
    degrees, the cosine at the end, whether the tokens are the same and W is within the bound of its
    cone (near), the growth along W^mm; of locally optimal ones with a cone in v1 its R and angle,
    and the least norms with a proof for a start on its edge and for its whole angle; unproved:
    there is none at the former after all. Rows "record" are 1 − cosine at a step. Rows "edge" are
    of one start each on the edge of v1's cone: whether it is proved to converge (first), its end is
    (late) or its tokens are the same, and the largest 1 − cos on the way over μ.
    """
    how = {"margin": margin, "pull": pull, "tilt": tilt, "pace": pace}
    cases = _cases(group)
    cones = [
        cone(*c.pair, choice=c.alpha, best=c.best, config=how, local=c.local is True) for c in cases
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
            "radius": at.radius,
            "tilt": float(np.degrees(np.arctan(at.tilt / np.linalg.norm(own)))),
            "cosine": cosine(W[-1, k], case.best),
            "same": bool((selected_by(case.pair[0], W[-1, k]) == case.alpha).all()),
            "near": at.holds(W[0, k], W[-1, k], best=own),
            "grown": parts(W[-1, k], own)[0] / at.radius,
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
    """v1's constants, and the least norms that are proved at its angle."""
    made = plain_prover(*case.pair)
    edge, unproved = least_proved(made, stated), False
    if np.isfinite(edge):
        there = made.prove(stated.edge(edge * (1 + 1e-9))[0], explain=False)
        unproved = not (there.proved and bool((there.selection == case.alpha).all()))
    return {
        "stated_radius": stated.radius,
        "stated_angle": float(np.degrees(stated.angle)),
        "proved_edge": edge,
        "proved_cone": least_cone(made, case.alpha, stated),
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
    kept = np.unique(np.linspace(0, len(path.steps) - 1, 24).round().astype(int))
    W = path.weights["W"][kept]
    for k, (case, known) in enumerate(stated):
        (tokens, v), made = case.pair, plain_prover(*case.pair)
        late = prover(tokens, head=v, optimizer="ngd", lr=lr)
        for b, start in enumerate(known.edge(), k * edges):
            proof = made.prove(start, explain=False)
            away = 1 - cosines_to(W[:, b], known.best)
            yield {
                **_BLANK, **case.about, "row": "edge",
                "same": bool((selected_by(tokens, W[-1, b]) == case.alpha).all()),
                "first": proof.proved and bool((proof.selection == case.alpha).all()),
                "late": late.prove(W[-1, b], explain=False).proved,
                "widest": float(away.max() / known.mu),
            }  # fmt: skip


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Locally optimal selections are kept in direction; all others are left."""
    runs = table[table.row == "selection"]
    yes, no = runs[runs.local == "yes"], runs[runs.local == "no"]
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖W(0)/R − W^mm‖ over the tilt", runs.off.max(), 1.001)
    yield equals("locally optimal selections that are left", (~(yes.same & yes.near)).sum(), 0)
    yield equals("selections that are not locally optimal and are kept in direction",
                 (no.same & no.near).sum(), 0)  # fmt: skip
    yield equals("selections that are not locally optimal and keep their tokens", no.same.sum(), 0)
    yield info("least cosine at the end, locally optimal", yes.cosine.min())
    yield info("largest cosine at the end, not locally optimal", no.cosine.max())
    yield info("locally optimal: least growth of the part along W^mm, times", yes.grown.min())
    yield info("locally optimal: largest radius R", yes.radius.max())
    yield info("derived cone, least, degrees", yes.tilt.min())
    stated, edges = runs[runs.stated_radius.notna()], table[table.row == "edge"]
    if len(stated):
        yield from _stated_checks(stated, edges)
    yield at_most("largest certified gap", runs.gap.max(), norm_of("frobenius").tolerance)
    judged = len(yes) + len(no)
    yield Premises(
        judged,
        f"all {len(runs)} feasible selections of {runs.seed.nunique()} instances: {len(yes)} "
        f"locally optimal, started from the edge of their cones, {len(no)} not, "
        f"{len(runs) - judged} undecided and not judged; {len(stated)} of them have a tight token "
        f"in every input, and so a cone in v1, {len(edges) // max(len(stated), 1)} starts on the "
        "edge of each",
        runs.gap.max(),
    )


def _stated_checks(stated: DataFrame, edges: DataFrame) -> Iterator[Found]:
    """What the runs and the proofs say of v1's cones."""
    yield equals("v1's cones: starts on the edge whose run leaves the tokens", (~edges.same).sum(),
                 0)  # fmt: skip
    # A proof at step 0 is of plain descent with η = 1/L_W; of the others the normalized run,
    # which follows the same curves, is proved at its end.
    unproved = ~edges["first"] & ~(edges.same & edges.late)
    yield equals("v1's cones: neither proved at the start nor at the end of the run",
                 unproved.sum(), 0)  # fmt: skip
    yield info("v1's cones: share proved at the start, plain descent, η = 1/L_W",
               edges["first"].mean())  # fmt: skip
    yield info("v1's cones: runs that leave the cone's angle for a time",
               (edges.widest > 1 + 1e-6).sum())  # fmt: skip
    yield info("v1's cones: largest 1 − cos on the way over μ", edges.widest.max())
    R = stated.stated_radius
    yield info("v1's R, median", R.median())
    yield info("v1's half-angle, median, degrees", stated.stated_angle.median())
    yield info("v1's R over the least norm proved at its edge, median",
               (R / stated.proved_edge).median())  # fmt: skip
    yield info("v1's R over the least norm from which its whole angle is proved, median",
               (R / stated.proved_cone).median())  # fmt: skip
    yield equals("least norms on file at which there is no proof", stated.unproved.sum(), 0)


def figure(table: DataFrame, study: Study) -> Figure:
    """1 − cosine to the own direction over the steps, one line a selection; v1's R beside the
    norms from which on its starts are proved."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, axes = panels(3, figsize=(12.0, 4.2))
    kinds = (("Locally optimal", "yes"), ("Not locally optimal", "no"))
    for k, (ax, (title, local)) in enumerate(zip(axes, kinds, strict=False)):
        curves = table[(table.row == "record") & (table.local == local)]
        each = list(curves.groupby(["seed", "selection"]))
        for _, run in each:
            ax.loglog(np.maximum(run.step, 0.5), run.away, color=CYCLE[k], linewidth=0.7, alpha=0.5)
        ax.set(xlabel="step", ylabel="1 − cosine to the direction started from", ylim=(5e-10, 3.0),
               title=f"{title}: {len(each)} selections")  # fmt: skip
    stated = table[table.stated_radius.notna()]
    if not len(stated):
        return drawn
    R, ax = stated.stated_radius, axes[2]
    proved = {"start on the edge of v1's cone": "proved_edge",
              "all starts of its angle": "proved_cone"}  # fmt: skip
    for k, (label, name) in enumerate(proved.items()):
        ax.loglog(R, stated[name], "os"[k], markersize=4, alpha=0.7, color=CYCLE[2 + k],
                  label=label)  # fmt: skip
    ends = [R.min(), R.max()]
    ax.loglog(ends, ends, color=CYCLE[6], linewidth=0.8, linestyle=":", label="equal")
    ax.set(xlabel="R of v1's Theorem 7", ylabel="least ‖W‖ with a proof",
           title="v1's radius beside what is proved")  # fmt: skip
    ax.legend(frameon=False, fontsize=7.5, loc="best")
    return drawn


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
    figure=figure,
    reference="tarzanagh2023svm",
    theorem="v1, Theorem 7",
)
