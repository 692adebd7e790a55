"""The sweep over radii: the best local minimiser of each ball, from many starts.

The problem is not convex. Branches of local minimisers cross as the radius grows, each with its own
tokens in the lead, so that each radius has the ends of its neighbours among its starts, the
certified direction, and what scouts find: many rough descents in one batch.

In a ball too small for the best tokens the least loss leads with other ones: those of low loss
whose own least norm fits. The scouts start at the max-margin directions of the selections of least
loss and at random, and step towards the point that the slope leads to,

    W ← (1 − η) W + η R dual_maximizer(−∇L(W)),   scaled to the sphere,   η falling from ½,

which the size of the gradient, tiny on a plateau, does not enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.expected import number, whole
from attsvm._utils.progress import Progress
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Kept, Selection, best_tokens
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.problem.weights import WeightBlocks
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.regularization_path.ball import (
    ROUNDING,
    SHIFT,
    BallTask,
    aim,
    ball_norm,
    joint_least,
)
from attsvm.theory.regularization_path.excess import Excess, log_loss
from attsvm.training.heads import Linear, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS, Model, model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate

STEPS = 40
# Selections that one radius hands over to the minimiser.
ENDS = 3
# The numbers that a batch of scouts may hold in its keys; larger data get fewer scouts.
LARGEST = 4_000_000


@dataclass(frozen=True, eq=False)
class Multistart:
    """Where scouts start: directions (B, d, dq) of low selections, and how many random ones.

    sure: a log of the excess loss; every W below it leads with the best token of each input, so
    that there is nothing to scout. −inf where no such number is known.
    """

    directions: Floats
    random: int
    sure: float

    @classmethod
    def of(cls, tokens: Tokens, task: BallTask, count: int) -> Multistart:
        """Up to `count` directions of selections of least loss, and as many random ones."""
        fit = min(count, LARGEST // max(task.batch.keys.size, 1) // 2)
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


# Objectives that agree to this, relatively, are the same in floats.
TIED = 1e-13


@dataclass(frozen=True, eq=False)
class Point:
    """A start or a minimiser: x, v (e, 1), the start it comes from, objective, stationarity."""

    x: Floats
    v: Floats
    origin: str
    value: float = np.inf
    away: float = np.inf


@dataclass(frozen=True, eq=False)
class Setting:
    """What a path is asked for: the task, its target, and the start at the certified direction.

    second: r(R) of joint models. draw: the stream of random starts.
    """

    tokens: Tokens
    task: BallTask
    target: Certificate | None
    extra: list[Point]
    second: Callable[[float], float] | None
    draw: np.random.Generator


def setting_of(
    tokens: Tokens,
    *,
    model: str | Model = "weight",
    norm: str | Norm | None = None,
    head: Any = None,
    loss: str | Loss = "logistic",
    second: Callable[[float], float] | None = None,
    keep: Kept | None = None,
    local: Certificate | Any = None,
    cone: float = 1e-3,
    width: int | None = None,
    seed: int = 0,
) -> Setting:
    """The Setting of the options of `regpath`; raises Unsupported or BadTokens where they clash."""
    form = model_of(model)
    if form is not MODELS.get(form.name):
        raise Unsupported(
            f"no regularization path of model {form.name!r}: known are {', '.join(MODELS)}"
        )
    batch, geometry = Batch.of(checked_tokens(tokens)), ball_norm(norm, form.name)
    if form.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use the weight model")
    if form.trains_head != (second is not None) or form.trains_head == (head is not None):
        raise Unsupported("joint models need second and no head; the others a head and no second")
    if local is not None and (form.trains_head or form.name == "factored"):
        raise Unsupported(f"a local path of the {model} model is not available: use weight")
    if form.trains_head and keep is None:
        raise BadTokens("a joint path needs keep, the tokens that v and W are to be compared with")
    read = Linear(np.zeros((1, tokens.d))) if form.trains_head else head_of(head, tokens.d)
    columns = min(batch.shape) if width is None else whole(width, "width", least=1)
    inner = replace(form, trains_head=False) if form.trains_head else form
    task = BallTask(batch, inner, geometry, loss_of(loss), read, columns, tokens=tokens)
    if local is not None:
        target, task = _local(tokens, task, local, cone)
    else:
        target, task = _target(tokens, task, keep)
    known = task.cone[0] if task.cone is not None else None if target is None else target.W
    draw = np.random.default_rng(whole(seed, "seed", least=0))
    extra = []
    if known is not None:
        v = _unit(draw, tokens.d)
        if keep is not None and form.trains_head:
            best = solve(Problem.of_labels(tokens, keep), geometry)
            v = v if best.W is None else best.W
        extra = [Point(task.lift(known, draw), v, "certified")]
    return Setting(tokens, task, target, extra, second, draw)


def points_along(
    setting: Setting,
    grid: Floats,
    *,
    starts: int,
    scouts: int,
    progress: Progress | None = None,
) -> list[Point]:
    """The best Point found at each radius: upwards along every start, then downwards.

    A branch of local minimisers that is least at one radius is a start at the next ones, on both
    sides.
    """
    task, extra, draw, second = setting.task, setting.extra, setting.draw, setting.second
    first = [
        Point(task.random(draw), _unit(draw, setting.tokens.d), "random") for _ in range(starts)
    ]
    if not first and not extra:
        raise BadTokens("there is no start: no certified direction, and starts is 0")
    multistart = Multistart.of(setting.tokens, task, 0 if second is not None else scouts)
    points: list[Point] = []
    for k, R in enumerate(grid):
        r = np.nan if second is None else float(second(float(R)))
        ends = [_solve(setting, p, float(R), r) for p in first + extra]
        best = lowest(task, ends)
        # Then the best tokens lead in every ball from here on, and one start is enough.
        sure = task.excess is not None and best.value < multistart.sure
        if not sure:
            for x in multistart.ends(task, float(R), [p.x for p in ends], draw):
                if _is_new(task, x, ends):
                    ends.append(_solve(setting, Point(x, best.v, "scout"), float(R), r))
        if points and task.cone is None and second is None:
            ends.append(_carried(points[-1], task, float(R)))
        points.append(lowest(task, ends))
        kept = [points[-1], *ends[: starts + 1]]
        first = [replace(p, origin="warm") for p in _distinct(kept)[: 1 if sure else starts + 1]]
        if progress is not None:
            progress((k + 1) / len(grid))
    for k in range(len(grid) - 2, -1, -1):
        above = replace(points[k + 1], origin="above")
        if second is None and task.cone is None and _is_new(task, above.x, [points[k]]):
            points[k] = lowest(task, [points[k], _solve(setting, above, float(grid[k]), np.nan)])
    return points


def _solve(setting: Setting, start: Point, R: float, r: float) -> Point:
    """The minimiser that one start leads to."""
    tokens, task = setting.tokens, setting.task
    if np.isnan(r):
        x = task.least(start.x, R)
        return Point(x, start.v, start.origin, task(x)[0], task.residual(x)[0])
    x, v, away = joint_least(tokens, task, start.x, start.v, R, r)
    margins = aim(tokens, task, v).at(x)[0].margins[0]
    # The loss to the digits that starts can differ in; the stationarity decides beyond.
    return Point(x, v, start.origin, round(log_loss(task.loss, margins), 11), away)


def lowest(task: BallTask, points: list[Point]) -> Point:
    """The point of least loss; where it is the same in floats, by its excess over the tokens that
    lead there, and then the most stationary one."""
    best = min(points, key=lambda p: (p.value, p.away))
    same = [p for p in points if p.value <= best.value + TIED * max(1.0, abs(best.value))]
    own = task.own(best.x) if len(same) > 1 else None
    if own is None:
        return best
    values = [own(p.x)[0] for p in same]
    least = min(values)
    even = [p for p, value in zip(same, values, strict=True) if value <= least + ROUNDING]
    return min(even, key=lambda p: p.away)


def _is_new(task: BallTask, x: Floats, ends: list[Point]) -> bool:
    """Whether x leads with other tokens than all the ends, or has a lower objective."""
    top, value = task.at(x)[0].top, task(x)[0]
    return all((task.at(p.x)[0].top != top).any() or value < p.value - TIED for p in ends)


def _carried(point: Point, task: BallTask, R: float) -> Point:
    """The minimiser of a smaller ball, which a larger one allows; how far it is from stationary
    there: 1 − ⟨−∇L, W⟩/(‖∇L‖_dual R)."""
    share = float(task.geometry.value(point.x)) / task.radius(R)
    return replace(point, away=1.0 - (1.0 - point.away) * min(share, 1.0))


def _distinct(points: list[Point]) -> list[Point]:
    """The points without repetitions of the same minimiser."""
    found: list[Point] = []
    for p in points:
        near = [np.linalg.norm(p.x - q.x) + np.linalg.norm(p.v - q.v) for q in found]
        if not near or min(near) > 1e-6 * np.linalg.norm(p.x):
            found.append(p)
    return found


def _unit(draw: np.random.Generator, d: int) -> Floats:
    v = draw.standard_normal((d, 1))
    return v / np.linalg.norm(v)


def _target(
    tokens: Tokens, task: BallTask, keep: Kept | None
) -> tuple[Certificate | None, BallTask]:
    """The max-margin problem's certificate (None without a solution), and the task's excess."""
    if isinstance(task.head, Linear) and task.head.v.any():
        v = task.head.v[0]
        alpha, _ = best_tokens(tokens, v)
        if task.loss.slope(tokens.scores(v).max(axis=1))[0].max() < 0:
            task = replace(task, excess=Excess.over(tokens, alpha, v, task.loss))
        keep = Selection.best(tokens, v) if keep is None else keep
    if keep is None:
        return None, task
    found = solve(Problem.of(tokens, keep), task.norm)
    return (None if found.W is None else found), task


def _local(
    tokens: Tokens, task: BallTask, local: Any, cone: float
) -> tuple[Certificate | None, BallTask]:
    """The certificate if there is one, and the task in the cone around its direction."""
    cone = number(cone)
    if not 0 < cone < 1:
        raise Unsupported(f"cone is {cone}: it must be between 0 and 1")
    target = local.require() if isinstance(local, Certificate) else None
    W = WeightBlocks.of(local if target is None else target.W, task.batch.shape).matrix
    if not W.any():
        raise BadTokens("local is a zero matrix: it has no direction")
    unit = W / np.linalg.norm(W)
    if isinstance(task.head, Linear):
        alpha = task.at(W)[0].top[0]
        task = replace(task, excess=Excess.over(tokens, alpha, task.head.v[0], task.loss))
    tangent = float(np.sqrt(1 - (1 - cone) ** 2) / (1 - cone))
    return target, replace(task, cone=(unit, tangent), shift=SHIFT)
