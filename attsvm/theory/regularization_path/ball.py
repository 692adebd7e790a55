"""The least loss in a norm ball: what is minimised, the local minimiser, and where it ends.

For large balls the loss is its infimum to all digits, so what is minimised is log(L − L(α)), taken
without cancellation (see `excess`); with α the best tokens it tends to a soft worst margin. A
minimiser that leads with other tokens β lies on a plateau of that logarithm: L − L(α) is
L(β) − L(α) to all digits there. It is followed by L − L(β) instead, which orders the points of the
plateau as L does.

L-BFGS sees values, so that it stops where they no longer change in floats. The direction of a
gradient has all its digits there: `polish` solves for the point that its own slope leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy

from attsvm._utils.arrays import Floats
from attsvm._utils.parallel import one_thread
from attsvm.errors import Unsupported
from attsvm.norms import Norm, norm_of
from attsvm.norms.entrywise import FrobeniusNorm
from attsvm.problem.selection import best_tokens
from attsvm.problem.tokens import Tokens
from attsvm.theory.regularization_path.excess import Excess, log_loss
from attsvm.training.heads import Head, Linear
from attsvm.training.losses import Loss
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, Model, evaluate
from attsvm.training.optimizers.optimizer import Blocks

# x (d, dq) -> value and slope, to be minimised.
Objective = Callable[[Floats], tuple[float, Floats]]
# The sizes that x may have: the radius, up to the radius, any.
Reach = Literal["sphere", "ball", "free"]
# Beyond so many unknowns the Jacobian by differences costs more than it brings.
UNKNOWNS = 256
# A free size stays within this factor e^FAR of the start's: a line search may try any.
FAR = 30.0
# The relative step by which the change of a size is measured.
STEP = 1e-4


def descend(
    objective: Objective,
    start: Floats,
    radius: float,
    norm: Norm,
    reach: Reach = "sphere",
) -> Floats:
    """A local minimiser of the objective over ‖x‖ = radius, by L-BFGS from the start.

    reach "ball" adds a shrinking factor 1/(1 + s²), the boundary at s = 0; "free" a factor e^s, the
    start at its own size.
    """
    shape, sized, normal = start.shape, reach != "sphere", normal_of(norm)

    def point(y: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        w, factor, turn = (y[:-1] if sized else y).reshape(shape), 1.0, 0.0
        if reach == "ball":  # turn: the derivative of log factor in s
            factor, turn = 1 / (1 + y[-1] ** 2), -2 * y[-1] / (1 + y[-1] ** 2)
        elif reach == "free":
            inner = abs(y[-1]) < FAR
            factor, turn = np.exp(np.clip(y[-1], -FAR, FAR)), float(inner)
        size = float(norm.value(w))
        u = w / size
        x = radius * factor * u

        def back(g: Floats) -> Floats:
            out = (g - np.vdot(g, u) * normal(u)) * (radius * factor / size)
            return np.append(out.ravel(), np.vdot(g, x) * turn) if sized else out.ravel()

        return x, back

    def along(y: Floats) -> tuple[float, Floats]:
        x, back = point(y)
        value, g = objective(x)
        return value, back(g)

    size = float(norm.value(start))
    y = (start / size).ravel()
    if reach == "ball":
        y = np.append(y, np.sqrt(max(radius / size - 1, 0.01)))
    elif reach == "free":
        y = np.append(y, np.log(size / radius))
    options: Any = {"maxiter": 3000, "maxfun": 6000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-11}
    with one_thread():
        end = scipy.optimize.minimize(along, y, jac=True, method="L-BFGS-B", options=options)
    return point(end.x)[0]


def polish(wanted: Callable[[Floats], Floats], start: Floats) -> Floats:
    """A root of x = wanted(x) near the start, by Powell's hybrid method; the start where none came.

    wanted(x): the point that would be stationary if the slope at x were that of everywhere; at a
    stationary point it is x itself. The caller judges whether the end is better than the start.
    Directions are compared as they are and sizes by their logarithms: a slope of e^−4000 changes
    its size by a large factor where x hardly moves.
    """
    if start.size > UNKNOWNS:
        return start
    size = float(np.linalg.norm(start))

    def apart(u: Floats) -> tuple[Floats, Floats, float]:
        x, aim = size * u, wanted((size * u).reshape(start.shape)).ravel()
        tops = [float(np.abs(a).max(initial=0.0)) for a in (x, aim)]
        if not all(0 < top < np.inf for top in tops):
            return u, np.zeros_like(u), 0.0
        # Over the largest entry: the square of an entry can be beyond floats.
        near = [a / top for a, top in zip((x, aim), tops, strict=True)]
        norms = [float(np.linalg.norm(a)) for a in near]
        here, there = (np.log(top) + np.log(r) for top, r in zip(tops, norms, strict=True))
        return near[0] / norms[0], near[1] / norms[1], float(here - there)

    first = start.ravel() / size
    steep = 1 + abs(apart(first * (1 + STEP))[2] - apart(first)[2]) / STEP

    def off(u: Floats) -> Floats:
        unit, aim, longer = apart(u)
        return unit - aim + unit * (longer / steep)

    end = scipy.optimize.root(off, first, method="hybr", options={"xtol": 1e-14})
    # A root of another size is not near.
    if not 0.5 < float(np.linalg.norm(end.x)) < 2.0:
        return start
    x: Floats = (size * end.x).reshape(start.shape)
    return x


def normal_of(norm: Norm) -> Callable[[Floats], Floats]:
    """The gradient of the norm as a function of u of norm 1. Raises Unsupported without one."""
    if norm.normal is None:
        raise Unsupported(f"norm {norm.name} has no normal: give it the gradient of the norm")
    return norm.normal


# Rounds of a joint minimisation, each block once a round; it ends at this stationarity.
ROUNDS = 60
STILL = 1e-13
# A factored point whose W is less stationary than this is left, so many times at most.
SADDLE = 1e-4
ESCAPES = 5
# Added to the log of an excess that may change sign, to make log |excess| monotone across 0.
SHIFT = 2e5
# A point this stationary needs no more, one less stationary than the second is not near an end.
ENOUGH = 1e-12
NEAR = 1e-4
# Changes of the tokens that lead, along one descent on plateaus.
PLATEAUS = 8
# What the objective, a logarithm, may rise by rounding in a step that makes a point stationary.
ROUNDING = 1e-9


def ball_norm(norm: str | Norm | None, model: str) -> Norm:
    """The norm of the ball. Raises Unsupported unless it fits the model."""
    factored = model == "factored"
    geometry = norm_of(("nuclear" if factored else "frobenius") if norm is None else norm)
    if geometry != norm_of("nuclear") if factored else geometry.normal is None:
        raise Unsupported(
            f"no path of the {model} model in norm {geometry.name}: weight, prompt and joint "
            "models take frobenius, lP and norms that have a `normal`, the factored model nuclear"
        )
    return geometry


@dataclass(frozen=True, eq=False)
class BallTask:
    """What is minimised: the model on one instance, its blocks stacked in one matrix x.

    geometry: the norm of x. excess: over the reference tokens; None where there are none, then
    the loss itself is minimised. columns: those of factors. shift: for an excess e that may change
    sign, ± log(1 + |e| e^shift) is minimised; 0 where it may not, then log e. tokens: those of the
    batch, to change the reference tokens; None where they may not change.
    """

    batch: Batch
    model: Model
    norm: Norm
    loss: Loss
    head: Head
    columns: int
    excess: Excess | None = None
    shift: float = 0.0
    tokens: Tokens | None = None

    @property
    def factored(self) -> bool:
        return self.model.name == "factored"

    @property
    def geometry(self) -> Norm:
        return FrobeniusNorm() if self.factored else self.norm

    def radius(self, R: float) -> float:
        """The radius of x's ball."""
        return float(np.sqrt(2 * R)) if self.factored else R

    def blocks(self, x: Floats) -> Blocks:
        """The parameters (1, ...) in x."""
        if self.factored:
            d = self.batch.shape[0]
            return {"K": x[None, :d], "Q": x[None, d:]}
        return {"p": x[None, :, 0]} if self.model.prompt else {"W": x[None]}

    def matrix(self, x: Floats) -> Floats:
        """W (d, dq)."""
        return self.model.matrix(self.blocks(x))[0]

    def random(self, draw: np.random.Generator) -> Floats:
        """A random x."""
        d, dq = self.batch.shape
        return draw.standard_normal((d + dq, self.columns) if self.factored else (d, dq))

    def lift(self, W: Floats, draw: np.random.Generator) -> Floats:
        """An x whose matrix is W; for factors nearly: none of their columns may be zero, since
        those would stay so."""
        if not self.factored:
            return W
        U, s, Vt = np.linalg.svd(W, full_matrices=False)
        x = 1e-3 * np.sqrt(s[0]) * self.random(draw)
        k = min(self.columns, len(s))
        x[:, :k] += np.concatenate([U[:, :k], Vt[:k].T]) * np.sqrt(s[:k])
        return x

    def at(self, x: Floats) -> tuple[Evaluation, Floats, float]:
        """The evaluation at x, and the gradient in x as direction and log scale."""
        found = evaluate(self.model, self.blocks(x), self.batch, self.head, self.loss)
        G = found.gradient.direction
        flat = np.concatenate([G[name][0].reshape(-1, x.shape[1]) for name in G])
        return found, flat, float(next(iter(found.gradient.log_scale.values()))[0])

    def log_excess(self, x: Floats) -> float:
        """log(L − infimum); nan where no infimum is known or the loss is below it."""
        if self.excess is None:
            return np.nan
        above = self.excess(self.at(x)[0].logs[0])
        return above.log if above.sign > 0 else np.nan

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """The objective and its slope."""
        found, G, scale = self.at(x)
        if self.excess is None:
            return float(found.loss[0]), G * np.exp(scale)
        above = self.excess(found.logs[0])
        if not self.shift:
            if not above.sign:
                return 0.0, np.zeros_like(x)
            return above.sign * above.log, G * np.exp(min(scale - above.log, 700.0))
        value = above.sign * float(np.logaddexp(0.0, above.log + self.shift))
        size = float(np.logaddexp(above.log, -self.shift))
        return value, G * np.exp(min(scale - size, 700.0))

    def slope(self, x: Floats) -> tuple[Floats, Floats, float]:
        """W, and the gradient in W (not in x) as direction and log scale."""
        W = self.matrix(x)
        found = evaluate(model_of("weight"), {"W": W[None]}, self.batch, self.head, self.loss)
        return W, found.gradient.direction["W"][0], float(found.gradient.log_scale["W"][0])

    def residual(self, x: Floats) -> tuple[float, float]:
        """The stationarity of W in `norm`, and log λ of the penalty that x is stationary for."""
        W, G, scale = self.slope(x)
        away, log = stationarity(self.norm, W, G)
        # ½(‖K‖² + ‖Q‖²) is ‖W‖_* at best: its slope has dual norm 1, that of ½‖W‖² has ‖W‖.
        return away, scale + log - (0.0 if self.factored else np.log(float(self.norm.value(W))))

    def least(self, start: Floats, R: float) -> Floats:
        """A local minimiser over the ball of radius R."""
        radius = self.radius(R)
        x = descend(self, start, radius, self.geometry)
        if self.factored and self.columns >= min(self.batch.shape):
            x = self._off_saddles(x, radius)
        if float(np.vdot(self(x)[1], x)) > 0:
            # The loss falls inwards: look for a minimum in the interior too.
            inner = descend(self, x, radius, self.geometry, reach="ball")
            if self(inner)[0] < self(x)[0]:
                return inner
        return self._off_plateaus(x, radius)

    def own(self, x: Floats) -> BallTask | None:
        """The task with the excess over the tokens that lead at x; None where it has no meaning."""
        if self.tokens is None or self.excess is None or not isinstance(self.head, Linear):
            return None
        found = self.at(x)[0]
        excess = Excess.over(self.tokens, found.top[0], self.head.v[0], self.loss)
        log = excess(found.logs[0]).log
        # Twice as far down as x is, and the logarithm is still one: a longer way takes rounds.
        shift = 40.0 - 2.0 * min(log, 0.0) if np.isfinite(log) else SHIFT
        return replace(self, excess=excess, shift=shift)

    def _off_plateaus(self, x: Floats, radius: float) -> Floats:
        """A point that is stationary where x is so only because its objective is flat in floats."""

        def wanted(y: Floats) -> Floats:
            return radius * self.geometry.dual_maximizer(-self.at(y)[1])

        away = self.residual(x)[0]
        for _ in range(PLATEAUS):
            own = self.own(x)
            if away <= ENOUGH or own is None:
                break
            end = descend(own, x, radius, self.geometry) if away > NEAR else x
            if not self.factored:
                last = polish(wanted, end)
                last = last * (radius / float(self.geometry.value(last)))
                if _better(own, last, end):
                    end = last
            if not _better(own, end, x):
                break
            x, away = end, self.residual(end)[0]
        return x

    def _off_saddles(self, x: Floats, radius: float) -> Floats:
        """A minimiser from which no new pair of columns leads down, unless none was found.

        Columns of zeros stay zero under descent, so factors stop at points whose W is not
        stationary; the top singular pair of −∇_W L in the smallest column leads on.
        """
        for _ in range(ESCAPES):
            W, G, _ = self.slope(x)
            if stationarity(self.norm, W, G)[0] <= SADDLE:
                break
            U, _, Vt = np.linalg.svd(-G)
            moved = x.copy()
            column = int(np.linalg.norm(x, axis=0).argmin())
            moved[:, column] = 0.1 * radius * np.concatenate([U[:, 0], Vt[0]])
            end = descend(self, moved, radius, self.geometry)
            if not self(end)[0] < self(x)[0]:
                break
            x = end
        return x


