"""The regularization path: the least loss inside a growing norm ball.

    W_R = argmin L(W)  s.t. ‖W‖ ≤ R         (weight, prompt: Frobenius or ℓP)
    (K_R, Q_R): ‖K‖² + ‖Q‖² ≤ 2R            (factored: ‖K Qᵀ‖_* ≤ R, with equality at a minimum)
    (W_R, v_r): ‖W‖ ≤ R, ‖v‖ ≤ r(R)         (joint)

Whether a point is stationary is judged at any saturation by 1 − ⟨−∇L, W⟩/(‖∇L‖_dual ‖W‖), which
is 0 exactly when W is R times the norm's dual map of −∇L. The problem is not convex: what is
returned is the best end of several starts, the certified direction among them. Branches of local
minimisers cross as the radius grows, each with its own tokens in the lead, so that each radius has
the ends of its neighbours among its starts, and what scouts find: many rough descents in one batch.

In a ball too small for the best tokens the least loss leads with other ones: those of low loss
whose own least norm fits. The scouts start at the max-margin directions of the selections of least
loss and at random, and step towards the point that the slope leads to,

    W ← (1 − η) W + η R dual_maximizer(−∇L(W)),   scaled to the sphere,   η falling from ½,

which the size of the gradient, tiny on a plateau, does not enter.

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm], [julistiono2024mirror].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, numbers
from attsvm._utils.expected import function, whole
from attsvm._utils.progress import Progress
from attsvm._utils.result import Summary, Table, draw
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Kept, Selection, best_tokens
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import correlation, margin_share
from attsvm.theory.regularization_path.ball import (
    ROUNDING,
    BallTask,
    Objective,
    aim,
    ball_norm,
    descend,
    joint_least,
    normal_of,
    polish,
)
from attsvm.theory.regularization_path.excess import Excess, log_loss
from attsvm.training.heads import Linear, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS, Model, model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate
from attsvm.training.optimizers.optimizer import Blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Steps of a scout.
STEPS = 40
# Selections that one radius hands over to the minimiser.
ENDS = 3
# The numbers that a batch of scouts may hold in its keys; larger data get fewer scouts.
LARGEST = 4_000_000


@dataclass(frozen=True, eq=False, repr=False)
class RegPath(Table):
    """Minimisers of the loss in balls of radii (R,), first to last.

    weights: each block (R, ...); loss (R,); infimum: the loss of the best tokens, its infimum, and
    log_excess (R,): log(L − infimum), both nan where none is known; residual (R,): 0 at a
    stationary point of the ball; size (R,): ‖W‖, below the radius at an interior minimum, where
    the residual says nothing; log_penalty (R,): log of the λ at which W is stationary for
    L + λ‖W‖²/2. target: the certificate of the max-margin problem (None when there is none);
    correlation and certified margin share (R,) to it.
    """

    model: str
    norm: Norm
    radii: Floats
    weights: Blocks
    loss: Floats
    infimum: float
    log_excess: Floats
    residual: Floats
    size: Floats
    log_penalty: Floats
    target: Certificate | None
    correlation: Floats
    share: Floats

    def matrices(self) -> Floats:
        """The effective W at each radius (R, 1, d, dq)."""
        return model_of(self.model).matrix(self.weights)[:, None]

    def columns(self) -> dict[str, Any]:
        """A row per radius."""
        return {
            "radius": self.radii,
            "loss": self.loss,
            "log_excess": self.log_excess,
            "correlation": self.correlation,
            "margin_share": self.share,
            "residual": self.residual,
            "size": self.size,
            "log_penalty": self.log_penalty,
        }

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """Distance of direction and of margin from the max-margin solution, over the radius.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("regpath", self, ax=ax, style=style)

    def _card(self) -> Summary:
        said = (
            f"{self.model}, {self.norm.name}, radii {self.radii[0]:g} to "
            f"{self.radii[-1]:g}, correlation {self.correlation[-1]:.6f}, "
            f"share {self.share[-1]:.6f}, residual {self.residual.max():.1e}"
        )
        shown = ("radius", "loss", "correlation", "margin_share", "residual")
        return Summary(
            "RegPath", said, {}, {name: self.columns()[name] for name in shown}, brief=True
        )


