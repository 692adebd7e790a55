"""The tube: from here on W − ρŴ stays in a ball while ρ grows, so the direction tends to Ŵ.

Write W = ρŴ + P with P ⟂ Ŵ. Across Ŵ the gradient is that of a convex log-sum-exp, whose minimiser
P⋆ has a closed form on the tight rows; everything else is smaller by e^−ρ·slack. If the inequality
of `fits` holds for a radius D ≥ ‖P − P⋆‖, then for every later step of length at most h along the
gradient ‖P − P⋆‖ ≤ D, ρ grows, no margin changes its sign, and

    1 − corr(W_t, Ŵ) ≤ (‖P⋆‖ + D)² / (2 ρ_t² N²),        N = ‖Ŵ‖.

docs/convergence.md has the theorem with its proof; the names here are those used there. All
constants are computed in intervals, for many radii D at once: arrays (g, K) for g radii and K rows.

The active set is verified first. For a set C of rows with a nonsingular Gram matrix G, λ = G⁻¹1 > 0
and slack_k = ⟨a_k, Ŵ⟩ − 1 > 0 on all other rows, Ŵ = Σ_C λ_k a_k is the solution, by its KKT
conditions, and the rows of C are the tight ones. With an approximate inverse M of G and
δ ≥ ‖I − MG‖_∞ below 1, the solution x of G x = r lies within ‖M(r − G x°)‖_∞ / (1 − δ) of any x°:
so λ, Ŵ and every slack are enclosed, and the set is proved to be the active one although it was
found in floats. A row outside C may be tight only where its limit q̂_k is exactly zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import Interval, down, total, up
from attsvm.errors import AttsvmError
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.rows import Rows

# How often rows may enter and leave the set that the solver found.
_ROUNDS = 12


class NotVerified(AttsvmError):
    """No active set could be verified: why, and the row it hangs on (None for the whole set)."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, eq=False)
class Active:
    """A verified active set: C (c,), its Gram rows G (K, c), and what follows from them.

    inverse (c, c) is M, defect is δ. lam (c,) the multipliers, N = ‖Ŵ‖; slack, length, across (K,):
    the slack of every row, ‖a_k‖, and the length of the part of a_k orthogonal to Ŵ.
    """

    C: Ints
    G: Interval
    inverse: Floats
    defect: float
    lam: Interval
    square: Interval
    N: Interval
    slack: Interval
    length: Interval
    across: Interval

    def solve(self, right: Interval) -> Interval:
        """The x of G_C x = right, (c,) or (c, j), enclosed."""
        return _enclosed(self.G[self.C], self.inverse, self.defect, right)


def _enclosed(G: Interval, M: Floats, defect: float, right: Interval) -> Interval:
    x = M @ right.mid
    residual = Interval(M) @ (right - G @ x)
    error = residual.size.max(axis=0, initial=0.0) / (1 - defect)
    return Interval.near(x, up(error * (1 + 2.0**-50)))


def verify_active(rows: Rows, guess: Ints, *, settle: bool = True) -> Active:
    """The active set near a guess, or with `settle` False the guess itself.

    Raises NotVerified with the row on which it fails.
    """
    C = _settled(rows, guess) if settle else guess
    G = rows.gram(C)
    core = G[C]
    try:
        M: Floats = np.linalg.inv(core.mid).astype(np.float64)
    except np.linalg.LinAlgError as error:
        raise NotVerified("the tight rows are linearly dependent") from error
    gap = np.eye(len(C)) - Interval(M) @ core
    defect = float(up(gap.size.sum(axis=1) * (1 + (len(C) + 2) * 2.0**-53)).max(initial=0.0))
    if not defect < 0.5:
        raise NotVerified(
            "the tight rows are linearly dependent, or so nearly that floats cannot tell"
        )
    lam = _enclosed(core, M, defect, Interval(np.ones(len(C))))
    if not (lam.lo > 0).all():
        k = int(C[int(lam.lo.argmin())])
        raise NotVerified(f"the multiplier of {rows.describe(k)} is not known to be positive", k)
    square = lam.sum()
    slack = G @ lam - 1.0
    low, high = slack.lo.copy(), slack.hi.copy()
    low[C] = high[C] = 0.0
    slack = Interval(low, high)
    _check_slack(rows, C, slack)
    squares = rows.squares()
    across = (squares - (slack + 1.0).squared() / square).sqrt()
    return Active(C, G, M, defect, lam, square, square.sqrt(), slack, squares.sqrt(), across)


def _check_slack(rows: Rows, C: Ints, slack: Interval) -> None:
    outside = np.ones(rows.count, dtype=bool)
    outside[C] = False
    wrong = outside & ~((slack.lo > 0) | (rows.zero & (slack.lo >= 0)))
    if wrong.any():
        k = int(np.where(wrong, slack.lo, np.inf).argmin())
        raise NotVerified(
            f"{rows.describe(k)} has slack {slack.mid[k]:.1e} without a multiplier: the tight "
            "rows are dependent, or nearly",
            k,
        )


def not_good(rows: Rows, k: int) -> str:
    """Why a tight row whose pull is not known to be positive blocks a proof."""
    if not rows.zero[k] and rows.pull.limit.hi[k] >= 0:
        return f"{rows.describe(k)} is tight, and its pull is too near to 0 to have a sign"
    what = "as much as" if rows.zero[k] else "more than"
    return (
        f"the selection is not locally optimal: {rows.describe(k)} is tight and scores {what} the "
        "kept token"
    )


def _settled(rows: Rows, guess: Ints) -> Ints:
    """The guess after a few rounds in floats: negative multipliers leave, violated rows enter."""
    C = np.unique(guess)
    for _ in range(_ROUNDS):
        G = rows.gram(C).mid
        try:
            lam = np.linalg.solve(G[C], np.ones(len(C)))
        except np.linalg.LinAlgError:
            return C
        if len(C) > 1 and not (lam > 0).all():
            C = np.delete(C, int(lam.argmin()))
            continue
        slack = G @ lam - 1
        slack[C] = 0.0
        worst = int(slack.argmin())
        if slack[worst] >= -1e-9 or len(C) >= rows.D.lo.shape[1] * rows.Z.shape[1]:
            return C
        C = np.unique(np.append(C, worst))
    return C


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


def centre(frame: TubeFrame) -> Position:
    """P⋆ in the span of the tight rows, as a Position at height 0 that lies on it."""
    active, count = frame.active, frame.rows.count
    tau, log_Z, back = level_point(frame)
    at = active.G @ back
    low, high = at.lo.copy(), at.hi.copy()
    low[active.C], high[active.C] = tau.lo, tau.hi
    star = (tau * back).sum().sqrt()
    zero = Interval(0.0)
    return Position(zero, Interval(low, high), log_Z, star, zero, np.zeros(count))


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


def measure(
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
        found = measure(frame, here, steps, D, mode)
        if found.fits.any():
            ratio = np.where(found.fits, found.need / found.D**2, np.inf)
            first = int(found.fits.argmax())
            return found, first if ratio[first] < 0.9 else int(ratio.argmin())
    return None


def claims(
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
