"""The power cone: mirror descent under ‖W‖_p^p/p keeps to a cone round the ℓp max-margin W̃.

With the dual variable Y = sign(W)|W|^(p−1) and 1/p + 1/q = 1, the cosine is

    c_p(W) = ⟨Y, W̃⟩ / (‖Y‖_q ‖W̃‖_p),

and K = {c_p ≥ 1 − u, ‖W‖_p ≥ R} is kept by all steps of dual length at most h along the gradient
if `slope` ≥ `turn` below; then c_p tends to 1. `power_axis` bounds how far a direction of K may
lie from W̃, entry by entry.

docs/convergence-power.md has the theorem with its proof. Arrays (g, K): g values of u, K rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm._utils.interval import Interval, down, total, up
from attsvm.theory.convergence.power_axis import (
    GROW,
    PowerAxis,
    length,
    lengths,
    leveled,
    radii,
    raised,
    spread_of,
    stretched,
    whole,
)
from attsvm.theory.convergence.rows import Rows

# Values of u = 1 − c₀ that are tried, between that of W and the widest cone.
_TRIED, _LEAST, _MOST = 48, 1e-6, 0.2
# Good rows this far beyond the tight ones are taken out of the logarithm in ε.
_BEYOND = 3.0


@dataclass(frozen=True, eq=False)
class PowerSteps:
    """Steps of dual length at most `size`, or with `plain` `size` times the gradient.

    Lengths are those of the data; unit: what W is divided by in the rows, a power of two.
    """

    size: float
    plain: bool
    unit: float


@dataclass(frozen=True, eq=False)
class PowerCone:
    """The constants of g cones at once; `fits` says which are proved to be kept."""

    u: Floats
    slope: Floats
    turn: Floats
    beta: Floats
    epsilon: Floats
    h: Floats
    least: Floats
    pulls: Bools
    fits: Bools


def place(axis: PowerAxis, W: Floats) -> tuple[float, float]:
    """At least 1 − c_p(W), and at most ‖W‖_p."""
    x, k = leveled(
        Interval(W)
    )  # c_p does not depend on the size of W, and the powers stay in range
    Y = raised(Interval(np.abs(x.lo)), axis.exponent.less)
    top = (Y * (np.sign(W) * axis.W)).sum()
    R = length(x, axis.exponent.p, (0, 1))
    c = top / (raised(R, axis.exponent.less) * axis.N)
    return float(np.clip((1.0 - c).hi, 0.0, 2.0)), float(np.ldexp(R.lo, k))


def widths(u: float) -> Floats:
    """Values of 1 − c₀ to try, the first that of W itself."""
    if not u < _MOST:
        return np.empty(0)
    return up(np.concatenate([[u], np.geomspace(max(u, _LEAST), _MOST, _TRIED)]))


@np.errstate(all="ignore")  # what overflows is not proved
def measure_power(rows: Rows, axis: PowerAxis, R: float, u: Floats, steps: PowerSteps) -> PowerCone:
    """The constants of the cones c_p ≥ 1 − u (g,) from norm R on."""
    N, c = axis.N, up(1.0 - u)
    r = Interval(R) / N
    radius, inverse = radii(axis, u)
    spread = spread_of(rows, axis, u, inverse)
    least = (axis.slack + 1.0) - spread
    e = (-(r * least)).exp()
    low, high = rows.pull.between(e.hi)
    good, held = low > 0, axis.mu.hi > 0
    ratio = (Interval(np.where(good, low, 1.0)) / np.where(held, axis.mu.hi, 1.0)).log()
    log_Z = np.where(held, (axis.mu * ratio).lo, 0.0)
    log_Z = log_Z.sum(axis=1) - rows.count * 2.0**-52 * np.abs(log_Z).sum(axis=1)
    ahead = least - axis.wide
    x = r * ahead
    damp = (-x - log_Z[:, None]).exp().hi
    size = np.maximum(np.abs(low), np.abs(high))
    B = np.where(good | (size == 0), 0.0, up(size * damp))
    grown = up(axis.slack.hi + 1.0)
    beta = total(B * grown)
    wider = total(B * (grown + spread.hi))
    speed = _speed(good, B, axis.length.hi)
    h = np.full(len(u), steps.size)
    if steps.plain:
        h = h * speed / steps.unit * total(np.where(good, high, 0.0) * e.hi) * GROW
    # θ = h/‖Y‖_q with ‖Y‖_q = ‖W‖_p^(p−1): the power may leave the range of floats, θ does not.
    theta = up(h * raised(Interval(R) * steps.unit, -axis.exponent.less).hi * GROW)
    out = good & ~held & (x.lo >= _BEYOND)
    inside = Interval(total(np.where(good & ~out, high, 0.0))).log().hi
    rest = total(np.where(out, up(high * damp) * x.hi, 0.0))
    epsilon = (np.maximum(up(inside - log_Z), 0.0) + rest) / float(r.lo) * GROW + wider
    turn = _turn(axis, theta, speed)
    if axis.exponent.p <= 2:
        near = lengths(rows, stretched(axis, radius, theta))
        turn = np.minimum(turn, _turn(axis, theta, _speed(good, B, near)))
    turn = up(turn * c * GROW)
    top = _top(axis, u)
    slope = down(1 - beta - c * (top + epsilon) * GROW)
    floor = np.where(good, least.lo, np.inf).min(axis=1, initial=np.inf)
    pulls = ~good & (size > 0) & ~(ahead.lo > 0)
    fits = (
        (u > 0)
        & (u < 1)
        & (least.lo > 0).all(axis=1)
        & ~pulls.any(axis=1)
        & (good | ~held).all(axis=1)
        & (beta < 1)
        & (wider < floor)
        & (c * axis.wide * GROW <= 1)
        & (down(1 - beta) >= up(theta * c * (1 + axis.over) * GROW))
        & (slope >= turn)
    )
    return PowerCone(u, slope, turn, beta, epsilon, h, (r * least).lo.min(axis=1), pulls, fits)


def _top(axis: PowerAxis, u: Floats) -> Floats:
    """At least Σ μ_k v_k where c_p = 1 − u: by Hölder, and by how far V is from W̃."""
    far = whole(axis, u) * axis.tilt
    near = (1 + axis.over) * (1 - axis.exponent.even * u) + far
    return np.asarray(np.minimum(up(near * GROW), axis.wide))


def _turn(axis: PowerAxis, theta: Floats, speed: Floats) -> Floats:
    """ξ N A for θ = h/‖Y‖_q: what a step adds to ‖Y‖_q beyond first order."""
    q = axis.exponent.q
    if axis.exponent.p <= 2:
        bent = float((q - 1.0).hi) * theta / 2
    else:
        bent = axis.exponent.lift * raised(Interval(theta), q - 1.0).hi / float(q.lo)
    return up(bent * float(axis.N.hi) * speed * GROW)


def _speed(good: Bools, B: Floats, size: Floats) -> Floats:
    """A: the largest size of a good row, and the bad ones by their weight."""
    found = np.where(good, size, 0.0).max(axis=1, initial=0.0) + total(B * size)
    return np.asarray(found * GROW)


def claims(
    axis: PowerAxis, found: PowerCone, j: int, R: float, u: float, unit: float
) -> dict[str, float]:
    """The constants of cone j by name, in the units of the data."""
    p = axis.exponent.p
    return {
        "p": p,
        "u": float(found.u[j]),
        "c0": float(1 - found.u[j]),
        "R": R * unit,
        "distance": u,
        "N": float(axis.N.hi) * unit,
        "h": float(found.h[j]),
        "beta": float(found.beta[j]),
        "epsilon": float(found.epsilon[j]),
        "slope": float(found.slope[j]),
        "turn": float(found.turn[j]),
        "margin": float(found.least[j]),
        "wide": axis.wide,
    }