def regpath(
    tokens: Tokens,
    *,
    model: str | Model = "weight",
    norm: str | Norm | None = None,
    head: Any = None,
    loss: str | Loss = "logistic",
    radii: Any = None,
    penalties: Any = None,
    second: Callable[[float], float] | None = None,
    keep: Kept | None = None,
    starts: int = 4,
    scouts: int = 32,
    width: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RegPath:
    """Minimise the loss in balls of growing radii, smallest first, or with falling penalties.

    Parameters
    ----------
    tokens : Tokens
    model : str or Model, default: "weight"
    norm : str or Norm, optional
        "frobenius" (default) or "lP"; "nuclear" (the only one) for the factored model.
    head : array (d,) or Head, optional
        The prediction head; joint models train it.
    loss : str or Loss, default: "logistic"
    radii : array (R,), optional
        Increasing; by default 13 from the least norm of the target to 10⁴ times it.
    penalties : array (R,), optional
        Instead of radii, decreasing λ: L + λ‖W‖²/2 is minimised, λ(‖K‖² + ‖Q‖²)/2 for factors, and
        the radii are the sizes found.
    second : function, optional
        r(R) of the joint models, which need it: the limit of W depends on it.
    keep : Selection or array, optional
        The tokens of the target: by default the best ones under a linear head; joint models need
        it.
    starts : int, default: 4
        Random starts at the first radius, each followed to the last one.
    scouts : int, default: 32
        Under a linear head, so many selections of least loss, and as many random directions, are
        tried at each radius in one batch; the best three are minimised from.
    width : int, optional
        Columns of the factors.
    seed : int, default: 0
    progress : function, optional
        Called with the share done.

    Returns
    -------
    RegPath

    Examples
    --------
    >>> import attsvm
    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = regpath(tokens, model="prompt", head=a["v"], radii=[10, 100, 1000])
    >>> round(float(path.correlation[-1]), 3)
    1.0
    """
    starts, scouts = whole(starts, "starts", least=1), whole(scouts, "scouts", least=0)
    second, progress = function(second, "second"), function(progress, "progress")
    form = model_of(model)
    known = [name for name, listed in MODELS.items() if listed.layer is None]
    if form.name not in known or form is not MODELS[form.name]:
        raise Unsupported(
            f"no regularization path of model {form.name!r}: known are {', '.join(known)}"
        )
    batch, geometry = Batch.of(checked_tokens(tokens)), ball_norm(norm, form.name)
    if form.prompt and batch.shape[1] != 1:
        raise Unsupported("a prompt model needs tokens without queries; use the weight model")
    if form.trains_head != (second is not None) or form.trains_head == (head is not None):
        raise Unsupported("joint models need second and no head; the others a head and no second")
    if form.trains_head and keep is None:
        raise BadTokens("a joint path needs keep, the tokens that v and W are to be compared with")
    if penalties is not None and (radii is not None or second is not None):
        raise Unsupported("penalties take the place of radii, and joint models have radii alone")
    read = Linear(np.zeros((1, tokens.d))) if form.trains_head else head_of(head, tokens.d)
    columns = min(batch.shape) if width is None else whole(width, "width", least=1)
    inner = replace(form, trains_head=False) if form.trains_head else form
    task = BallTask(batch, inner, geometry, loss_of(loss), read, columns, tokens=tokens)
    target, task = _target(tokens, task, keep)
    draw = np.random.default_rng(whole(seed, "seed", least=0))
    certified = None
    if target is not None:
        v = _unit(draw, tokens.d)
        if keep is not None and form.trains_head:
            best = solve(Problem.of_labels(tokens, keep), geometry)
            v = v if best.W is None else best.W
        certified = Point(task.lift(np.asarray(target.W), draw), v)
    search = Search(tokens, task, certified, second, draw, starts, scouts)
    if penalties is None:
        grid = _radii(radii, target)
        points = points_along(search, grid, progress)
    else:
        points = _penalised(search, penalties, progress)
        grid = np.array([_radius(task, p.x) for p in points])
    tasks = [task if second is None else aim(tokens, task, p.v) for p in points]
    W = np.stack([task.matrix(p.x) for p in points])
    blocks = [task.blocks(p.x) for p in points]
    weights = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    if second is not None:
        weights["v"] = np.stack([p.v[:, 0] for p in points])
    nothing = np.full(len(grid), np.nan)
    return RegPath(
        task.model.name,
        task.norm,
        grid,
        weights,
        np.array([t.at(p.x)[0].loss[0] for t, p in zip(tasks, points, strict=True)]),
        np.nan if task.excess is None or second is not None else task.excess.infimum,
        np.array([t.log_excess(p.x) for t, p in zip(tasks, points, strict=True)]),
        np.array([p.away for p in points]),
        np.asarray(task.norm.value(W)),
        np.array([t.residual(p.x)[1] for t, p in zip(tasks, points, strict=True)]),
        target,
        nothing if target is None else np.atleast_1d(correlation(W, target)),
        nothing if target is None else np.atleast_1d(margin_share(W, target)),
    )


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
        if fit < 1 or task.factored or not isinstance(task.head, Linear) or not task.head.v.any():
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
        random = draw.standard_normal((self.random, d, dq))
        W = np.concatenate([np.array(more).reshape(-1, d, dq), self.directions, random])
        one, norm = task.batch, task.norm
        arrays: Any = (one.keys, one.values, one.queries, one.labels, one.present)
        copies: list[Any] = [np.repeat(array, len(W), axis=0) for array in arrays]
        batch = Batch(*copies)
        W = W / np.asarray(norm.value(W))[:, None, None]
        lowest, at = np.full(len(W), np.inf), W
        top = np.zeros((len(W), batch.keys.shape[1]), dtype=np.int64)
        for step in range(STEPS + 1):
            params = {"p": R * W[:, :, 0]} if task.model.prompt else {"W": R * W}
            found = evaluate(task.model, params, batch, task.head, task.loss)
            lower = found.loss < lowest
            lowest = np.where(lower, found.loss, lowest)
            top = np.where(lower[:, None], found.top, top)
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


# Objectives that agree to this, relatively, are the same in floats.
TIED = 1e-13


@dataclass(frozen=True, eq=False)
class Point:
    """A start or a minimiser: x, v (e, 1), objective, stationarity."""

    x: Floats
    v: Floats
    value: float = np.inf
    away: float = np.inf


@dataclass(frozen=True, eq=False)
class Search:
    """What is minimised, and from where.

    certified: the start at the certified direction, None where none is known. second: r(R) of joint
    models. draw: the stream of random starts; starts, scouts: how many.
    """

    tokens: Tokens
    task: BallTask
    certified: Point | None
    second: Callable[[float], float] | None
    draw: np.random.Generator
    starts: int
    scouts: int


def points_along(search: Search, grid: Floats, progress: Progress | None = None) -> list[Point]:
    """The best Point found at each radius: upwards along every start, then downwards.

    A branch of local minimisers that is least at one radius is a start at the next ones, on both
    sides.
    """
    task, draw, second, starts = search.task, search.draw, search.second, search.starts
    extra = [] if search.certified is None else [search.certified]
    first = [Point(task.random(draw), _unit(draw, search.tokens.d)) for _ in range(starts)]
    multistart = Multistart.of(search.tokens, task, 0 if second is not None else search.scouts)
    points: list[Point] = []
    for k, R in enumerate(grid):
        r = np.nan if second is None else float(second(float(R)))
        ends = [_solve(search, p, float(R), r) for p in first + extra]
        best = lowest(task, ends)
        # Then the best tokens lead in every ball from here on, and one start is enough.
        sure = task.excess is not None and best.value < multistart.sure
        if not sure:
            for x in multistart.ends(task, float(R), [p.x for p in ends], draw):
                if _is_new(task, x, ends):
                    ends.append(_solve(search, Point(x, best.v), float(R), r))
        if points and second is None:
            ends.append(_carried(points[-1], task, float(R)))
        points.append(lowest(task, ends))
        kept = [points[-1], *ends[: starts + 1]]
        first = _distinct(kept)[: 1 if sure else starts + 1]
        if progress is not None:
            progress((k + 1) / len(grid))
    for k in range(len(grid) - 2, -1, -1):
        above = points[k + 1]
        if second is None and _is_new(task, above.x, [points[k]]):
            points[k] = lowest(task, [points[k], _solve(search, above, float(grid[k]), np.nan)])
    return points


def _solve(search: Search, start: Point, R: float, r: float) -> Point:
    """The minimiser that one start leads to."""
    tokens, task = search.tokens, search.task
    if np.isnan(r):
        x = task.least(start.x, R)
        return Point(x, start.v, task(x)[0], task.residual(x)[0])
    x, v, away = joint_least(tokens, task, start.x, start.v, R, r)
    margins = aim(tokens, task, v).at(x)[0].margins[0]
    # The loss to the digits that starts can differ in; the stationarity decides beyond.
    return Point(x, v, round(log_loss(task.loss, margins), 11), away)


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


# The penalised path, the least loss plus λ‖W‖²/2 for a vanishing λ: its minimiser is the least of
# its own ball, but where the least loss is not convex in the radius, some balls' minimisers belong
# to no λ: the radius jumps from one branch to another as λ falls. So each λ is minimised for
# directly, from the balls' minimisers on both sides of such jumps. The search over radii ends where
# λR²/2 alone exceeds an objective that is known. What is minimised is log(L − infimum + λ‖W‖²/2),
# taken from logarithms.

# Ratio of neighbouring radii at which balls are searched, larger where there would be more RADII.
RATIO = 1.6
RADII = 100


def _penalised(search: Search, penalties: Any, progress: Progress | None) -> list[Point]:
    """The best Point found for each penalty: stationary for λ where `residual` is 0."""
    wanted = np.log(numbers(penalties, "penalties").astype(np.float64))
    if wanted.ndim != 1 or not np.isfinite(wanted).all() or not (np.diff(wanted) < 0).all():
        raise BadTokens("penalties must be positive and decreasing")
    task = search.task
    balls = points_along(search, _search_radii(search, wanted), progress)
    found: list[Point] = []
    for goal in wanted:
        found.append(_least(task, float(goal), _starts(task, float(goal), balls) + found[-1:]))
    # The least of its own ball: if a lower point turns up there, it is the better start.
    sizes = np.array([_radius(task, p.x) for p in found])
    grid = np.unique(sizes)
    lower = points_along(search, grid)
    for k, at in enumerate(np.searchsorted(grid, sizes)):
        if lower[at].value < found[k].value - ROUNDING:
            found[k] = _least(task, float(wanted[k]), [found[k], lower[at]])
    return found


def penalize(task: BallTask, log_penalty: float) -> Objective:
    """The objective at x: log(L − infimum + λ‖x‖²/2) and its slope.

    Where the excess may change sign, the task's ± log(1 + |·| e^shift) of it; L + λ‖x‖²/2 itself
    where no infimum is known.
    """

    def objective(x: Floats) -> tuple[float, Floats]:
        found, G, scale = task.at(x)
        size = float(task.geometry.value(x))
        pull = size * normal_of(task.geometry)(x / size)
        price = log_penalty + 2 * np.log(size) - np.log(2)
        if task.excess is None:
            value = float(found.loss[0] + np.exp(price))
            return value, G * np.exp(scale) + pull * np.exp(log_penalty)
        above = task.excess(found.logs[0])
        top = max(above.log, price)
        total = above.sign * np.exp(above.log - top) + np.exp(price - top)
        log = top + float(np.log(max(abs(total), 1e-300)))
        value = log
        if task.shift:
            value = float(np.sign(total) * np.logaddexp(0.0, log + task.shift))
            log = float(np.logaddexp(log, -task.shift))
        return value, G * np.exp(min(scale - log, 700.0)) + pull * np.exp(log_penalty - log)

    return objective


def _least(task: BallTask, log_penalty: float, starts: list[Point]) -> Point:
    """The lowest of the penalised minimisers that the starts lead to."""
    objective = penalize(task, log_penalty)

    def wanted(x: Floats) -> Floats:
        """Where the slope of λ‖·‖²/2 balances the loss's slope at x."""
        _, G, scale = task.at(x)
        log = scale + np.log(max(float(task.geometry.dual(G)), 1e-300)) - log_penalty
        return task.geometry.dual_maximizer(-G) * np.exp(np.clip(log, -700.0, 700.0))

    ends: list[tuple[float, float, Floats, Point]] = []
    for start in starts:
        size = float(task.geometry.value(start.x))
        x = descend(objective, start.x, size, task.geometry, reach="free")
        value, off = objective(x)[0], float(np.linalg.norm(x - wanted(x)))
        end = polish(wanted, x)
        last = objective(end)[0], float(np.linalg.norm(end - wanted(end)))
        if last[0] <= value + ROUNDING and last[1] < off:
            x, (value, off) = end, last
        ends.append((value, off, x, start))
    least = min(end[0] for end in ends)
    _, _, x, start = min((e for e in ends if e[0] <= least + ROUNDING), key=lambda e: e[1])
    if not float(task.geometry.value(x)) > 1e-9 * _reach(task):
        raise Unsupported(
            f"penalty {np.exp(log_penalty):g} is so large that it leaves nothing of W"
        )
    return Point(x, start.v, task(x)[0], task.residual(x)[0])


def _starts(task: BallTask, log_penalty: float, balls: list[Point]) -> list[Point]:
    """The balls' minimisers at each local minimum over the radii and next to it, where another
    branch may begin; and the point that the slope at 0 leads to, if it is smaller than all."""
    objective = penalize(task, log_penalty)
    values = np.array([objective(p.x)[0] for p in balls])
    left, right = np.append(np.inf, values[:-1]), np.append(values[1:], np.inf)
    low = np.flatnonzero((values <= left) & (values <= right)).tolist()
    near = sorted({k + step for k in low for step in (-1, 0, 1)} & set(range(len(balls))))
    _, G, scale = task.at(np.zeros_like(balls[0].x))
    size = float(np.exp(scale - log_penalty)) * float(task.geometry.dual(G))
    found = [balls[k] for k in near]
    if 0 < size < float(task.geometry.value(balls[0].x)):
        found.append(Point(size * task.geometry.dual_maximizer(-G), balls[0].v))
    return found


def _search_radii(search: Search, wanted: Floats) -> Floats:
    """The radii to be searched for all log penalties.

    At the last one λR²/2 exceeds the least objective known, that of 0 or of a multiple of the
    certified direction.
    """
    task = search.task
    infimum = task.loss.infimum if task.excess is None else task.excess.infimum
    if not np.isfinite(infimum):
        raise Unsupported("a penalised path needs a loss whose infimum is known")
    first = _reach(task)
    start = float(task.at(np.zeros_like(task.random(np.random.default_rng(0))))[0].loss[0])
    known = [np.log(max(start - infimum, 1e-300))]
    if search.certified is not None and task.excess is not None:
        p = search.certified
        for R in first * np.geomspace(1.0, 1e6, 300):
            x = p.x * (task.radius(R) / float(task.geometry.value(p.x)))
            price = wanted[-1] + 2 * np.log(task.radius(R)) - np.log(2)
            known.append(float(np.logaddexp(task.excess(task.at(x)[0].logs[0]).log, price)))
    most = np.exp(0.5 * (np.log(2) + min(known) - wanted[-1]))
    last = max(float(most**2 / 2 if task.factored else most), 2 * first)
    count = int(np.ceil(np.log(last / first) / np.log(RATIO))) + 1
    return np.geomspace(first, last, min(count, RADII))


def _reach(task: BallTask) -> float:
    """The R of balls in which scores differ by at most 2: there the loss is nearly linear."""
    keys = float(np.linalg.norm(task.batch.keys, axis=-1).max())
    return 1 / max(keys * float(np.linalg.norm(task.batch.queries, axis=-1).max()), 1e-300)


def _radius(task: BallTask, x: Floats) -> float:
    """The R of the ball whose sphere x is on."""
    size = float(task.geometry.value(x))
    return size**2 / 2 if task.factored else size
