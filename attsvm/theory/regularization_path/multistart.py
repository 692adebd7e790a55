"""Scouts: many rough descents in one batch, to find the selections worth a start.

In a ball too small for the best tokens the least loss leads with other ones: those of low loss
whose own least norm fits. The scouts start at the max-margin directions of the selections of least
loss and at random, and step towards the point that the slope leads to,

    W ← (1 − η) W + η R dual_maximizer(−∇L(W)),   scaled to the sphere,   η falling from ½,

which the size of the gradient, tiny on a plateau, does not enter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.regularization_path.ball import BallTask
from attsvm.training.heads.linear import Linear
from attsvm.training.losses import Loss
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate

STEPS = 40
# Selections that one radius hands over to the minimiser.
ENDS = 3
# The numbers that a batch of scouts may hold in its keys; larger data get fewer scouts.
ROOM = 4_000_000


@dataclass(frozen=True, eq=False)
class Scouts:
    """Where scouts start: directions (B, d, dq) of low selections, and how many random ones.

    sure: a log of the excess loss; every W below it leads with the best token of each input, so
    that there is nothing to scout. −inf where no such number is known.
    """

    directions: Floats
    random: int
    sure: float

    @classmethod
    def of(cls, tokens: Tokens, task: BallTask, count: int) -> Scouts:
        """Up to `count` directions of selections of least loss, and as many random ones."""
        fit = min(count, ROOM // max(task.batch.keys.size, 1) // 2)
        none = np.zeros((0, *task.batch.shape))
        held = task.factored or task.cone is not None
        if fit < 1 or held or not isinstance(task.head, Linear) or not task.head.v.any():
            return cls(none, 0, -np.inf)
        if task.excess is None:
            return cls(none, fit, -np.inf)
        scores = tokens.scores(task.head.v[0])
        problems = [
            Problem.of(tokens, Selection.of(tokens, row))
            for row in least_selections(scores, task.loss, fit)
        ]
        found = [np.asarray(c.W) for c in solve_many(problems) if c.W is not None]
        directions = np.array(found).reshape(-1, *task.batch.shape)
        return cls(directions, fit, sure_excess(scores, task.loss))

    def ends(
        self, task: BallTask, R: float, more: list[Floats], draw: np.random.Generator
    ) -> Floats:
        """The lowest points (k, d, dq) that scouts came by on the sphere of radius R, one for each
        of the ENDS lowest selections. more: further starts."""
        B, d, dq = self.directions.shape
        if not B + self.random:
            return np.zeros((0, d, dq))
        W = np.concatenate(
            [
                np.array(more).reshape(-1, d, dq),
                self.directions,
                draw.standard_normal((self.random, d, dq)),
            ]
        )
        batch, norm = _copies(task.batch, len(W)), task.norm
        W = W / np.asarray(norm.value(W))[:, None, None]
        lowest, at = np.full(len(W), np.inf), W
        top = np.zeros((len(W), batch.keys.shape[1]), dtype=np.int64)
        for step in range(STEPS + 1):
            found = _evaluated(task, R * W, batch)
            lower = found.loss < lowest
            lowest, top = (
                np.where(lower, found.loss, lowest),
                np.where(lower[:, None], found.top, top),
            )
            at = np.where(lower[:, None, None], W, at)
            eta = 0.5 * (1 - step / (STEPS + 1))
            G = next(iter(found.gradient.direction.values())).reshape(W.shape)
            moved = (1 - eta) * W + eta * norm.dual_maximizer(-G)
            size = np.asarray(norm.value(moved))[:, None, None]
            W = np.where(size > 1e-9, moved / np.maximum(size, 1e-9), W)
        chosen: dict[tuple[int, ...], int] = {}
        for k in np.argsort(lowest, kind="stable"):
            chosen.setdefault(tuple(top[k].tolist()), int(k))
        return R * at[list(chosen.values())[:ENDS]]


def least_selections(scores: Floats, loss: Loss, count: int) -> Ints:
    """The `count` selections (k, n) of least Σ ℓ(γ_iα), lowest first. scores (n, T): γ, −inf for
    tokens that are not there."""
    present = np.isfinite(scores)
    costs = np.where(present, loss.value(np.where(present, scores, 0.0)), np.inf)
    rows, sums = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
    for cost in costs:
        # The best of the first inputs are among the best `count` of those before.
        total = sums[:, None] + cost
        order = np.argsort(total, axis=None, kind="stable")[:count]
        order = order[np.isfinite(total.ravel()[order])]
        before, token = np.divmod(order, len(cost))
        rows, sums = np.column_stack([rows[before], token]), total.ravel()[order]
    return rows


def sure_excess(scores: Floats, loss: Loss) -> float:
    """log of the excess loss below which the best token of every input leads.

    Where another token leads, the best one has at most half of the attention, and the margin is at
    most (γ₁ + γ₂)/2 for the two highest scores: this input alone costs ℓ((γ₁ + γ₂)/2) − ℓ(γ₁).
    """
    top = np.sort(scores, axis=1)[:, ::-1]
    second = top[:, 1] if scores.shape[1] > 1 else np.full(len(top), -np.inf)
    rivals = np.isfinite(second)
    if not rivals.any():
        return np.inf
    middle = (top[rivals, 0] + second[rivals]) / 2
    cost = float((loss.value(middle) - loss.value(top[rivals, 0])).min() / len(scores))
    return float(np.log(cost)) if cost > 0 else -np.inf


def _copies(batch: Batch, count: int) -> Batch:
    """The one instance `count` times."""
    return Batch(
        np.repeat(batch.keys, count, axis=0),
        np.repeat(batch.values, count, axis=0),
        np.repeat(batch.queries, count, axis=0),
        np.repeat(batch.labels, count, axis=0),
        np.repeat(batch.present, count, axis=0),
    )


def _evaluated(task: BallTask, W: Floats, batch: Batch) -> Evaluation:
    """The evaluation at W (B, d, dq)."""
    params = {"p": W[:, :, 0]} if task.model.prompt else {"W": W}
    return evaluate(task.model, params, batch, task.head, task.loss)
