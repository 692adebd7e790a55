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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, numbers
from attsvm._utils.expected import function, whole
from attsvm._utils.progress import Progress
from attsvm._utils.result import Summary, Table, draw
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, Unsupported
from attsvm.norms import Norm
from attsvm.problem.selection import Kept
from attsvm.problem.tokens import Tokens
from attsvm.theory.measures import correlation, margin_share
from attsvm.theory.regularization_path.ball import (
    ROUNDING,
    BallTask,
    Objective,
    aim,
    descend,
    normal_of,
    polish,
)
from attsvm.theory.regularization_path.sweep import (
    Point,
    Setting,
    points_along,
    setting_of,
)
from attsvm.training.losses import Loss
from attsvm.training.models import Model, model_of
from attsvm.training.optimizers.optimizer import Blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class RegPath(Table):
    """Minimisers of the loss in balls of radii (R,), first to last.

    weights: each block (R, ...); second (R,): the radius of v in joint models (nan otherwise);
    loss (R,); infimum: the loss of the best tokens, its infimum (of the kept ones, in a cone), and
    log_excess (R,): log(L − infimum), both nan where none is known; residual (R,): 0 at a
    stationary point of the ball; size (R,): ‖W‖, below the radius at an interior minimum, where
    the residual says nothing; log_penalty (R,): log of the λ at which W is stationary for
    L + λ‖W‖²/2; origin: the start that led there. target: the certificate of the max-margin
    problem (None when there is none); correlation and certified margin share (R,) to it.
    certified_loss, certified_log_excess (R,): those of R times the certified direction (not for
    joint models), never below the ones found.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> path = attsvm.regpath(tokens, model="prompt", head=[0.2, 0.7], radii=[1, 10, 100])
    >>> path.correlation.round(3), round(path.infimum, 4)
    (array([0.959, 0.99 , 1.   ]), 0.4032)
    """

    model: str
    norm: Norm
    radii: Floats
    second: Floats
    weights: Blocks
    loss: Floats
    infimum: float
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
            "origin": list(self.origin),
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
    second: Callable[[float], float] | None = None,
    keep: Kept | None = None,
    starts: int = 4,
    scouts: int = 32,
    local: Certificate | Any = None,
    cone: float = 1e-3,
    width: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RegPath:
    """Minimise the loss in balls of growing radii, smallest first.

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
    local : Certificate or array, optional
        W stays in the cone of cosine at least 1 − `cone` with this matrix, on the sphere of radius
        R. A path that ends at that cosine is held by the cone, and the residual says nothing. The
        theorems hold for a small enough cone: margins of better tokens must stay above the tight
        ones inside it.
    cone : float, default: 1e-3
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
    setting = setting_of(
        tokens,
        model=model,
        norm=norm,
        head=head,
        loss=loss,
        second=second,
        keep=keep,
        local=local,
        cone=cone,
        width=width,
        seed=seed,
    )
    grid = _radii(radii, setting.target)
    points = points_along(setting, grid, starts=starts, scouts=scouts, progress=progress)
    return record_of(setting, grid, points)


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


def record_of(setting: Setting, grid: Floats, points: list[Point]) -> RegPath:
    """The record of the minimisers."""
    tokens, task, target = setting.tokens, setting.task, setting.target
    extra, second = setting.extra, setting.second
    joint = second is not None
    tasks = [aim(tokens, task, p.v) if joint else task for p in points]
    W = np.stack([task.matrix(p.x) for p in points])
    blocks = [task.blocks(p.x) for p in points]
    weights = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
    if joint:
        weights["v"] = np.stack([p.v[:, 0] for p in points])
    nothing = np.full(len(grid), np.nan)
    certified = [nothing, nothing]
    if extra and not joint:
        at = [extra[0].x * (task.radius(R) / task.geometry.value(extra[0].x)) for R in grid]
        certified = [
            np.array([task.at(x)[0].loss[0] for x in at]),
            np.array([task.log_excess(x) for x in at]),
        ]
    share = nothing if target is None else np.atleast_1d(margin_share(W, target))
    cosine = nothing if target is None else np.atleast_1d(correlation(W, target))
    excess = task.excess
    return RegPath(
        task.model.name,
        task.norm,
        grid,
        np.array([second(float(R)) for R in grid]) if second is not None else nothing,
        weights,
        np.array([t.at(p.x)[0].loss[0] for t, p in zip(tasks, points, strict=True)]),
        np.nan if excess is None or joint else excess.infimum,
        np.array([t.log_excess(p.x) for t, p in zip(tasks, points, strict=True)]),
        np.array([p.away for p in points]),
        np.asarray(task.norm.value(W)),
        np.array([t.residual(p.x)[1] for t, p in zip(tasks, points, strict=True)]),
        tuple(p.origin for p in points),
        target,
        cosine,
        share,
        *certified,
    )


# The penalised path, the least loss plus λ‖W‖²/2 for a vanishing λ: its minimiser is the least of
# its own ball, but where the least loss is not convex in the radius, some balls' minimisers belong
# to no λ: the radius jumps from one branch to another as λ falls. So each λ is minimised for
# directly, from the balls' minimisers on both sides of such jumps. The search over radii ends where
# λR²/2 alone exceeds an objective that is known. What is minimised is log(L − infimum + λ‖W‖²/2),
# taken from logarithms.

# Ratio of neighbouring radii at which balls are searched, larger where there would be more RADII.
RATIO = 1.6
RADII = 100


def penalty_path(
    tokens: Tokens, penalties: Any, *, starts: int = 4, scouts: int = 32, **options: Any
) -> RegPath:
    """The RegPath of the penalised problems, min L + λ‖W‖²/2 for decreasing penalties λ.

    (λ(‖K‖² + ‖Q‖²)/2 for factors.) Radii are the sizes found. A point is stationary for λ where
    `residual` is 0 and `log_penalty` is log λ. options: those of `regpath` without radii, second
    and progress.
    """
    wanted = np.log(numbers(penalties, "penalties").astype(np.float64))
    if wanted.ndim != 1 or not np.isfinite(wanted).all() or not (np.diff(wanted) < 0).all():
        raise BadTokens("penalties must be positive and decreasing")
    setting = setting_of(tokens, **options)
    task = setting.task
    balls = points_along(setting, _search_radii(setting, wanted), starts=starts, scouts=scouts)
    found: list[Point] = []
    for goal in wanted:
        found.append(_least(task, float(goal), _starts(task, float(goal), balls) + found[-1:]))
    # The least of its own ball: if a lower point turns up there, it is the better start.
    sizes = np.array([_radius(task, p.x) for p in found])
    grid = np.unique(sizes)
    lower = points_along(setting, grid, starts=starts, scouts=scouts)
    for k, at in enumerate(np.searchsorted(grid, sizes)):
        if lower[at].value < found[k].value - ROUNDING:
            found[k] = _least(task, float(wanted[k]), [found[k], lower[at]])
    return record_of(setting, np.array([_radius(task, p.x) for p in found]), found)


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
        x = descend(objective, start.x, size, task.geometry, cone=task.cone, reach="free")
        value, off = objective(x)[0], float(np.linalg.norm(x - wanted(x)))
        if task.cone is None:
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
    return Point(x, start.v, start.origin, task(x)[0], task.residual(x)[0])


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
        found.append(Point(size * task.geometry.dual_maximizer(-G), balls[0].v, "slope"))
    return found


def _search_radii(setting: Setting, wanted: Floats) -> Floats:
    """The radii to be searched for all log penalties.

    At the last one λR²/2 exceeds the least objective known, that of 0 or of a multiple of the
    certified direction.
    """
    task = setting.task
    infimum = task.loss.infimum if task.excess is None else task.excess.infimum
    if not np.isfinite(infimum):
        raise Unsupported("a penalised path needs a loss whose infimum is known")
    first = _reach(task)
    start = float(task.at(np.zeros_like(task.random(np.random.default_rng(0))))[0].loss[0])
    known = [np.log(max(start - infimum, 1e-300))]
    for p in setting.extra:
        if task.excess is None:
            break
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
