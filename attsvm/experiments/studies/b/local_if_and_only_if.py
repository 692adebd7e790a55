"""B: descent started near a max-margin direction stays there exactly if it is locally optimal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.experiments.studies.shared.random_instances import drawn
from attsvm.experiments.studies.shared.stated_cone import (
    Stated,
    cone_as_stated,
    stated_runs,
    stated_tests,
)
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima, optimality, score_gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    tokens: Tokens, v: Floats, *, choice: Ints, best: Certificate, config: Config, local: bool
) -> LocalCone:
    """The Cone of a selection, which is started from its edge; what is not locally optimal has
    none, and starts within a small tilt of its direction."""
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


def run(config: Config) -> Result:
    """Normalized descent from near the certified direction of every feasible selection."""
    owner, choices, problems = [], [], []
    for seed in seeds_of(config):
        tokens, v = drawn(config["shape"], seed)
        for alpha in local_optima(tokens, v).choices:
            owner.append(seed)
            choices.append(alpha)
            problems.append(Problem.of(tokens, Selection.of(tokens, alpha)))
    best = solve_many(problems)
    found = {"seed": np.array(owner), "choice": np.array(choices), **saved_solutions("best", best)}
    cones = _cones(config, found, best)
    draw = np.random.default_rng(config["start"])
    target = np.stack([np.asarray(c.W) for c in best])
    noise = draw.standard_normal(target.shape)
    noise /= np.linalg.norm(noise, axis=(1, 2), keepdims=True)
    R, tilt, pace = (
        np.array([getattr(c, name) for c in cones]) for name in ("radius", "tilt", "pace")
    )
    start = R[:, None, None] * (target + tilt[:, None, None] * noise)
    steps, W = descend(
        [drawn(config["shape"], seed) for seed in owner],
        start,
        lr=pace * R,
        steps=steps_needed(cones, target, most=config["steps"]),
        model="weight",
        records=config["records"],
    )
    stated = _stated(config, found, best)
    return {**found, "steps": steps, "W": W, **stated_runs(config, stated)}


def _stated(config: Config, result: Result, best: list[Certificate]) -> Stated:
    """The cones of v1 of the locally optimal selections that have one."""
    out = Stated([], [], [])
    local = _verdicts(config, result)
    for seed, alpha, c, verdict in zip(result["seed"], result["choice"], best, local, strict=True):
        if verdict is not True:
            continue
        pair = drawn(config["shape"], int(seed))
        cone = cone_as_stated(*pair, alpha, c, edges=config["edges"], seed=config["start"])
        if cone is not None:
            out.pairs.append(pair)
            out.choices.append(alpha)
            out.cones.append(cone)
    return out


def _verdicts(config: Config, result: Result) -> list[bool | None]:
    """Whether each selection is locally optimal, certified from the data; None if undecided."""
    out = []
    for seed, alpha in zip(result["seed"], result["choice"], strict=True):
        tokens, v = drawn(config["shape"], int(seed))
        out.append(optimality(tokens, Selection.of(tokens, alpha), v).locally)
    return out


def _recertified(config: Config, result: Result) -> list[Certificate]:
    """The certified solution of each selection."""
    tokens = [drawn(config["shape"], int(seed))[0] for seed in result["seed"]]
    problems = [
        Problem.of(t, Selection.of(t, a)) for t, a in zip(tokens, result["choice"], strict=True)
    ]
    return recertified("best", problems, "frobenius", result)


def _cones(config: Config, result: Result, best: list[Certificate]) -> list[LocalCone]:
    """The cone of each selection."""
    pairs = [drawn(config["shape"], int(seed)) for seed in result["seed"]]
    local = _verdicts(config, result)
    return [
        cone(*pair, choice=alpha, best=c, config=config, local=verdict is True)
        for pair, alpha, c, verdict in zip(pairs, result["choice"], best, local, strict=True)
    ]


def check(config: Config, result: Result) -> Finding:
    """Locally optimal selections are kept in direction; all others are left."""
    W, choice = result["W"], result["choice"]
    tokens = [drawn(config["shape"], int(seed))[0] for seed in result["seed"]]
    best = _recertified(config, result)
    local = _verdicts(config, result)
    cones = _cones(config, result, best)
    stated = _stated(config, result, best)
    target = result["best.W"]
    end = np.array([cosine(M, c) for M, c in zip(W[-1], best, strict=True)])
    same = np.array(
        [bool((selected(t, M) == a).all()) for t, M, a in zip(tokens, W[-1], choice, strict=True)]
    )
    yes, no = (np.array([entry is wanted for entry in local]) for wanted in (True, False))
    near = [at.holds(W[0, k], W[-1, k], best=target[k]) for k, at in enumerate(cones)]
    stayed = same & np.array(near)
    off = [np.linalg.norm(W[0, k] / at.radius - target[k]) / at.tilt for k, at in enumerate(cones)]
    grown = np.array([parts(W[-1, k], target[k])[0] / at.radius for k, at in enumerate(cones)])
    edges = np.array(
        [np.degrees(np.arctan(at.tilt / np.linalg.norm(target[k]))) for k, at in enumerate(cones)]
    )
    tests = (
        # The starts on file are those of the cones, to the rounding of the solutions.
        at_most("largest ‖W(0)/R − W^mm‖ over the tilt", float(np.max(off)), 1.001),
        equals("locally optimal selections that are left", int((yes & ~stayed).sum()), 0),
        equals(
            "selections that are not locally optimal and are kept in direction",
            int((no & stayed).sum()),
            0,
        ),
        equals(
            "selections that are not locally optimal and keep their tokens",
            int((no & same).sum()),
            0,
        ),
        noted("least cosine at the end, locally optimal", float(end[yes].min(initial=1.0))),
        noted("largest cosine at the end, not locally optimal", float(end[no].max(initial=-1.0))),
        noted(
            "locally optimal: least growth of the part along W^mm, times",
            float(grown[yes].min(initial=np.inf)),
        ),
        noted(
            "locally optimal: largest radius R",
            max((at.radius for at, y in zip(cones, yes, strict=True) if y), default=0.0),
        ),
        noted("derived cone, least, degrees", float(edges[yes].min(initial=np.inf))),
        *stated_tests(config, stated, result),
        at_most("largest certified gap", worst_gap(best), norm_of("frobenius").tolerance),
    )
    premises = (
        f"all {len(local)} feasible selections of {config['seeds']} instances: {int(yes.sum())} "
        f"locally optimal, started from the edge of their cones, {int(no.sum())} not, "
        f"{len(local) - int(yes.sum() + no.sum())} undecided and not judged; {len(stated.cones)} "
        f"of them have a tight token in every input, and so a cone in v1, {config['edges']} starts "
        "on the edge of each"
    )
    return Finding(tests, premises, int(yes.sum() + no.sum()), worst_gap(best))


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine to the own direction over the steps, one line a selection; v1's R beside the
    norms from which on its starts are proved."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    local = _verdicts(config, result)
    figure, axes = panels(3, figsize=(12.0, 4.2))
    best: Floats = result["best.W"]
    norms = np.linalg.norm(result["W"], axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
    away = np.maximum(1 - np.einsum("rbij,bij->rb", result["W"], best) / norms, 1e-9)
    steps = np.maximum(result["steps"], 0.5)
    kinds = (("Locally optimal", True, CYCLE[0]), ("Not locally optimal", False, CYCLE[1]))
    for ax, (title, wanted, colour) in zip(axes, kinds, strict=False):
        here = np.array([entry is wanted for entry in local])
        ax.loglog(steps[:, here], away[:, here], color=colour, linewidth=0.7, alpha=0.5)
        ax.set(
            xlabel="step",
            ylabel="1 − cosine to the direction started from",
            ylim=(5e-10, 3.0),
            title=f"{title}: {int(here.sum())} selections",
        )
    stated = _stated(config, result, _recertified(config, result))
    if not stated.cones:
        return figure
    R, ours = np.array([c.radius for c in stated.cones]), result["stated.ours"]
    ax = axes[2]
    for k, label in enumerate(("start on the edge of v1's cone", "all starts of its angle")):
        ax.loglog(R, ours[:, k], "os"[k], markersize=4, alpha=0.7, color=CYCLE[2 + k], label=label)
    ends = np.array([R.min(), R.max()])
    ax.loglog(ends, ends, color=CYCLE[6], linewidth=0.8, linestyle=":", label="equal")
    ax.set(
        xlabel="R of v1's Theorem 7",
        ylabel="least ‖W‖ with a proof",
        title="v1's radius beside what is proved",
    )
    ax.legend(frameon=False, fontsize=7.5, loc="best")
    return figure


_FULL = {
    "shape": [2, 4, 3],
    "seeds": 30,
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
}

CLAIM = Claim(
    id="B.local-if-and-only-if",
    title="Directions that descent keeps are the locally optimal ones",
    kind="theorem",
    trust="read",
    statement="Descent on W started far out and in a cone around the max-margin direction of a "
    "selection converges to that direction if the selection is locally optimal (Theorem 7), and "
    "leaves it if it is not. Judged in v1's cone with its printed μ and R, which ask for a tight "
    "token in every input and leave the R of the direction open, and in one derived here from the "
    "slack of the better-scoring tokens.",
    full=_FULL,
    quick={**_FULL, "seeds": 6, "edges": 2, "stated_steps": 3000},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Theorem 7",
)
