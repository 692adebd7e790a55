"""Running averages m ← β m + (1 − β) g of one block, and the direction D(m) of the step.

Three ways to keep m. `whole`: one array and one log scale, for a D that is right when m is right
in norm. `by_entry`: a wide number for each entry, for sign(m). `by_terms`: m = Xᵀ C Y, bases X and
Y out of the vectors that were met and wide coefficients C, for U Vᵀ of m: a direction of any size
stays. The sum of two gradients may cancel; what is then left is as exact as their own rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.training.optimizers.graded.form import Graded
from attsvm.training.optimizers.graded.wide import APART, Wide, normal, of_logs
from attsvm.training.optimizers.steps.scaled import log, log_of, over, peak, unit

# A direction and its log scale, as in Gradient.
Parts = dict[str, Any]
# (parts, direction, log scale, terms or None, β) -> (D, parts).
After = Callable[[Parts, Floats, Floats, "Graded | None", float], tuple[Floats, Parts]]


@dataclass(frozen=True)
class Average:
    """How the average of a block is kept: the names of its parts, the first ones, the next ones."""

    parts: tuple[str, ...]
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

    return Average(("mean", "log"), first, after)


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

    return Average(("share", "power"), first, after)


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

    return Average(("left", "right", "share", "power"), first, after)


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