def _better(task: BallTask, end: Floats, x: Floats) -> bool:
    """Whether the end has the lower objective; the same to rounding, and is more stationary."""
    rise = task(end)[0] - task(x)[0]
    if abs(rise) > ROUNDING:
        return rise < 0
    return task.residual(end)[0] < task.residual(x)[0]


def stationarity(norm: Norm, x: Floats, G: Floats) -> tuple[float, float]:
    """1 − ⟨−G, x⟩/(‖G‖_dual ‖x‖), 0 exactly when x is a multiple of a dual map of −G, and
    log ‖G‖_dual; (0, −inf) for a zero gradient G."""
    slope, size = float(norm.dual(G)), float(norm.value(x))
    if not slope > 0:
        return 0.0, -np.inf
    away = 1.0 + float(np.vdot(G, x)) / (slope * size)
    return max(away, 0.0), float(np.log(slope))


def aim(tokens: Tokens, task: BallTask, v: Floats) -> BallTask:
    """The task with the linear head v (e, 1) and the excess over the best tokens under it."""
    alpha, _ = best_tokens(tokens, v[:, 0])
    excess = Excess.over(tokens, alpha, v[:, 0], task.loss)
    return replace(task, head=Linear(v[None, :, 0]), excess=excess)


def decoder(task: BallTask, x: Floats, v: Floats, r: float) -> tuple[Floats, float]:
    """The v (e, 1) of least loss with ‖v‖ ≤ r at the attention of x, and its stationarity."""
    attention = np.exp(task.at(x)[0].logs[0])
    rows = task.batch.labels[0, :, None] * np.einsum("nt,ntd->nd", attention, task.batch.values[0])

    def slope(v: Floats) -> tuple[Floats, float]:
        sign, log = task.loss.slope(rows @ v[:, 0])
        top = float(log.max())
        return (rows.T @ (sign * np.exp(log - top)))[:, None], top - np.log(len(log))

    def objective(v: Floats) -> tuple[float, Floats]:
        value = log_loss(task.loss, rows @ v[:, 0])
        G, scale = slope(v)
        return value, G * np.exp(scale - (value if task.loss.infimum == 0.0 else 0.0))

    end = descend(objective, v, r, task.norm)
    if float(np.vdot(slope(end)[0], end)) > 0:
        end = descend(objective, end, r, task.norm, reach="ball")
    return end, stationarity(task.norm, end, slope(end)[0])[0]


def joint_least(
    tokens: Tokens, task: BallTask, x: Floats, v: Floats, R: float, r: float
) -> tuple[Floats, Floats, float]:
    """A minimiser over ‖W‖ ≤ R and ‖v‖ ≤ r, block by block, and the larger stationarity.

    In turn W at fixed v (by the log of its excess, which sees what the loss no longer shows) and
    v at fixed W (a convex problem): the loss never rises.
    """
    away = np.inf
    for _ in range(ROUNDS):
        x = aim(tokens, task, v).least(x, R)
        v, own = decoder(task, x, v, r)
        away = max(own, aim(tokens, task, v).residual(x)[0])
        if away <= STILL:
            break
    return x, v, away
