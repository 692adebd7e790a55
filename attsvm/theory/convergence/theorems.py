"""Theorems 1 to 3: the tube, the cone and the loss level, sets that descent never leaves.

docs/convergence.md has the theorems with their proofs; the names here are those used there. All
constants are computed in intervals, for many radii or cosines at once: arrays (g, K) for g of these
and K rows.

The tube: from here on W − ρŴ stays in a ball while ρ grows, so the direction tends to Ŵ. Write
W = ρŴ + P with P ⟂ Ŵ. Across Ŵ the gradient is that of a convex log-sum-exp, whose minimiser P⋆ has
a closed form on the tight rows; everything else is smaller by e^−ρ·slack. If the inequality of
`fits` holds for a radius D ≥ ‖P − P⋆‖, then for every later step of length at most h along the
gradient ‖P − P⋆‖ ≤ D, ρ grows, no margin changes its sign, and

    1 − corr(W_t, Ŵ) ≤ (‖P⋆‖ + D)² / (2 ρ_t² N²),        N = ‖Ŵ‖.

The cone: every W of norm at least R within an angle of W̃ stays there, and its direction tends to
the max-margin one. W̃ is any matrix whose margins are all at least 1, μ any probability vector on
good rows: the exact solution and its multipliers where the active set is verified, those of a
certificate where it is not. K = {W': corr(W', W̃) ≥ c₀, ‖W'‖ ≥ R} is kept by all steps of length at
most h along the gradient if inequality (A) holds, `slope` ≥ `turn` below. The tube is far sharper;
the cone needs no independent tight rows, and allows longer steps.

The loss level: plain descent below a level of the loss keeps the best tokens for ever. With best
scores γ_i, second best γ₂ᵢ and L⋆ = (1/n) Σ ℓ(γ_i), let e = n(L(W) − L⋆). If

    e < min_i [ℓ((γ_i + γ₂ᵢ)/2) − ℓ(γ_i)]    and    η < 2/Λ(e),

and some matrix separates the best tokens from the others, then the loss never rises again, every
best token keeps more than half of its input's attention, and the direction tends to the max-margin
one. The loss has to fall everywhere; it need not be convex. Λ(e) bounds the curvature of L on the
set of all W below the level, where attention is nearly settled and L nearly flat: it falls like e,
so that every η is short enough in the end. The constant for all of space is never needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import Interval, differences, down, total, up
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.rows import Active, Rows, TokenPull

# Rows for which P⋆ may be moved off the span of the tight rows.
_MOVED = 16
# Beyond this many good rows the smoothness is bounded by the rows one by one, not in pairs.
PAIRS = 1200
_GROW = 1 + 2.0**-48


@dataclass(frozen=True, eq=False)
class TubeFrame:
    """What does not depend on W: rows, their active set, and the good rows among them."""

    rows: Rows
    active: Active

    @cached_property
    def good(self) -> Bools:
        """Rows with q̂_k > 0."""
        return self.rows.pull.limit.lo > 0

    @cached_property
    def bad(self) -> Bools:
        """Rows with q̂_k < 0, or of unknown sign."""
        return ~self.good & ~self.rows.zero

    @cached_property
    def tight(self) -> Bools:
        """Rows of the active set."""
        inside = np.zeros(self.rows.count, dtype=bool)
        inside[self.active.C] = True
        return inside

    @cached_property
    def smooth(self) -> float:
        """L = ¼ max ‖a_j⊥ − a_k⊥‖² over pairs of good rows, rounded up."""
        index = self.good.nonzero()[0]
        across = self.active.across.hi[index]
        single = float(up(across.max(initial=0.0) ** 2) * _GROW)
        if len(index) > PAIRS:
            return single
        G = self.rows.gram(index)[index]
        own = Interval(np.diag(G.lo).copy(), np.diag(G.hi).copy())
        slack = self.active.slack[index]
        apart = column(own) + own - G * 2.0
        apart = apart - (column(slack) - slack).squared() / self.active.square
        return min(single, float(apart.hi.max(initial=0.0)) * 0.25 * _GROW)


@dataclass(frozen=True, eq=False)
class Position:
    """The position of W: ρ, and P⋆ as ⟨a_k, P⋆⟩ (K,), ‖P⋆‖ and ‖P − P⋆‖.

    shift (K,): the coefficients κ by which P⋆ is moved off the span of the tight rows.
    """

    rho: Interval
    at: Interval
    log_Z: Interval
    star: Interval
    distance: Interval
    shift: Floats


def locate(
    frame: TubeFrame, W: Floats, h: float, chosen: tuple[Ints, Floats] | None = None
) -> Position:
    """The position of W (d, dq).

    h: the longest step, for the choice of P⋆ outside the tight rows; chosen: rows and coefficients
    of that choice, where it has been made before.
    """
    rows, active = frame.rows, frame.active
    C = active.C
    m = rows.margins(W)
    rho = (active.lam * m[C]).sum() / active.square
    tau, log_Z, _ = level_point(frame)
    off = m[C] - rho - tau
    back = active.solve(off)
    at = m - (active.slack + 1.0) * rho - active.G @ back
    low, high = at.lo.copy(), at.hi.copy()
    low[C], high[C] = tau.lo, tau.hi
    at = Interval(low, high)
    square = (off * back).sum()
    P = Interval(W) - rho * rows.combined(active.lam, C)
    moved = P - rows.combined(back, C)
    shift = np.zeros(rows.count)
    if chosen is None:
        chosen = _choice(frame, float(rho.mid), at.mid, float(log_Z.mid), h)
    if chosen is not None and len(chosen[0]):
        index, kappa = chosen
        shift[index] = kappa
        G = rows.gram(index)
        inner = active.solve(G[C])
        rest = G - active.G @ inner
        change = rest @ kappa
        low, high = change.lo.copy(), change.hi.copy()
        low[C] = high[C] = 0.0
        at = at + Interval(low, high)
        square = square + (Interval(kappa) * change[index]).sum()
        moved = moved + rows.combined(Interval(kappa), index)
        moved = moved - rows.combined(inner @ kappa, C)
    star = moved.squared().sum().sqrt()
    return Position(rho, at, log_Z, star, square.sqrt(), shift)


def level_point(frame: TubeFrame) -> tuple[Interval, Interval, Interval]:
    """⟨a_k, P⋆⟩ on the tight rows (c,), ln Ẑ, and the coefficients of P⋆ in the tight rows."""
    active = frame.active
    weight = active.lam / active.square
    log_ratio = (frame.rows.pull.limit[active.C] / weight).log()
    log_Z = (weight * log_ratio).sum()
    tau = log_ratio - log_Z
    return tau, log_Z, active.solve(tau)


def _choice(
    frame: TubeFrame, rho: float, at: Floats, log_Z: float, h: float
) -> tuple[Ints, Floats] | None:
    """The rows and coefficients κ of c = Σ κ_j a_j^rest that make the tube least, in floats.

    c minimises ‖c‖² + Σ w_k e^−⟨a_k, c⟩ with w_k = 2N²θ_k(1/slack_k + h/N): κ = ½ w e^−Sκ.
    """
    active = frame.active
    free = frame.good & ~frame.tight
    slack, N = active.slack.mid, float(active.N.mid)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_w = (
            np.log(2 * N**2)
            + np.log(frame.rows.pull.limit.mid)
            - log_Z
            - rho * slack
            - at
            + np.log(1 / slack + h / N)
        )
    log_w = np.where(free & np.isfinite(log_w), log_w, -np.inf)
    index = np.argsort(-log_w)[:_MOVED]
    index = np.sort(index[log_w[index] > np.log(1e-4)])
    if not len(index) or log_w[index].max() > 300:
        return None
    G = frame.rows.gram(index).mid
    C = active.C
    S = G[index] - active.G.mid[index] @ (active.inverse @ G[C])
    w, kappa = np.exp(log_w[index]), np.zeros(len(index))
    value = w.sum()
    for _ in range(60):
        pulled = 0.5 * w * np.exp(-S @ kappa)
        step = np.linalg.solve(np.eye(len(index)) + pulled[:, None] * S, pulled - kappa)
        size = 1.0
        for _ in range(40):
            new = kappa + size * step
            with np.errstate(over="ignore"):
                tried = new @ S @ new + (w * np.exp(-S @ new)).sum()
            if tried <= value:
                break
            size *= 0.5
        else:
            break
        done = value - tried <= 1e-9 * value
        kappa, value = new, tried
        if done:
            break
    return index, kappa


def column(x: Interval) -> Interval:
    """A vector as a column."""
    return Interval(x.lo[:, None], x.hi[:, None])


# Radii tried at once, between ‖P − P⋆‖ and the first radius without margin.
_RADII = 28


@dataclass(frozen=True, eq=False)
class CoveredSteps:
    """The steps that are to be covered: each of length at most h (`plain` False), or η times the
    gradient (`plain` True), one size or one for each radius; and the sum of all rounding errors, at
    most `errors`, in W."""

    size: Any
    plain: bool = False
    errors: float = 0.0


@dataclass(frozen=True, eq=False)
class TubeConstants:
    """The constants of g radii at once, rounded the safe way; see docs/convergence.md.

    fits: which radii are proved. need: the right side of the inequality, at most D² where it fits.
    """

    mode: str
    D: Floats
    h: Floats
    omega: Floats
    beta: Floats
    pi: Floats
    Pi: Floats
    Theta: Floats
    smooth: Floats
    need: Floats
    speed: Floats
    least_margin: Floats
    fits: Bools


def measure_tube(
    frame: TubeFrame, here: Position, steps: CoveredSteps, D: Floats, mode: str
) -> TubeConstants:
    """The constants of every radius D (g,) in mode "A" (wide) or "B" (long steps)."""
    rows, active = frame.rows, frame.active
    N, square = active.N, active.square
    radius = Interval(D[:, None])
    rho = here.rho - Interval(steps.errors) / N
    reach = active.across * radius
    margin = (active.slack + 1.0) * rho + here.at - reach
    e = (-margin).exp()
    error = rows.pull.error(e.hi)
    limit, good, bad = rows.pull.limit, frame.good, frame.bad
    free = good & ~frame.tight
    level = active.slack * (-rho) - here.at - here.log_Z  # log of e^(−ρ slack − ⟨a, P⋆⟩)/Ẑ
    near = level.exp()
    far = (level + reach).exp().hi
    theta = np.where(free, (near * limit).hi, 0.0)[None]
    b = np.where(bad, up(limit.size * far), 0.0)
    d_far = up(error * far)
    with np.errstate(divide="ignore"):
        d_near = np.where(good, up(error / np.where(good, limit.lo, 1.0)), np.inf)
    grown = up(active.slack.hi + 1.0)
    across = active.across.hi
    beta = total(b * grown) + _mixed(d_near * grown, d_far * grown)
    drift = _mixed(d_near * across, d_far * across)
    pi = total(b * across) + drift
    speed = (float(active.length.hi[good].max(initial=0.0)) + pi + beta / float(N.lo)) * _GROW
    if steps.plain:  # η sup‖g‖ with ‖g‖ ≤ speed · Σ_good q̂ e^−m
        h = steps.size * speed * total(np.where(good, limit.hi * e.hi, 0.0)) * _GROW
    else:
        h = np.array(np.broadcast_to(steps.size, D.shape), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(active.slack.lo > 0, 1 / np.maximum(active.slack.lo, 1e-300), 0.0)
    length = (tail + (h / float(N.lo))[:, None]) * _GROW
    Pi = (total(b * across * length) + drift * (1 + h / float(N.lo))) * _GROW
    Theta = total(theta * length)
    left = down(1 - beta)
    smooth = np.full(len(D), frame.smooth)
    times = 1.0
    if mode == "B":
        pi = (pi + total(theta * across)) * _GROW
        Pi = (Pi + total(theta * across * length)) * _GROW
        Theta = np.zeros(len(D))
        # L_D takes longest: only where the rest of the inequality can hold.
        with np.errstate(divide="ignore", invalid="ignore"):
            least = up(here.distance.hi**2) + float(square.hi) / left * 2 * D * Pi
            can = (beta < 1) & (least <= D * D) & (margin.lo > 0).all(axis=1)
        smooth[can] = np.minimum(smooth[can], _local(frame, D[can], theta))
        times = 2.0
    stiff = up(h * float(N.hi) * smooth * _GROW)
    with np.errstate(divide="ignore", invalid="ignore"):
        omega = np.where(stiff > 0, times * left / np.where(stiff > 0, stiff, 1.0) - 1, 1e6)
        omega = np.minimum(omega * (1 - 1e-12), 1e6)
        shaken = h * float(N.hi) / left * (1 + 1 / omega) * pi * Pi
        need = (
            up(here.distance.hi**2)
            + float(square.hi) / left * (2 * Theta + 2 * D * Pi + shaken) * _GROW
        )
        need = up((need + 2 * D * steps.errors + steps.errors**2) * _GROW)
        fits = (
            (beta < 1)
            & (omega > 0)
            & ((1 + omega) * stiff * _GROW <= times * left)
            & (need <= down(D * D))
            & (margin.lo > 0).all(axis=1)
            & good[active.C].all()
        )
    return TubeConstants(
        mode, D, h, omega, beta, pi, Pi, Theta, smooth, need, speed, margin.lo.min(axis=1), fits
    )


def widest(
    frame: TubeFrame, here: Position, steps: CoveredSteps, D: Floats
) -> tuple[TubeConstants, int] | None:
    """The radius whose inequality holds by most, in mode A if one fits, else in mode B."""
    for mode in "AB":
        found = measure_tube(frame, here, steps, D, mode)
        if found.fits.any():
            ratio = np.where(found.fits, found.need / found.D**2, np.inf)
            first = int(found.fits.argmax())
            return found, first if ratio[first] < 0.9 else int(ratio.argmin())
    return None


def tube_claims(
    frame: TubeFrame, here: Position, steps: CoveredSteps, found: TubeConstants, j: int
) -> dict[str, float]:
    """The constants of radius j by name, in the units of the data, each on its safe side.

    1 − corr ≤ rate/ρ² from here on; rho: ρ less the rounding errors that are covered; growth: what
    every step of length h adds to ρ at least (0 for plain descent, whose steps shrink).
    """
    active, unit = frame.active, frame.rows.unit
    N = float(active.N.lo)
    rate = (float(here.star.hi) + float(found.D[j])) ** 2 / (2 * N * N) * (1 + 2.0**-45)
    growth = 0.0
    if not steps.plain:
        slow = float(active.square.hi) * float(found.speed[j])
        growth = steps.size * (1 - float(found.beta[j])) / slow * (1 - 2.0**-45)
    return {
        "rho": float((here.rho - Interval(steps.errors) / active.N).lo),
        "D": float(found.D[j]) * unit,
        "D0": float(here.distance.hi) * unit,
        "star": float(here.star.hi) * unit,
        "N": float(active.N.hi) * unit,
        "h": float(found.h[j]) * unit,
        "omega": float(found.omega[j]),
        "beta": float(found.beta[j]),
        "pi": float(found.pi[j]) / unit,
        "Pi": float(found.Pi[j]) / unit,
        "Theta": float(found.Theta[j]),
        "L": float(found.smooth[j]) / unit**2,
        "need": float(found.need[j]) * unit**2,
        "margin": float(found.least_margin[j]),
        "rate": rate,
        "growth": growth,
        "errors": steps.errors * unit,
    }


def radii(frame: TubeFrame, here: Position) -> Floats:
    """Radii to try: from ‖P − P⋆‖ to where a margin may vanish; none where that is less."""
    active = frame.active
    top = (active.slack.lo + 1) * float(here.rho.lo) + here.at.lo
    across = np.maximum(active.across.hi, 1e-300)
    most = float((top / across).min(initial=np.inf))
    least = float(here.distance.hi)
    if not most > least:
        return np.empty(0)
    width = (most - least) * 0.98
    return up(least + np.geomspace(min(1e-3 * (0.1 + least), 0.1 * width), width, _RADII))


def _local(frame: TubeFrame, D: Floats, theta: Floats) -> Floats:
    """L_D: the largest eigenvalue of Σ p_k a_k⊥ a_k⊥ᵀ with p_k the largest weights in the ball.

    Assumes that LAPACK's routine for symmetric matrices (`eigvalsh`) errs by at most
    4 k 2^−52 ‖M‖_F on a k × k matrix M: it is backward stable, but no constant of it is proved.
    """
    active = frame.active
    index = frame.good.nonzero()[0]
    if len(index) > PAIRS:
        return np.full(len(D), np.inf)
    tight = frame.tight[index]
    weight = np.zeros(len(index))
    order = {int(k): j for j, k in enumerate(active.C)}
    share = (active.lam / active.square).hi
    for j, k in enumerate(index):
        weight[j] = share[order[int(k)]] if tight[j] else 0.0
    base = np.where(tight, weight, theta[:, index])
    reach = (active.across[index] * Interval(D[:, None])).exp().hi
    root = np.sqrt(base * reach) * _GROW
    slack = active.slack[index]
    G = frame.rows.gram(index)[index] - (column(slack) + 1.0) * (slack + 1.0) / active.square
    found = np.empty(len(D))
    for j, r in enumerate(root):
        if j and D[j] == D[j - 1]:
            found[j] = found[j - 1]
            continue
        if not np.isfinite(r).all():
            found[j] = np.inf
            continue
        M = r[:, None] * G.mid * r
        spread = r[:, None] * G.radius * r
        error = np.sqrt((spread**2).sum()) + 4 * len(r) * 2.0**-52 * np.sqrt((M**2).sum())
        found[j] = (max(float(np.linalg.eigvalsh(M)[-1]), 0.0) + error) * _GROW
    return found


def _mixed(near: Floats, far: Floats) -> Floats:
    """The least bound max over one part of `near` + sum over the rest of `far`, (g,).

    Σ_k error_k e^−m_k x_k is at most S max(error_k x_k / q̂_k) over good rows, because Σ_good
    q̂_k e^−m_k = S, and at most S error_k x_k e^(…)/Ẑ for each row: rows are shared out
    between both.
    """
    order = np.argsort(-near, axis=1)
    one = np.take_along_axis(near, order, 1)
    other = np.take_along_axis(far, order, 1)
    before = np.concatenate([np.zeros((len(near), 1)), other.cumsum(axis=1)], axis=1)
    after = np.concatenate([one, np.zeros((len(near), 1))], axis=1)
    with np.errstate(invalid="ignore"):
        bound: Floats = np.nan_to_num(before + after, nan=np.inf).min(axis=1)
    return bound * (1 + (near.shape[1] + 8) * 2.0**-53)


def drift_of(tokens: Tokens, frame: TubeFrame, W: Floats, h: float) -> float:
    """The rounding error of one step in floats, as a share of ‖W‖: of the sum, and of the
    direction through the logits and the gaps of scores, whose errors the weights inherit."""
    d, dq = W.shape
    keys = np.asarray(tokens.keys, dtype=np.float64)
    e = math.frexp(float(np.abs(keys).max(initial=0.0)))[1]
    longest = float(np.linalg.norm(np.ldexp(keys, -e), axis=2).max(initial=0.0))
    wide = float(np.linalg.norm(frame.rows.Z, axis=1).max(initial=0.0))
    turned = 2 * float(frame.active.N.hi) * float(frame.active.length.hi.max())
    logits = 2 * (d + dq + tokens.T + 16) * longest * wide
    scores = (tokens.d + 4) * frame.rows.blur / float(np.linalg.norm(W))
    return 2.0**-53 * (2 + h * turned * (logits + scores))


def float_steps(tokens: Tokens, frame: TubeFrame, W: Floats, h: float, errors: float) -> int:
    """How many steps of length h from W have rounding errors of at most `errors` in all."""
    drift, R = drift_of(tokens, frame, W, h), float(np.linalg.norm(W))
    if errors <= 0:
        return 0
    allowed = errors / drift
    steps = allowed / R if h == 0 else (-R + math.sqrt(R * R + 2 * h * allowed)) / h
    return int(min(max(steps * (1 - 2.0**-40), 0.0), 1e15))


# How many angles of the cone are tried, from that of W up to nearly a right one.
_ANGLES = 32
# Good rows this far beyond the tight ones are taken out of the logarithm in ε.
_BEYOND = 3.0


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
        found = scaled_axis(rows, W, multipliers)
        if found is None:
            return None
        W, margins, share = found
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

    # The theorem, and what its proofs call the width of a cone.
    theorem, key = "cone", "c0"

    def locate(self, W: Floats) -> tuple[float, float]:
        """A lower bound on corr(W, W̃), and one on ‖W‖."""
        given = Interval(W)
        size = given.squared().sum().sqrt()
        value = (given * self.W).sum() / (size * self.N)
        return float(np.clip(value.lo, -1.0, 1.0)), float(size.lo)

    def widths(self, c: float) -> Floats:
        """Values of c₀ to try for a W of this cosine, the first nearly c itself."""
        return cosines(c)

    def holds(self, c0: float, c: float) -> bool:
        """Whether the cone c₀ holds a W of this cosine."""
        return 0 < c0 <= c

    def measure(self, rows: Rows, R: float, c: Floats, lr: float, *, plain: bool) -> ConeConstants:
        """The constants of the cones c (g,) from norm R on, for a step in units of the data."""
        return measure_cone(rows, self, R, c, lr / rows.unit ** (2 if plain else 1), plain=plain)

    def claims(
        self, found: ConeConstants, j: int, R: float, c: float, unit: float
    ) -> dict[str, float]:
        """The constants of cone j by name, in the units of the data."""
        return {
            "c0": float(found.at[j]),
            "R": R * unit,
            "corr": c,
            "N": float(self.N.hi) * unit,
            **found.claims(j, unit),
            "over": self.over,
            "tilt": self.tilt,
            "wide": self.wide,
        }


def scaled_axis(
    rows: Rows, W: Floats, multipliers: Floats
) -> tuple[Floats, Interval, Interval] | None:
    """W with all margins at least 1, these margins, and the multipliers scaled to sum 1.

    None where a margin is not positive, or no multiplier is.
    """
    least = float(rows.margins(W).lo.min(initial=np.inf))
    if not 0 < least < np.inf or not multipliers.any():
        return None
    if not 1 <= least <= 1 + 1e-11:
        W = W / down(least) * (1 + 2.0**-50)
    if not (rows.margins(W).lo >= 1).all():
        W = W * (1 + 1e-12)
    margins = rows.margins(W)
    if not (margins.lo >= 1).all():
        return None
    mu = multipliers / multipliers.sum()
    share = Interval(mu) / Interval(mu).sum()
    share = Interval(np.where(mu > 0, share.lo, 0.0), np.where(mu > 0, share.hi, 0.0))
    return W, margins, share


@dataclass(frozen=True, eq=False)
class ConeConstants:
    """The constants of g cones at once; `fits` says which are proved to be kept.

    at (g,): the cosine c₀ of each, or 1 − c₀ of a power cone; margin: the least margin in it;
    blocked (g, K): the rows that may pull the wrong way.
    """

    at: Floats
    slope: Floats
    turn: Floats
    beta: Floats
    epsilon: Floats
    h: Floats
    margin: Floats
    blocked: Bools
    fits: Bools

    @property
    def best(self) -> int:
        """The cone that is kept by most."""
        return int(np.where(self.fits, self.slope - self.turn, -np.inf).argmax())

    def claims(self, j: int, unit: float) -> dict[str, float]:
        """The constants of cone j that every cone has, h in the units of the data."""
        names = ("beta", "epsilon", "slope", "turn", "margin")
        found = {"h": float(self.h[j]) * unit}
        return found | {name: float(getattr(self, name)[j]) for name in names}


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


# Pieces of the sums that bound a difference of losses by its slopes.
_PIECES = 32
_LOOSE = 1 + 2.0**-46


@dataclass(frozen=True, eq=False)
class LevelConstants:
    """e at most `excess`; the level that it must stay below; the longest step 2/Λ(e)."""

    excess: float
    allowed: float
    longest: float
    curvature: float
    fits: bool

    @property
    def claims(self) -> dict[str, float]:
        """The constants by name."""
        return {name: getattr(self, name) for name in ("excess", "allowed", "curvature")}


def measure_level(
    tokens: Tokens, pull: TokenPull, margins: Interval, lr: float
) -> LevelConstants | None:
    """The level of W, whose single rows have these margins (k,); None unless every gap is positive,
    so that the selected token is the one of highest score in every input."""
    if not (pull.gap.lo > 0).all():
        return None
    n = tokens.n
    e = (-margins).exp().hi
    lost: Any = np.bincount(pull.owner, weights=e * pull.gap.hi, minlength=n) * _LOOSE
    # Σ s gap ≤ Σ e^−m gap/(1 + o) with the least o; and never more than the largest gap.
    low = (-margins).exp().lo
    share = 1 + np.bincount(pull.owner, weights=low, minlength=n) * (1 - 2.0**-46)
    widest = np.zeros(n)
    np.maximum.at(widest, pull.owner, pull.gap.hi)
    lost = np.minimum(lost / share * _LOOSE, widest)
    nearest = np.full(n, np.inf)
    np.minimum.at(nearest, pull.owner, pull.gap.lo)
    rivals = np.isfinite(nearest)
    top = pull.top
    excess = float(_rise(pull, top.hi, lost).sum() * _LOOSE)
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
        lead = np.where(least > 0, up(excess / least * _LOOSE), np.inf)
        phi = np.minimum(lead, widest)
        w = np.minimum(np.where(rivals, phi / nearest * _LOOSE, 0.0), 0.5)
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
    return up(out * z * _LOOSE)


def _rise(pull: TokenPull, high: Floats, drop: Floats) -> Floats:
    """At least ℓ(γ − drop) − ℓ(γ), γ up to `high`, by slopes at the lower ends of pieces."""
    edges = np.linspace(0.0, 1.0, _PIECES + 1)[1:]
    found = np.zeros(len(high))
    for edge in edges:
        at = down(pull.top.lo - up(drop * edge * _LOOSE))
        _, slope, _ = pull.steepness(at, np.maximum(at, high))
        found += slope * drop / _PIECES
    return up(found * _LOOSE)


def _fall(pull: TokenPull, high: Floats, drop: Floats) -> Floats:
    """At most ℓ(γ − drop) − ℓ(γ), by slopes at the upper ends of pieces."""
    edges = np.linspace(0.0, 1.0, _PIECES + 1)[:-1]
    found = np.zeros(len(high))
    for edge in edges:
        at = up(high - drop * edge * (1 - 2.0**-46))
        slope, _, _ = pull.steepness(np.minimum(pull.top.lo - drop, at), at)
        found += slope * drop / _PIECES
    return down(found * (1 - 2.0**-46))
