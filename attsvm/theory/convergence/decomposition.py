"""Where W stands over the rows of its selection: its height ρ, its offset P, and the point P⋆.

W = ρŴ + P with P ⟂ Ŵ. Across Ŵ the gradient is that of a convex log-sum-exp over the good rows; on
the tight rows alone its minimiser P⋆ has a closed form, and the rest of P⋆ is free.
docs/convergence.md has the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import Interval, up
from attsvm.theory.convergence.active import Active
from attsvm.theory.convergence.rows import Rows

# Rows for which P⋆ may be moved off the span of the tight rows.
_MOVED = 16
# Beyond this many good rows the smoothness is bounded by the rows one by one, not in pairs.
PAIRS = 1200
_GROW = 1 + 2.0**-48


@dataclass(frozen=True, eq=False)
class Frame:
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
class Place:
    """Where W stands: ρ, and P⋆ as ⟨a_k, P⋆⟩ (K,), ‖P⋆‖ and ‖P − P⋆‖.

    shift (K,): the coefficients κ by which P⋆ is moved off the span of the tight rows.
    """

    rho: Interval
    at: Interval
    log_Z: Interval
    star: Interval
    distance: Interval
    shift: Floats


def place(frame: Frame, W: Floats, h: float, chosen: tuple[Ints, Floats] | None = None) -> Place:
    """Where W (d, dq) stands.

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
    return Place(rho, at, log_Z, star, square.sqrt(), shift)


def level_point(frame: Frame) -> tuple[Interval, Interval, Interval]:
    """⟨a_k, P⋆⟩ on the tight rows (c,), ln Ẑ, and the coefficients of P⋆ in the tight rows."""
    active = frame.active
    weight = active.lam / active.square
    log_ratio = (frame.rows.pull.limit[active.C] / weight).log()
    log_Z = (weight * log_ratio).sum()
    tau = log_ratio - log_Z
    return tau, log_Z, active.solve(tau)


def centre(frame: Frame) -> Place:
    """P⋆ in the span of the tight rows, as a Place at height 0 that lies on it."""
    active, count = frame.active, frame.rows.count
    tau, log_Z, back = level_point(frame)
    at = active.G @ back
    low, high = at.lo.copy(), at.hi.copy()
    low[active.C], high[active.C] = tau.lo, tau.hi
    star = (tau * back).sum().sqrt()
    zero = Interval(0.0)
    return Place(zero, Interval(low, high), log_Z, star, zero, np.zeros(count))


def _choice(
    frame: Frame, rho: float, at: Floats, log_Z: float, h: float
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
