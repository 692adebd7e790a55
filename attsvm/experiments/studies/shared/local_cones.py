"""Cones around the max-margin directions of locally optimal selections, and descent from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, selected_by
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima, score_gaps, verdict_on


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
    tokens: Tokens, v: Floats, best: Certificate, *, choice: Ints, local: bool, margin: float,
    pull: float = 0.01, tilt: float = 1e-3, pace: float = 0.002,
) -> LocalCone:  # fmt: skip
    """The cone of a selection, which is started from its edge; what is not locally optimal has
    none, and starts within a small tilt of its direction."""
    gaps, _ = score_gaps(tokens, choice, v)
    rows = best.problem.rows
    gap = gaps[rows[:, 0], rows[:, 2]]
    kept_scores = tokens.scores(v)[rows[:, 0], choice[rows[:, 0]]]
    force = np.abs(gap) / (1 + np.exp(kept_scores))  # |ℓ'| times the score gap
    better, tight = gap <= 0, best.tight.tight
    size = float(best.problem.row_norms.max())
    least = float(force[tight & ~better].min(initial=np.inf))
    least = least if np.isfinite(least) else float(force.max())
    slack, radius = 2.0, margin
    if local and best.W is not None and better.any():
        # Positive where the tokens are certified loose; the floor is for solutions that are not.
        slack = min(slack, max(float((best.margins - 1)[better].min()), 1e-9))
        ratio = float(force[better].sum()) / least
        radius = max(radius, 2 / slack * np.log(max(ratio, 1.0) / pull))
    edge = slack / (8 * size)
    spread = float(np.log(max(force[~better].sum(), least) / least))
    return LocalCone(radius, edge if local else tilt, min(pace, edge), spread, size)


@dataclass(frozen=True, eq=False)
class ConeRun:
    """Descent from the edge of the cone of one feasible selection, or from near its direction.

    place: of the instance in its group. local: whether the selection is locally optimal, None where
    that is open. steps (R,), W (R, ...): the records.
    """

    place: int
    pair: tuple[Tokens, Floats]
    alpha: Ints
    best: Certificate
    local: bool | None
    cone: LocalCone
    start: Floats
    steps: Ints
    W: Floats

    @property
    def about(self) -> dict[str, Any]:
        """The columns that all rows of the selection share."""
        local = "open" if self.local is None else "yes" if self.local else "no"
        return {"selection": " ".join(map(str, self.alpha)), "local": local}

    @property
    def end(self) -> dict[str, Any]:
        """‖W(0)/R − W^mm‖ over the tilt (off), and whether the tokens (kept) and the direction too
        (stayed) are kept."""
        best = np.asarray(self.best.W).reshape(self.start.shape)
        kept = self.selects(self.W[-1])
        return {
            "off": float(np.linalg.norm(self.start / self.cone.radius - best) / self.cone.tilt),
            "kept": kept,
            "stayed": kept and self.cone.holds(self.start, self.W[-1], best=best),
            "gap": float(self.best.gap),
        }

    def selects(self, W: Floats) -> bool:
        """Whether the weights select the tokens of the run."""
        M = W.reshape(np.asarray(self.best.W).shape)
        return bool((selected_by(self.pair[0], M) == self.alpha).all())


def cone_runs(
    group: Group, draws: Sequence[np.random.Generator], *, model: str, margin: float,
    records: int = 1,
) -> list[ConeRun]:  # fmt: skip
    """A run for every feasible selection of the instances, each tilted by its instance's stream.

    margin: the least R.
    """
    listed = [
        (b, (tokens, v), np.asarray(alpha))
        for b, (tokens, v) in enumerate(zip(group.tokens, group.heads, strict=True))
        for alpha in local_optima(tokens, v).choices
    ]
    keep = [Selection.of(pair[0], alpha) for _, pair, alpha in listed]
    best = solve_many([
        Problem.of(one[1][0], selection) for one, selection in zip(listed, keep, strict=True)
    ])  # fmt: skip
    local = [
        verdict_on(tokens, selection, v, c).locally
        for (_, (tokens, v), _), selection, c in zip(listed, keep, best, strict=True)
    ]
    out, name = [], "p" if model == "prompt" else "W"
    for (b, (t, v), alpha), c, yes in zip(listed, best, local, strict=True):
        edge = cone(t, v, c, choice=alpha, local=yes is True, margin=margin)
        W = np.asarray(c.require().W)
        W = W[:, 0] if model == "prompt" else W
        noise = draws[b].standard_normal(W.shape)
        start = edge.radius * (W + edge.tilt * noise / np.linalg.norm(noise))
        # Ten times as many steps where those could not double the norm.
        most = group.run["steps"]
        steps = most if edge.pace * most >= np.linalg.norm(W) else 10 * most
        path = train(t, model=model, head=v, lr=edge.pace * edge.radius, steps=steps,
                     init={name: start[None]})  # fmt: skip
        rows = np.linspace(len(path.steps) - 1, 0, records).round().astype(int)[::-1]
        weights = path.weights[name][rows, 0]
        out.append(ConeRun(b, (t, v), alpha, c, yes, edge, start, path.steps[rows], weights))
    return out
