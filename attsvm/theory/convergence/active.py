"""The active set of the max-margin problem, verified, and with it the exact solution Ŵ.

For a set C of rows with a nonsingular Gram matrix G, λ = G⁻¹1 > 0 and slack_k = ⟨a_k, Ŵ⟩ − 1 > 0 on
all other rows, Ŵ = Σ_C λ_k a_k is the solution, by its KKT conditions, and the rows of C are
the tight ones. With an approximate inverse M of G and δ ≥ ‖I − MG‖_∞ below 1, the solution x of
G x = r lies within ‖M(r − G x°)‖_∞ / (1 − δ) of any x°: so λ, Ŵ and every slack are enclosed, and
the set is proved to be the active one although it was found in floats.

A row outside C may be tight only where its limit q̂_k is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
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


def verified(rows: Rows, guess: Ints, *, settle: bool = True) -> Active:
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
        raise NotVerified(f"the multiplier of {named(rows, k)} is not known to be positive", k)
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
            f"{named(rows, k)} has slack {slack.mid[k]:.1e} without a multiplier: the tight rows "
            "are dependent, or nearly",
            k,
        )


def named(rows: Rows, k: int) -> str:
    """The row in words."""
    return f"token {int(rows.places[k])} of input {int(rows.inputs[k])}"


def not_good(rows: Rows, k: int) -> str:
    """Why a tight row whose pull is not known to be positive stands in the way."""
    if not rows.zero[k] and rows.pull.limit.hi[k] >= 0:
        return f"{named(rows, k)} is tight, and its pull is too near to 0 to have a sign"
    what = "as much as" if rows.zero[k] else "more than"
    return (
        f"the selection is not locally optimal: {named(rows, k)} is tight and scores {what} the "
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
