"""The penalised path: the least loss plus λ‖W‖²/2, for a vanishing λ.

Its minimiser is the least of its own ball, but where the least loss is not convex in the radius,
some balls' minimisers belong to no λ: the radius jumps from one branch to another as λ falls. So
each λ is minimised for directly, from the balls' minimisers on both sides of such jumps. The search
over radii ends where λR²/2 alone exceeds an objective that is known.

For any λ what is minimised is log(L − infimum + λ‖W‖²/2), taken from logarithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, numbers
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.regularization_path.ball import ROUNDING, BallTask
from attsvm.theory.regularization_path.descent import Objective, descend, normal_of, settled
from attsvm.theory.regularization_path.paths import RegPath, record_of
from attsvm.theory.regularization_path.sweep import (
    PathConfig,
    Point,
    Setting,
    points_along,
    setting_of,
)

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
    setting = setting_of(tokens, PathConfig(**options))
    task = setting.task
    balls = points_along(setting, _radii(setting, wanted), starts=starts, scouts=scouts)
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


def priced(task: BallTask, log_penalty: float) -> Objective:
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
    objective = priced(task, log_penalty)

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
            end = settled(wanted, x)
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
    objective = priced(task, log_penalty)
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


def _radii(setting: Setting, wanted: Floats) -> Floats:
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
