"""Descent from cones around the max-margin directions of feasible selections.

Starts are R (W^mm + e). Let D = max ‖Δ_k‖ and s the least slack of a margin over a better-scoring
token. A tilt e changes the difference of two margins by at most 2D‖e‖ R, a step of length pace R by
2D pace R. With both at most s/(8D), half of the slack is left, and better tokens pull at most a
share (pull) of what the tight ones do once R ≥ (2/s) log(ratio/pull), ratio being that of their
pulls at equal margins. Under the pull of the others alone, Σ w_k e^−m_k, the part of W across W^mm
obeys

    ‖across‖² ≤ (R‖e‖)² + (2C + pace R D) ‖W^mm‖² (r − R),   C = log(Σ w / least tight w),

where r = ⟨W, W^mm⟩/‖W^mm‖²: the pulled rows have mean margin at most r + C, and r grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, selected_by
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima, score_gaps, verdict_on

_PULL = 0.01
# The tilt of what is not locally optimal, and the largest pace.
_TILT, _PACE = 1e-3, 0.002


class LocalCone(NamedTuple):
    """R, the tilt ‖e‖, the pace of steps, and 2C + pace R D."""

    radius: float
    tilt: float
    pace: float
    rate: float

    def holds(self, start: Floats, end: Floats, best: Floats) -> bool:
        """Whether the end is grown along W^mm and within the bound across it."""
        size = float(np.vdot(best, best))
        r0, r = (float(np.vdot(x, best)) / size for x in (start, end))
        across = float(np.linalg.norm(end - r * best))
        most = float(np.linalg.norm(start - r0 * best)) ** 2 + self.rate * size * (r - r0)
        return r > r0 and across**2 <= most * (1 + 1e-9)


def cone(
    tokens: Tokens, v: Floats, best: Certificate, choice: Ints, *, local: bool, margin: float
) -> LocalCone:
    """The cone of a selection, which is started from its edge; what is not locally optimal has
    none, and starts within a small tilt of its direction. margin: the least R."""
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
        radius = max(radius, 2 / slack * np.log(max(ratio, 1.0) / _PULL))
    edge = slack / (8 * size)
    spread = float(np.log(max(force[~better].sum(), least) / least))
    pace = min(_PACE, edge)
    return LocalCone(radius, edge if local else _TILT, pace, 2 * spread + pace * radius * size)


class ConeRun(NamedTuple):
    """Descent from the edge of the cone of one feasible selection, or from near its direction.

    place: of the instance in its group. local: whether the selection is locally optimal, None where
    that is open. steps (R,), W (R, d, dq): the records. about: columns that all rows of the
    selection share. end: ‖W(0)/R − W^mm‖ over the tilt (off), and whether the tokens (kept) and the
    direction too (stayed) are kept.
    """

    place: int
    alpha: Ints
    best: Certificate
    local: bool | None
    steps: Ints
    W: Floats
    about: dict[str, Any]
    end: dict[str, Any]


def selects(tokens: Tokens, W: Floats, alpha: Ints) -> Bools:
    """Whether each W (..., d, dq) selects these tokens."""
    return np.asarray((selected_by(tokens, W) == alpha).all(axis=-1))


def cone_runs(
    group: Group, draws: Sequence[np.random.Generator], *, model: str, margin: float,
    records: int = 1,
) -> list[ConeRun]:  # fmt: skip
    """A run for every feasible selection of the instances, each tilted by its instance's stream."""
    listed = [
        (b, Selection.of(tokens, alpha))
        for b, (tokens, v) in enumerate(zip(group.tokens, group.heads, strict=True))
        for alpha in local_optima(tokens, v).choices
    ]
    found = solve_many([Problem.of(group.tokens[b], keep) for b, keep in listed])
    out, name = [], "p" if model == "prompt" else "W"
    for (b, keep), c in zip(listed, found, strict=True):
        t, v, alpha = group.tokens[b], group.heads[b], keep.indices
        local = verdict_on(t, keep, v, c).locally
        at = cone(t, v, c, alpha, local=local is True, margin=margin)
        best = np.asarray(c.require().W)
        noise = draws[b].standard_normal(best.shape)
        start = at.radius * (best + at.tilt * noise / np.linalg.norm(noise))
        # Ten times as many steps where those could not double the norm.
        most = group.run["steps"]
        steps = most if at.pace * most >= np.linalg.norm(best) else 10 * most
        init = {name: start.T if model == "prompt" else start[None]}
        path = train(t, model=model, head=v, lr=at.pace * at.radius, steps=steps, init=init)
        rows = np.linspace(len(path.steps) - 1, 0, records).round().astype(int)[::-1]
        W = path.matrices()[rows, 0]
        kept = bool(selects(t, W[-1], alpha))
        about = {"selection": " ".join(map(str, alpha)),
                 "local": {None: "open", True: "yes", False: "no"}[local]}  # fmt: skip
        end = {
            "off": float(np.linalg.norm(start / at.radius - best) / at.tilt), "kept": kept,
            "stayed": kept and at.holds(start, W[-1], best), "gap": float(c.gap),
        }  # fmt: skip
        out.append(ConeRun(b, alpha, c, local, path.steps[rows], W, about, end))
    return out
