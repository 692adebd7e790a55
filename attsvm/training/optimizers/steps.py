"""What optimizers share: scaled arithmetic, averages, steepest descent, decay, ridge, schedules.

Arithmetic on stacks of arrays in scaled form, direction × e^log_scale, without overflow.

The size of a direction is never taken from a sum of squares that could leave the range of floats,
and a gradient is zero when its direction is zero or its log_scale is −inf.

Running averages m ← β m + (1 − β) g of one block, and the direction D(m) of the step.

Three ways to keep m. `whole`: one array and one log scale, for a D that is right when m is right
in norm. `by_entry`: a wide number for each entry, for sign(m). `by_terms`: m = Xᵀ C Y, bases X and
Y out of the vectors that were met and wide coefficients C, for U Vᵀ of m: a direction of any size
stays. The sum of two gradients may cancel; what is then left is as exact as their own rounding.

Optimizers that move along a function of the gradient, or of its running average.

    memoryless:  x ← x − η D(g)          averaged:  m ← β m + (1 − β) g,   x ← x − η D(m)

with m₀ = 0 and D given by each optimizer: g itself, g/‖g‖, sign(g), U Vᵀ.

Decoupled weight decay: x ← (1 − η λ) x − step, around any optimizer that adds its step to x.

A ridge: descent on the loss and λ ‖x‖² for every block x, by an optimizer without memory.

Schedules: the factor on the step size at each step, η_t = η · factor(t), t from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import APART, Wide, normal, of_logs
from attsvm.training.optimizers.optimizer import Blocks, Gradient, Optimizer, State, Step

# Squares add up safely while their sum stays between these.
_SMALLEST, _GREATEST = 1e-280, 1e280
# e to this power is still a float.
LARGEST_LOG = 700.0


def over(values: Floats, stack: Floats) -> Floats:
    """values (B,) shaped (B, 1, ...), to multiply each array of a stack (B, ...)."""
    return values.reshape(-1, *(1,) * (stack.ndim - 1))


def peak(G: Floats) -> Floats:
    """The largest |entry| of each array of a stack: (B,)."""
    return np.abs(G).reshape(len(G), -1).max(axis=1, initial=0.0)


def length(G: Floats) -> Floats:
    """The Frobenius norm of each array of a stack: (B,)."""
    flat = G.reshape(len(G), -1)
    squares = np.einsum("bi,bi->b", flat, flat)
    if ((squares > _SMALLEST) & (squares < _GREATEST)).all():
        return np.sqrt(squares)
    top = peak(G)
    flat = flat / np.where(top == 0, 1.0, top)[:, None]
    return top * np.sqrt(np.einsum("bi,bi->b", flat, flat))


def log(x: Floats) -> Floats:
    """The logarithm of x ≥ 0, −inf at zero."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def log_of(x: float) -> float:
    """The logarithm of one number x ≥ 0, −inf at zero."""
    return math.log(x) if x > 0 else -math.inf


def unit(G: Floats, size: Floats, log_scale: Floats) -> Floats:
    """G / size for each array of a stack, exactly zero where the gradient is zero."""
    zero = (size == 0) | (log_scale == -np.inf)
    return G / over(np.where(zero, np.inf, size), G)


