"""The loss level: plain descent below a level of the loss keeps the best tokens for ever.

With best scores γ_i, second best γ₂ᵢ and L⋆ = (1/n) Σ ℓ(γ_i), let e = n(L(W) − L⋆). If

    e < min_i [ℓ((γ_i + γ₂ᵢ)/2) − ℓ(γ_i)]    and    η < 2/Λ(e),

and some matrix separates the best tokens from the others, then the loss never rises again, every
best token keeps more than half of its input's attention, and the direction tends to the max-margin
one. The loss has to fall everywhere; it need not be convex. Λ(e) bounds the curvature of L on the
set of all W below the level, where attention is nearly settled and L nearly flat: it falls like e,
so that every η is short enough in the end. The constant for all of space is never needed.

docs/convergence.md has the theorem with its proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import Interval, differences, down, up
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.rows import TokenPull

# Pieces of the sums that bound a difference of losses by its slopes.
_PIECES = 32
_GROW = 1 + 2.0**-46


@dataclass(frozen=True, eq=False)
class LevelConstants:
    """e at most `excess`; the level that it must stay below; the longest step 2/Λ(e)."""

    excess: float
    allowed: float
    longest: float
    curvature: float
    fits: bool


def measure_level(
    tokens: Tokens, pull: TokenPull, margins: Interval, lr: float
) -> LevelConstants | None:
    """The level of W, whose single rows have these margins (k,); None unless every gap is positive,
    so that the selected token is the one of highest score in every input."""
    if not (pull.gap.lo > 0).all():
        return None
    n = tokens.n
    e = (-margins).exp().hi
    lost: Any = np.bincount(pull.owner, weights=e * pull.gap.hi, minlength=n) * _GROW
    # Σ s gap ≤ Σ e^−m gap/(1 + o) with the least o; and never more than the largest gap.
    low = (-margins).exp().lo
    share = 1 + np.bincount(pull.owner, weights=low, minlength=n) * (1 - 2.0**-46)
    widest = np.zeros(n)
    np.maximum.at(widest, pull.owner, pull.gap.hi)
    lost = np.minimum(lost / share * _GROW, widest)
    nearest = np.full(n, np.inf)
    np.minimum.at(nearest, pull.owner, pull.gap.lo)
    rivals = np.isfinite(nearest)
    top = pull.top
    excess = float(_rise(pull, top.hi, lost).sum() * _GROW)
    falls = _fall(pull, top.hi, np.where(rivals, nearest, 0.0) / 2)
    allowed = float(np.where(rivals, falls, np.inf).min())
    # On the level set f_i > γ_i − gap/2, so γ_i − f_i ≤ φ = e/least with the least |ℓ'| from there
    # to γ_i, and attention off the best is w ≤ φ/gap. The e_i sum to e and each bound
    # is at most linear in e_i/e, so the largest one bounds the sum.
    half = np.full(n, np.inf)
    np.minimum.at(half, pull.owner, up(pull.gap.hi / 2))
    least, _, _ = pull.steepness(down(top.lo - np.where(rivals, half, 0.0)), top.hi)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # A slope that may be 0 in floats bounds nothing: then φ is only known to be within reach.
        lead = np.where(least > 0, up(excess / least * _GROW), np.inf)
        phi = np.minimum(lead, widest)
        w = np.minimum(np.where(rivals, phi / nearest * _GROW, 0.0), 0.5)
        _, slope, bend = pull.steepness(down(top.lo - phi), top.hi)
        # In logarithms: the factors may underflow where their product does not.
        bracket = bend * phi * (1 + w) ** 2 + slope * (1 + w + w * w)
        logs = 2 * np.log(_reach(tokens)) + np.log(lead) + np.log(bracket) - np.log(n)
        log_curvature = float(np.where(rivals, logs, -np.inf).max()) + 1e-9
        curvature = float(np.exp(log_curvature))
        longest = min(float(np.exp(np.log(2.0) - log_curvature) * (1 - 1e-9)), 1e300)
    return LevelConstants(excess, allowed, longest, curvature, excess < allowed and lr < longest)


def _reach(tokens: Tokens) -> Floats:
    """The largest distance of two keys of an input, times the length of its query, (n,)."""
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    keys = np.asarray(tokens.keys, dtype=np.float64)[source]
    present = tokens.present()
    z = Interval(tokens.queries).squared().sum(axis=1).sqrt().hi
    out = np.zeros(tokens.n)
    for i, (own, there) in enumerate(zip(keys, present, strict=True)):
        tokens_i = own[there]
        apart = differences(tokens_i[:, None, :], tokens_i[None, :, :]).squared()
        square = Interval(apart.lo, apart.hi).sum(axis=2).hi.max()
        out[i] = up(np.sqrt(square))
    return up(out * z * _GROW)


def _rise(pull: TokenPull, high: Floats, drop: Floats) -> Floats:
    """At least ℓ(γ − drop) − ℓ(γ), γ up to `high`, by slopes at the lower ends of pieces."""
    edges = np.linspace(0.0, 1.0, _PIECES + 1)[1:]
    total = np.zeros(len(high))
    for edge in edges:
        at = down(pull.top.lo - up(drop * edge * _GROW))
        _, slope, _ = pull.steepness(at, np.maximum(at, high))
        total += slope * drop / _PIECES
    return up(total * _GROW)


def _fall(pull: TokenPull, high: Floats, drop: Floats) -> Floats:
    """At most ℓ(γ − drop) − ℓ(γ), by slopes at the upper ends of pieces."""
    edges = np.linspace(0.0, 1.0, _PIECES + 1)[:-1]
    total = np.zeros(len(high))
    for edge in edges:
        at = up(high - drop * edge * (1 - 2.0**-46))
        slope, _, _ = pull.steepness(np.minimum(pull.top.lo - drop, at), at)
        total += slope * drop / _PIECES
    return down(total * (1 - 2.0**-46))
