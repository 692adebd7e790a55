"""Cones around the max-margin directions of locally optimal selections, and descent from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import score_gaps


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
    pull: float, tilt: float, pace: float,
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
    records (R, K) and the weights (R, K, ...); of a single record, the end."""
    name = "p" if model == "prompt" else "W"
    at, out = [], []
    for k, (t, v) in enumerate(stack):
        path = train(t, model=model, head=v, lr=float(lr[k]), steps=int(steps[k]),
                     init={name: start[[k]]})  # fmt: skip
        rows = np.linspace(len(path.steps) - 1, 0, records).round().astype(int)[::-1]
        at.append(path.steps[rows])
        out.append(path.weights[name][rows, 0])
    return np.stack(at, axis=1), np.stack(out, axis=1)


def steps_needed(cones: Sequence[LocalCone], best: Floats, *, most: int) -> Ints:
    """`most` steps, or ten times as many where those could not double the norm (K,)."""
    reach = np.array([c.pace for c in cones]) * most
    short = reach < np.linalg.norm(best.reshape(len(best), -1), axis=1)
    return np.where(short, 10 * most, most)