def grown(logs: Floats, G: Floats) -> Floats:
    """e^logs G for logs (B,): zero where it underflows, ±inf where it is too large for floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = over(np.exp(logs), G) * G
    return out if (logs < LARGEST_LOG).all() else np.where(G == 0, 0.0, out)


# A direction and its log scale, as in Gradient.
Parts = dict[str, Any]
# (parts, direction, log scale, terms or None, β) -> (D, parts).
After = Callable[[Parts, Floats, Floats, "Graded | None", float], tuple[Floats, Parts]]


@dataclass(frozen=True)
class Average:
    """How the average of a block is kept: its first parts by name, and the next ones."""

    first: Callable[[tuple[int, ...]], Parts]
    after: After


def whole(toward: Callable[[Floats, Floats], Floats]) -> Average:
    """m as a direction with largest entry 1 and a log scale; D = toward(direction, log scale)."""

    def first(shape: tuple[int, ...]) -> Parts:
        return {"mean": np.zeros(shape), "log": np.full(shape[0], -np.inf)}

    def after(
        before: Parts, G: Floats, log_scale: Floats, terms: Graded | None, beta: float
    ) -> tuple[Floats, Parts]:
        M = before["mean"]
        top = peak(G)
        G = unit(G, top, log_scale)
        old = before["log"] + log_of(beta)
        fresh = log_scale + log(top) + np.log1p(-beta)
        scale = np.maximum(old, fresh)
        base = np.where(scale == -np.inf, 0.0, scale)  # −inf − (−inf) is no number
        M = over(np.exp(old - base), M) * M + over(np.exp(fresh - base), G) * G
        top = peak(M)
        M, scale = unit(M, top, scale), scale + log(top)
        return toward(M, scale), {"mean": M, "log": scale}

    return Average(first, after)


def by_entry() -> Average:
    """m entry by entry; D = sign(m)."""

    def first(shape: tuple[int, ...]) -> Parts:
        return {"share": np.zeros(shape), "power": np.zeros(shape, np.int64)}

    def after(
        before: Parts, G: Floats, log_scale: Floats, terms: Graded | None, beta: float
    ) -> tuple[Floats, Parts]:
        share, power = entries_of(G, log_scale, terms)
        fresh = (1 - beta) * share, power
        share, power = _sum((beta * before["share"], before["power"]), fresh)
        return np.sign(share), {"share": share, "power": power}

    return Average(first, after)


def by_terms(terms_of: Callable[[Floats, Floats], Graded]) -> Average:
    """m as terms; D = U Vᵀ. terms_of makes terms of a direction where a model has none."""

    def first(shape: tuple[int, ...]) -> Parts:
        B, d, c = shape
        return {
            "left": np.zeros((B, d, d)),
            "right": np.zeros((B, c, c)),
            "share": np.zeros(shape),
            "power": np.zeros(shape, np.int64),
        }

    def after(
        before: Parts, G: Floats, log_scale: Floats, terms: Graded | None, beta: float
    ) -> tuple[Floats, Parts]:
        fresh = terms_of(G, log_scale) if terms is None else terms
        B, d, c = before["share"].shape
        old = Graded(
            before["left"],
            before["right"],
            np.repeat(np.arange(d), c),
            np.tile(np.arange(c), d),
            before["share"].reshape(B, d * c),
            before["power"].reshape(B, d * c),
        )
        D, X, Y, share, power = old.times(beta).plus(fresh.times(1 - beta)).resolved()
        return D, {"left": X, "right": Y, "share": share, "power": power}

    return Average(first, after)


def entries_of(G: Floats, log_scale: Floats, terms: Graded | None) -> Wide:
    """Every entry of a gradient as a wide number, from its terms if it has some."""
    if terms is None:
        return of_logs(G, np.broadcast_to(over(log_scale, G), G.shape))
    share, power = terms.entries()
    return share.reshape(G.shape), power.reshape(G.shape)


def _sum(one: Wide, other: Wide) -> Wide:
    """The sum of two arrays of wide numbers."""
    lowest = np.iinfo(np.int64).min // 4
    powers = [np.where(share == 0, lowest, power) for share, power in (one, other)]
    top: Ints = np.maximum(*powers)
    parts = [
        np.ldexp(share, np.maximum(power - top, -APART))
        for (share, _), power in zip((one, other), powers, strict=True)
    ]
    return normal(parts[0] + parts[1], top)


# D(direction (B, ...), log_scale (B,)) of one block: (B, ...).
Toward = Callable[[Floats, Floats], Floats]
# The same from the block's terms.
Finely = Callable[[Graded], Floats]


def memoryless(
    name: str, toward: Toward, *, norm: str | None = None, finely: Finely | None = None
) -> Optimizer:
    """The optimizer x ← x − η D(g), block by block.

    finely: D from the graded form of a block, where there is one.
    """

    def init(params: Blocks) -> State:
        return {}

    def move(step: Step) -> tuple[Blocks, State]:
        new = {}
        for block, x in step.params.items():
            terms = step.gradient.graded.get(block)
            if finely is None or terms is None:
                D = toward(step.gradient.direction[block], step.gradient.log_scale[block])
            else:
                D = finely(terms).reshape(x.shape)
            with np.errstate(invalid="ignore"):  # 0 · inf, for lr = 0
                new[block] = x - over(step.lr, x) * D
        return new, step.state

    return Optimizer(name, init, move, norm, graded=finely is not None)


def averaged(
    name: str, average: Callable[[int], Average], beta: float, *, graded: bool = False
) -> Optimizer:
    """The optimizer m ← β m + (1 − β) g, x ← x − η D(m), block by block.

    The average spans as many orders of magnitude as the gradients do: average(ndim) says how that
    of a block with this many axes is kept, and what D is.
    """
    if not 0 <= beta < 1:
        raise Unsupported(f"{name} has momentum β = {beta}: it must lie in [0, 1)")

    def init(params: Blocks) -> State:
        return {
            f"{block}.{part}": value
            for block, x in params.items()
            for part, value in average(x.ndim).first(x.shape).items()
        }

    def move(step: Step) -> tuple[Blocks, State]:
        new: Blocks = {}
        after: State = {}
        gradient = step.gradient
        for block, x in step.params.items():
            own = f"{block}."
            before = {k.removeprefix(own): a for k, a in step.state.items() if k.startswith(own)}
            g = gradient.direction[block], gradient.log_scale[block], gradient.graded.get(block)
            D, now = average(x.ndim).after(before, *g, beta)
            new[block] = x - over(step.lr, x) * D
            after |= {f"{block}.{part}": value for part, value in now.items()}
        return new, after

    return Optimizer(name, init, move, graded=graded)


def with_decay(optimizer: Optimizer, decay: float) -> Optimizer:
    """The optimizer with decoupled weight decay λ = decay; λ = 0 gives the optimizer back.

    The step is that of the optimizer at the undecayed x. `norm` becomes None, since the change of x
    no longer has norm η; the steps without the decay still do, so ‖x‖ settles below 1/λ in it.
    """
    if not 0 <= decay < np.inf:
        raise Unsupported(f"weight decay is {decay}: it must be finite and not negative")
    if decay == 0:
        return optimizer
    if not optimizer.decays:
        raise Unsupported(f"decoupled weight decay is not defined for {optimizer.name}")

    def move(step: Step) -> tuple[Blocks, State]:
        moved, state = optimizer.move(step)
        new = {
            block: moved[block] - over(step.lr * decay, x) * x for block, x in step.params.items()
        }
        return new, state

    return replace(
        optimizer, name=f"{optimizer.name}+decay:{decay:g}", move=move, norm=None, about=()
    )


def with_ridge(optimizer: Optimizer, ridge: float) -> Optimizer:
    """The optimizer on the loss with λ ‖x‖² more for every block x, λ = ridge; λ = 0 gives it back.

    The gradient g + 2λ x is formed with the larger of both exponents taken out, so that neither
    part is lost before the other is. What a run records of loss and gradient is without the ridge.
    Unlike decay it is part of what a normalized step divides by.
    """
    if not 0 <= ridge < np.inf:
        raise Unsupported(
            f"{optimizer.name} has the ridge {ridge}: it must be finite and not negative"
        )
    if ridge == 0:
        return optimizer
    own = np.log(2.0 * ridge)

    def move(step: Step) -> tuple[Blocks, State]:
        direction: Blocks = {}
        log_scale: Blocks = {}
        for block, x in step.params.items():
            scale = step.gradient.log_scale[block]
            peak = np.maximum(scale, own)
            loss, pull = (scale - peak, step.gradient.direction[block]), (own - peak, x)
            direction[block] = grown(*loss) + grown(*pull)
            log_scale[block] = peak
        return optimizer.move(replace(step, gradient=Gradient(direction, log_scale)))

    name = f"{optimizer.name}+ridge:{ridge:g}"
    return replace(optimizer, name=name, move=move, clock=None, limit=None, ridge=ridge, about=())


Schedule = Callable[[int], float]


def constant(step: int) -> float:
    """1 at every step."""
    return 1.0


def inverse_sqrt(step: int) -> float:
    """1/√(t + 1)."""
    return 1.0 / sqrt(step + 1)


SCHEDULES: dict[str, Schedule] = {"constant": constant, "sqrt": inverse_sqrt}


def schedule_of(spec: str | Schedule) -> Schedule:
    """The schedule of this name, or the user's function of the step, its values checked.

    >>> schedule_of("sqrt")(3)
    0.5
    """
    if callable(spec):
        return _checked(spec)
    if spec not in SCHEDULES:
        known = ", ".join(SCHEDULES)
        raise Unsupported(
            f"unknown schedule {shown(spec)}: known are {known}, or a function of the step"
        )
    return SCHEDULES[spec]


def _checked(given: Schedule) -> Schedule:
    def schedule(step: int) -> float:
        try:
            value = float(given(step))
        except (TypeError, ValueError, OverflowError) as error:
            raise Unsupported(f"the schedule gives no number at step {step}: {error}") from error
        if not (isfinite(value) and value >= 0):
            raise Unsupported(f"the schedule is {value} at step {step}: it must be ≥ 0 and finite")
        return value

    return schedule
