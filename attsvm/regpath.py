"""The regularization path: the least loss inside a growing norm ball.

    W_R = argmin L(W)  s.t. ‖W‖ ≤ R         (weight, prompt: Frobenius or ℓP)
    (K_R, Q_R): ‖K‖² + ‖Q‖² ≤ 2R            (factored: ‖K Qᵀ‖_* ≤ R, with equality at a minimum)
    (W_R, v_r): ‖W‖ ≤ R, ‖v‖ ≤ r(R)         (joint)

Whether a point is stationary is judged at any saturation by 1 − ⟨−∇L, W⟩/(‖∇L‖_dual ‖W‖), which
is 0 exactly when W is R times the norm's dual map of −∇L. The problem is not convex: what is
returned is the best end of several starts, the certified direction among them.

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm], [julistiono2024mirror].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from attsvm.ball import SHIFT, Task, aimed, ball_norm, joint_least
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.excess import Excess, log_loss
from attsvm.heads import head_of
from attsvm.heads.linear import Linear
from attsvm.losses import Loss, loss_of
from attsvm.measures import correlation, margin_share
from attsvm.models import model_of
from attsvm.models.batch import Batch
from attsvm.norms import Norm
from attsvm.problem import Problem
from attsvm.rules.rule import Blocks
from attsvm.selection import Selection
from attsvm.solvers.front import solve
from attsvm.tokens import Floats, Tokens, numbers


@dataclass(frozen=True, eq=False, repr=False)
class RegPath:
    """Minimisers of the loss in balls of radii (R,), first to last.

    weights: each block (R, ...); second (R,): the radius of v in joint models (nan otherwise);
    loss (R,); floor: the loss of the best tokens, its infimum (of the kept ones, in a cone), and
    log_excess (R,): log(L − floor), both nan where none is known; residual (R,): 0 at a
    stationary point of the ball; size (R,): ‖W‖, below the radius at an interior minimum, where
    the residual says nothing; log_penalty (R,): log of the λ at which W is stationary for
    L + λ‖W‖²/2; origin: the start that led there. target: the certificate of the max-margin
    problem (None when there is none); correlation and certified margin share (R,) to it.
    certified_loss, certified_log_excess (R,): those of R times the certified direction (not for
    joint models), never below the ones found.
    """

    model: str
    norm: Norm
    radii: Floats
    second: Floats
    weights: Blocks
    loss: Floats
    floor: float
    log_excess: Floats
    residual: Floats
    size: Floats
    log_penalty: Floats
    origin: tuple[str, ...]
    target: Certificate | None
    correlation: Floats
    share: Floats
    certified_loss: Floats
    certified_log_excess: Floats

    def matrices(self) -> Floats:
        """The effective W at each radius (R, 1, d, dq)."""
        return model_of(self.model).matrix(self.weights)[:, None]

    def __repr__(self) -> str:
        return (
            f"RegPath({self.model}, {self.norm.name}, radii {self.radii[0]:g} to "
            f"{self.radii[-1]:g}, correlation {self.correlation[-1]:.6f}, "
            f"share {self.share[-1]:.6f}, residual {self.residual.max():.1e})"
        )


@dataclass(frozen=True, eq=False)
class _Point:
    """A start or a minimiser: x, v (e, 1), the start it comes from, objective, stationarity."""

    x: Floats
    v: Floats
    origin: str
    value: float = np.inf
    away: float = np.inf


def regpath(
    tokens: Tokens,
    *,
    model: str = "weight",
    norm: str | Norm | None = None,
    head: Any = None,
    loss: str | Loss = "logistic",
    radii: Any = None,
    second: Callable[[float], float] | None = None,
    keep: Selection | None = None,
    starts: int = 4,
    local: Certificate | Any = None,
    cone: float = 1e-3,
    width: int | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> RegPath:
    """The RegPath of least losses in balls of the given radii, smallest first.

    norm: "frobenius" (default) or "lP"; "nuclear" (the only one) for the factored model. radii:
    increasing; 13 from the least norm of the target to 10⁴ times it unless given. second: r(R) of
    the joint models, which need it: the limit of W depends on it. keep: the tokens of the target;
    the best ones under a linear head unless given, needed by joint models. starts: random starts
    at the first radius, each followed to the last one. local: a Certificate or matrix; then W
    stays in the cone of cosine at least 1 − `cone` with it, on the sphere of radius R; a path that
    ends at that cosine is held by the cone, and the residual says nothing. The theorems hold for
    a small enough cone: margins of better tokens must stay above the tight ones inside it. width:
    columns of the factors.

    >>> import attsvm
    >>> from attsvm.data import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = regpath(tokens, model="prompt", head=a["v"], radii=[10, 100, 1000])
    >>> round(float(path.correlation[-1]), 3)
    1.0
    """
    form, batch, geometry = model_of(model), Batch.of(tokens), ball_norm(norm, model)
    if form.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use the weight model")
    if form.trains_head != (second is not None) or form.trains_head == (head is not None):
        raise Unsupported("joint models need second and no head; the others a head and no second")
    if local is not None and (form.trains_head or form.name == "factored"):
        raise Unsupported(f"a local path of the {model} model is not available: use weight")
    if form.trains_head and keep is None:
        raise BadTokens("a joint path needs keep, the tokens that v and W are to be compared with")
    read = Linear(np.zeros((1, tokens.d))) if form.trains_head else head_of(head, tokens.d)
    columns = min(batch.shape) if width is None else int(width)
    inner = replace(form, trains_head=False) if form.trains_head else form
    task = Task(batch, inner, geometry, loss_of(loss), read, columns)
    if local is not None:
        target, task = _local(tokens, task, local, cone)
    else:
        target, task = _target(tokens, task, keep)
    known = task.cone[0] if task.cone is not None else None if target is None else target.W
    grid = _radii(radii, target)
    draw = np.random.default_rng(seed)
    first = [_Point(task.random(draw), _unit(draw, tokens.d), "random") for _ in range(starts)]
    extra = []
    if known is not None:
        v = _unit(draw, tokens.d)
        if keep is not None and form.trains_head:
            best = solve(Problem.of_labels(tokens, keep), geometry)
            v = v if best.W is None else best.W
        extra = [_Point(task.lift(known, draw), v, "certified")]
    if not first and not extra:
        raise BadTokens("there is no start: no certified direction, and starts is 0")
    points: list[_Point] = []
    for k, R in enumerate(grid):
        r = np.nan if second is None else float(second(float(R)))
        first = [_solve(tokens, task, p, float(R), r) for p in first + extra]
        if points and task.cone is None and second is None:
            first.append(points[-1])  # a smaller ball's minimiser is still allowed
        points.append(min(first, key=lambda p: (p.value, p.away)))
        first = [replace(p, origin="warm") for p in first[: starts + 1]]
        if progress is not None:
            progress((k + 1) / len(grid))
    return _path(tokens, task, target, grid, points, extra, second)


def penalty_path(tokens: Tokens, penalties: Any, **options: Any) -> RegPath:
    """The RegPath of the penalised problems, min L + λ‖W‖²/2 for decreasing penalties λ.

    (λ(‖K‖² + ‖Q‖²)/2 for factors.) A ball's minimiser is stationary for its own λ(R), see
    `log_penalty`; for each λ the radius with λ(R) = λ is sought. λ(R) falls where the least loss
    is convex in R, as it is for large R; where it is not, λ(R) may jump over λ, and the radius of
    the jump is returned: `log_penalty` then differs from log λ. options: those of `regpath` without
    radii and second.
    """
    wanted = np.log(numbers(penalties, "penalties").astype(np.float64))
    if wanted.ndim != 1 or not np.isfinite(wanted).all() or not (np.diff(wanted) < 0).all():
        raise BadTokens("penalties must be positive and decreasing")

    def height(R: float) -> float:
        return float(regpath(tokens, radii=[R], **options).log_penalty[0])

    found = []
    low, high = 1e-3, 1.0
    for goal in wanted:
        while height(high) > goal:
            low, high = high, 2.0 * high
        if height(low) <= goal:
            raise Unsupported(f"penalty {np.exp(goal):g} is met only below radius {low:g}")
        found.append(brentq(lambda R, goal=goal: height(R) - goal, low, high, rtol=1e-10))
        low = found[-1] * (1 - 1e-9)
    return regpath(tokens, radii=found, **options)


def _solve(tokens: Tokens, task: Task, start: _Point, R: float, r: float) -> _Point:
    """The minimiser that one start leads to."""
    if np.isnan(r):
        x = task.least(start.x, R)
        return _Point(x, start.v, start.origin, task(x)[0], task.residual(x)[0])
    x, v, away = joint_least(tokens, task, start.x, start.v, R, r)
    margins = aimed(tokens, task, v).at(x)[0].margins[0]
    # The loss to the digits that starts can differ in; the stationarity decides beyond.
    return _Point(x, v, start.origin, round(log_loss(task.loss, margins), 11), away)


def _unit(draw: np.random.Generator, d: int) -> Floats:
    v = draw.standard_normal((d, 1))
    return v / np.linalg.norm(v)


def _target(tokens: Tokens, task: Task, keep: Selection | None) -> tuple[Certificate | None, Task]:
    """The max-margin problem's certificate (None without a solution), and the task's excess."""
    if isinstance(task.head, Linear) and task.head.v.any():
        v = task.head.v[0]
        alpha = tokens.scores(v).argmax(axis=1)
        if task.loss.slope(tokens.scores(v).max(axis=1))[0].max() < 0:
            task = replace(task, excess=Excess.over(tokens, alpha, v, task.loss))
        keep = Selection.best(tokens, v) if keep is None else keep
    if keep is None:
        return None, task
    found = solve(Problem.of(tokens, keep), task.norm)
    return (None if found.W is None else found), task


def _local(tokens: Tokens, task: Task, local: Any, cone: float) -> tuple[Certificate | None, Task]:
    """The certificate if there is one, and the task in the cone around its direction."""
    if not 0 < cone < 1:
        raise Unsupported(f"cone is {cone}: it must be between 0 and 1")
    target = local.require() if isinstance(local, Certificate) else None
    W = np.asarray(local if target is None else target.W, dtype=np.float64)
    W = W.reshape(task.batch.shape)
    unit = W / np.linalg.norm(W)
    if isinstance(task.head, Linear):
        alpha = task.at(W)[0].top[0]
        task = replace(task, excess=Excess.over(tokens, alpha, task.head.v[0], task.loss))
    tangent = float(np.sqrt(1 - (1 - cone) ** 2) / (1 - cone))
    return target, replace(task, cone=(unit, tangent), shift=SHIFT)


def _radii(radii: Any, target: Certificate | None) -> Floats:
    """The increasing radii."""
    if radii is None:
        return np.geomspace(1.0, 1e4, 13) * (1.0 if target is None else target.upper)
    grid = np.atleast_1d(numbers(radii, "radii").astype(np.float64))
    if grid.ndim != 1 or not len(grid) or not (grid > 0).all() or not np.isfinite(grid).all():
        raise BadTokens("radii must be positive numbers")
    if (np.diff(grid) <= 0).any():
        raise BadTokens("radii must increase")
    return grid


def _path(
    tokens: Tokens, task: Task, target: Certificate | None, grid: Floats, points: list[_Point],
    extra: list[_Point], second: Callable[[float], float] | None,
) -> RegPath:  # fmt: skip
    """The record of the minimisers."""
    joint = second is not None
    tasks = [aimed(tokens, task, p.v) if joint else task for p in points]
    W = np.stack([task.matrix(p.x) for p in points])
    blocks = [task.blocks(p.x) for p in points]
    weights = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    if joint:
        weights["v"] = np.stack([p.v[:, 0] for p in points])
    nothing = np.full(len(grid), np.nan)
    certified = [nothing, nothing]
    if extra and not joint:
        at = [extra[0].x * (task.radius(R) / task.geometry.value(extra[0].x)) for R in grid]
        certified = [np.array([task.at(x)[0].loss[0] for x in at]),
                     np.array([task.log_excess(x) for x in at])]  # fmt: skip
    share = nothing if target is None else np.atleast_1d(margin_share(W, target))
    cosine = nothing if target is None else np.atleast_1d(correlation(W, target))
    excess = task.excess
    return RegPath(
        task.model.name, task.norm, grid,
        np.array([second(float(R)) for R in grid]) if second is not None else nothing,
        weights, np.array([t.at(p.x)[0].loss[0] for t, p in zip(tasks, points, strict=True)]),
        np.nan if excess is None or joint else excess.floor,
        np.array([t.log_excess(p.x) for t, p in zip(tasks, points, strict=True)]),
        np.array([p.away for p in points]), np.asarray(task.norm.value(W)),
        np.array([t.residual(p.x)[1] for t, p in zip(tasks, points, strict=True)]),
        tuple(p.origin for p in points), target, cosine, share, *certified,
    )  # fmt: skip
