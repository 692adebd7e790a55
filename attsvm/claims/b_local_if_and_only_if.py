"""B: descent started near a max-margin direction stays there exactly if it is locally optimal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.certificate import Certificate
from attsvm.claims.claim import Claim, Config, Finding, Result, at_least, at_most, equals, noted
from attsvm.claims.proof import cosine, kept, recertified, selected, worst_gap
from attsvm.claims.random_instances import drawn
from attsvm.optima import local_optima, optimality, score_gaps
from attsvm.problem import Problem
from attsvm.selection import Selection
from attsvm.solvers.many import solve_many
from attsvm.tokens import Floats
from attsvm.training import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config) -> Result:
    """Normalized descent from near the certified direction of every feasible selection."""
    owner, choices, problems = [], [], []
    for seed in range(config["seeds"]):
        tokens, v = drawn(config["shape"], seed)
        for alpha in local_optima(tokens, v).choices:
            owner.append(seed)
            choices.append(alpha)
            problems.append(Problem.of(tokens, Selection.of(tokens, alpha)))
    best = solve_many(problems)
    stack = [drawn(config["shape"], seed) for seed in owner]
    draw = np.random.default_rng(config["start"])
    starts = []
    for c in best:
        W = np.asarray(c.W)
        noise = draw.standard_normal(W.shape)
        noise *= np.linalg.norm(W) / np.linalg.norm(noise)
        starts.append(config["margin"] * (W + config["noise"] * noise))
    path = train([t for t, _ in stack], head=np.stack([v for _, v in stack]), lr=config["lr"],
                 steps=config["steps"], init={"W": np.stack(starts)})  # fmt: skip
    rows = np.unique(np.linspace(0, len(path.steps) - 1, 40).round().astype(int))
    return {"seed": np.array(owner), "choice": np.array(choices), "steps": path.steps[rows],
            "W": path.weights["W"][rows], **kept("best", best)}  # fmt: skip


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


def _far_enough(config: Config, result: Result, best: list[Certificate]) -> list[bool]:
    """Whether each start is so far out that tokens of higher score hardly pull.

    Their margin exceeds the tight ones' by a slack, so their weight is e^(−margin · slack) of
    theirs; the theorem's radius is one beyond which that is small.
    """
    out = []
    for c, seed, alpha in zip(best, result["seed"], result["choice"], strict=True):
        tokens, v = drawn(config["shape"], int(seed))
        gaps, _ = score_gaps(tokens, alpha, v)
        rows = c.problem.rows
        higher = gaps[rows[:, 0], rows[:, 2]] <= 0
        slack = (c.margins - 1.0)[higher] if len(c.margins) else np.zeros(1)
        out.append(bool(config["margin"] * slack.min(initial=np.inf) >= config["pull"]))
    return out


def check(config: Config, result: Result) -> Finding:
    """Locally optimal selections are kept in direction; all others are left."""
    W, choice = result["W"], result["choice"]
    pairs = [drawn(config["shape"], int(seed)) for seed in result["seed"]]
    best = _recertified(config, result)
    local = _verdicts(config, result)
    start = [cosine(M, c) for M, c in zip(W[0], best, strict=True)]
    end = np.array([cosine(M, c) for M, c in zip(W[-1], best, strict=True)])
    same = np.array([bool((selected(t, M) == a).all())
                     for (t, _), M, a in zip(pairs, W[-1], choice, strict=True)])  # fmt: skip
    yes, no = (np.array([entry is wanted for entry in local]) for wanted in (True, False))
    stayed = same & (end >= config["near"])
    far = np.array(_far_enough(config, result, best))
    early = int((yes & ~far).sum())
    yes &= far
    tests = (
        at_least("least cosine of a start to its direction", float(np.min(start)), 0.9999),
        equals("locally optimal selections that are left", int((yes & ~stayed).sum()), 0),
        equals("selections that are not locally optimal and are kept in direction",
               int((no & stayed).sum()), 0),
        noted("least cosine at the end, locally optimal", float(end[yes].min(initial=1.0))),
        noted("largest cosine at the end, not locally optimal", float(end[no].max(initial=-1.0))),
        noted("not locally optimal, selection changed, share",
              float((~same)[no].mean()) if no.any() else float("nan")),
        at_most("largest certified gap", worst_gap(best), 1e-8),
    )  # fmt: skip
    premises = (
        f"all {len(local)} feasible selections of {config['seeds']} instances: {int(yes.sum())} "
        f"locally optimal and judged, {early} locally optimal but started too near for the "
        f"theorem's radius, {int(no.sum())} not, "
        f"{len(local) - int(yes.sum() + no.sum()) - early} undecided"
    )
    return Finding(tests, premises, int(yes.sum() + no.sum()), worst_gap(best))


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine to the own direction over the steps, one line a selection."""
    from attsvm.claims.drawing import CYCLE, panels

    local = _verdicts(config, result)
    figure, axes = panels(2, sharey=True)
    best: Floats = result["best.W"]
    norms = np.linalg.norm(result["W"], axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
    away = np.maximum(1 - np.einsum("rbij,bij->rb", result["W"], best) / norms, 1e-9)
    steps = np.maximum(result["steps"], 0.5)
    far = np.array(_far_enough(config, result, _recertified(config, result)))
    kinds = (("Locally optimal", True, CYCLE[0]), ("Not locally optimal", False, CYCLE[1]))
    for ax, (title, wanted, colour) in zip(axes, kinds, strict=True):
        here = np.array([entry is wanted for entry in local])
        ax.loglog(
            steps,
            away[:, here & (far if wanted else ~np.zeros_like(far))],
            color=colour,
            linewidth=0.7,
            alpha=0.5,
        )
        if wanted and (here & ~far).any():
            ax.loglog(steps, away[:, here & ~far], color="#777777", linestyle="--", linewidth=0.9)
            ax.plot([], [], "--", color="#777777", label="started too near, not judged")
            ax.legend(frameon=False, fontsize=7.5, loc="lower left")
        ax.set(xlabel="step", title=f"{title}: {int(here.sum())} selections")
    axes[0].set_ylabel("1 − cosine to the direction started from")
    return figure


_FULL = {
    "shape": [2, 4, 3], "seeds": 30, "start": 0, "margin": 30.0, "noise": 1e-3, "pull": 5.0,
    "lr": 0.1, "steps": 10_000, "near": 0.999,
}  # fmt: skip

CLAIM = Claim(
    id="B.local-if-and-only-if",
    title="Directions that descent keeps are the locally optimal ones",
    kind="theorem",
    trust="as recalled",
    statement="Descent on W started far out and near the max-margin direction of a selection "
    "converges to that direction if the selection is locally optimal, and leaves it if it is not.",
    full=_FULL,
    quick={**_FULL, "seeds": 8},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
