"""The frame of the tube: the active set, verified, the exact solution Ŵ, and where W is over it.

For a set C of rows with a nonsingular Gram matrix G, λ = G⁻¹1 > 0 and slack_k = ⟨a_k, Ŵ⟩ − 1 > 0 on
all other rows, Ŵ = Σ_C λ_k a_k is the solution, by its KKT conditions, and the rows of C are
the tight ones. With an approximate inverse M of G and δ ≥ ‖I − MG‖_∞ below 1, the solution x of
G x = r lies within ‖M(r − G x°)‖_∞ / (1 − δ) of any x°: so λ, Ŵ and every slack are enclosed, and
the set is proved to be the active one although it was found in floats.

A row outside C may be tight only where its limit q̂_k is exactly zero.

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
from attsvm.errors import AttsvmError
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
