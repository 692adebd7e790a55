"""The cone: every W of norm at least R within an angle of W̃ stays there, and its direction tends
to the max-margin one.

W̃ is any matrix whose margins are all at least 1, μ any probability vector on good rows: the exact
solution and its multipliers where the active set is verified, those of a certificate where it is
not. K = {W': corr(W', W̃) ≥ c₀, ‖W'‖ ≥ R} is kept by all steps of length at most h along the
gradient if inequality (A) holds, `slope` ≥ `turn` below. The tube is far sharper; the cone needs no
independent tight rows, and allows longer steps.

docs/convergence.md has the theorem with its proof. Arrays (g, K): g values of c₀, K rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm._utils.interval import Interval, down, total, up
from attsvm.theory.convergence.rows import Rows
from attsvm.theory.convergence.tube import Active

# How many angles of the cone are tried, from that of W up to nearly a right one.
_ANGLES = 32
# Good rows this far beyond the tight ones are taken out of the logarithm in ε.
_BEYOND = 3.0
_GROW = 1 + 2.0**-48


@dataclass(frozen=True, eq=False)
class ConeAxis:
    """W̃ and μ, and how far they are from the solution and its multipliers.

    slack, length, across (K,): ⟨a_k, W̃⟩ − 1, ‖a_k‖, and the length of the part of a_k orthogonal
    to W̃; N = ‖W̃‖; U = Σ μ_k a_k: over = ⟨U, W̃⟩ − 1, tilt = N ‖U − ⟨U, W̃⟩ W̃/N²‖, both 0 for the
    solution itself; wide = N‖U‖ ≥ 1, the ratio of the two bounds on the least norm.
    """

    W: Interval
    mu: Interval
    N: Interval
    slack: Interval
    length: Interval
    across: Interval
    over: float
    tilt: float
    wide: float

    @staticmethod
    def exact(rows: Rows, active: Active) -> ConeAxis:
        """The solution of a verified active set."""
        low, high = np.zeros(rows.count), np.zeros(rows.count)
        share = active.lam / active.square
        low[active.C], high[active.C] = share.lo, share.hi
        return ConeAxis(
            rows.combined(active.lam, active.C),
            Interval(low, high),
            active.N,
            active.slack,
            active.length,
            active.across,
            0.0,
            0.0,
            1.0,
        )

    @staticmethod
    def near(rows: Rows, W: Floats, multipliers: Floats) -> ConeAxis | None:
        """A feasible W and multipliers ≥ 0 of any scale; None where a margin is not positive."""
        least = float(rows.margins(W).lo.min(initial=np.inf))
        if not 0 < least < np.inf or not multipliers.any():
            return None
        W = W / down(least) * (1 + 2.0**-50)
        margins = rows.margins(W)
        if not (margins.lo >= 1).all():
            W = W * (1 + 1e-12)
            margins = rows.margins(W)
        if not (margins.lo >= 1).all():
            return None
        mu = multipliers / multipliers.sum()
        share = Interval(mu) / Interval(mu).sum()
        share = Interval(np.where(mu > 0, share.lo, 0.0), np.where(mu > 0, share.hi, 0.0))
        every = np.arange(rows.count)
        U = rows.combined(share, every)
        exact = Interval(W)
        square = exact.squared().sum()
        reached = (share * margins).sum()
        tilt = (U - exact * (reached / square)).squared().sum().sqrt() * square.sqrt()
        wide = U.squared().sum().sqrt() * square.sqrt()
        squares = rows.squares()
        across = (squares - margins.squared() / square).sqrt()
        return ConeAxis(
            exact,
            share,
            square.sqrt(),
            Interval(np.maximum((margins - 1.0).lo, 0.0), (margins - 1.0).hi),
            squares.sqrt(),
            across,
            float(max((reached - 1.0).hi, 0.0)),
            float(tilt.hi),
            float(max(wide.hi, 1.0)),
        )


@dataclass(frozen=True, eq=False)
class ConeConstants:
    """The constants of g cones at once; `fits` says which are proved to be kept."""

    c: Floats
    slope: Floats
    turn: Floats
    beta: Floats
    epsilon: Floats
    h: Floats
    least_margin: Floats
    blocked: Bools
    fits: Bools


def corr(axis: ConeAxis, W: Floats) -> tuple[float, float]:
    """A lower bound on corr(W, W̃), and one on ‖W‖."""
    given = Interval(W)
    size = given.squared().sum().sqrt()
    value = (given * axis.W).sum() / (size * axis.N)
    return float(np.clip(value.lo, -1.0, 1.0)), float(size.lo)


def cosines(c: float) -> Floats:
    """Values of c₀ to try, the first nearly c itself."""
    if not 0 < c <= 1:
        return np.empty(0)
    own = float(np.sqrt(max((1 - c) * (1 + c), 1e-14)))
    if own > 0.95:
        return np.empty(0)
    sine = np.geomspace(own, 0.95, _ANGLES)
    return np.minimum(down(np.sqrt((1 - sine) * (1 + sine))), c) * (1 - 1e-15)


def measure_cone(
    rows: Rows, axis: ConeAxis, R: float | Floats, c: Floats, h: float, *, plain: bool = False
) -> ConeConstants:
    """The constants of the cones with cosine c (g,) from norm R on, one or (g,), for steps up to h.

    plain: h is the step size η of plain descent, whose steps are η times the gradient.
    """
    c0 = Interval(c[:, None])
    sine = ((1.0 - c0) * (1.0 + c0)).sqrt()
    norm = np.broadcast_to(np.asarray(R, dtype=np.float64), c.shape)
    r = Interval(norm[:, None]) / axis.N
    N = axis.N
    spread = N * axis.across
    least = c0 * (axis.slack + 1.0) - sine * spread
    e = (-(r * least)).exp()
    low, high = rows.pull.between(e.hi)
    good = low > 0
    held = axis.mu.hi > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (Interval(np.where(good, low, 1.0)) / np.where(held, axis.mu.hi, 1.0)).log()
        log_Z = np.where(held, (axis.mu * ratio).lo, 0.0)
    log_Z = log_Z.sum(axis=1) - rows.count * 2.0**-52 * np.abs(log_Z).sum(axis=1)
    ahead = c0 * axis.slack - sine * (spread + axis.tilt) - axis.over
    x = r * ahead
    with np.errstate(invalid="ignore", over="ignore"):
        damp = (-x - log_Z[:, None]).exp().hi
        size = np.maximum(np.abs(low), np.abs(high))
        B = np.where(good, 0.0, up(size * damp))
        B = np.where((size == 0) & ~good, 0.0, B)
        grown = up(axis.slack.hi + 1.0)
        beta = total(B * grown)
        wider = total(B * (grown + (sine * spread).hi))
        speed = (
            np.where(good, axis.length.hi, 0.0).max(axis=1, initial=0.0) + total(B * axis.length.hi)
        ) * _GROW
        out = good & ~held & (x.lo >= _BEYOND)
        inside = total(np.where(good & ~out, high, 0.0))
        log_in = Interval(inside).log().hi
        rest = total(np.where(out, up(high * damp) * (1 + x.hi), 0.0))
        # (1 + x) e^−x falls: it is taken at the least x, whose rounding the last factor covers.
        epsilon = (np.maximum(up(log_in - log_Z), 0.0) + rest) / r.lo[:, 0] * _GROW + wider
    if plain:
        pull = total(np.where(good, high, 0.0) * e.hi)
        h_all = h * speed * pull * _GROW
    else:
        h_all = np.full(len(c), h)
    need = np.sqrt(max(axis.wide**2 - 1, 0.0)) * _GROW
    far = axis.length.hi * float(N.hi) * need * _GROW
    bad_ok = (ahead.lo > need) & (axis.slack.lo > far)
    blocked = ~good & ~bad_ok
    top = c * (1 + axis.over) + sine.hi[:, 0] * axis.tilt
    slope = down(1 - beta - c * (top + epsilon) * _GROW)
    turn = up(c * h_all * float(N.hi) * speed / (2 * norm) * _GROW)
    floor = np.where(good, least.lo, np.inf).min(axis=1, initial=np.inf)
    fits = (
        (least.lo > 0).all(axis=1)
        & ~blocked.any(axis=1)
        & (good | ~held).all(axis=1)
        & (beta < 1)
        & (wider < floor)
        & (norm * down(1 - beta) >= up(h_all * c * (1 + axis.over) * _GROW))
        & (slope >= turn)
    )
    margin = (r * least).lo.min(axis=1, initial=np.inf)
    return ConeConstants(c, slope, turn, beta, epsilon, h_all, margin, blocked, fits)


def claims(
    axis: ConeAxis, found: ConeConstants, j: int, R: float, c: float, unit: float
) -> dict[str, float]:
    """The constants of cone j by name, in the units of the data."""
    return {
        "c0": float(found.c[j]),
        "R": R * unit,
        "corr": c,
        "N": float(axis.N.hi) * unit,
        "h": float(found.h[j]) * unit,
        "beta": float(found.beta[j]),
        "epsilon": float(found.epsilon[j]),
        "slope": float(found.slope[j]),
        "turn": float(found.turn[j]),
        "margin": float(found.least_margin[j]),
        "over": axis.over,
        "tilt": axis.tilt,
        "wide": axis.wide,
    }


def stretch(found: ConeConstants, j: int, R: float, axis: ConeAxis) -> float:
    """By how much steps may be longer in cone j: both conditions on h are linear in it."""
    h, turn = float(found.h[j]), float(found.turn[j])
    if h == 0 or turn == 0:
        return 1.0
    most = R * (1 - float(found.beta[j])) / (h * float(found.c[j]) * (1 + axis.over))
    return min(float(found.slope[j]) / turn, most) * (1 - 1e-9)


def longest(
    found: ConeConstants, j: int, lr: float, asked: tuple[Rows, ConeAxis, float, float, bool]
) -> float:
    """The longest step with which cone j is kept: lr times the stretch, measured again, or lr."""
    rows, axis, R, h, plain = asked
    times = min(stretch(found, j, R, axis), 1e290 / lr)
    again = measure_cone(rows, axis, R, found.c[j : j + 1], h * times, plain=plain)
    return lr * times if times >= 1 and bool(again.fits[0]) else lr
