"""Starting points, step lengths and barrier weights of the entrywise interior-point methods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attsvm.solvers.power.duality import Array, Mask


class Continuation(NamedTuple):
    """Continuation in an exponent r ≥ 2: r begins at start, then r − 1 grows by a factor.

    flattest is the least slope of r > 2 in the primal linear system, in units of the largest: a
    small one follows the graph closely, a larger one keeps the system better conditioned.
    """

    start: float
    growth: float
    flattest: float


def longest(x: Array, dx: Array, on: Mask) -> float:
    """Returns the largest a ≤ 1e3 with x + a dx ≥ 0 on the masked entries."""
    return 1.0 / float(np.max(-dx[on] / x[on], initial=1e-3))


def affine(lam: Array, s: Array, dlam: Array, ds: Array, on: Mask) -> tuple[float, Array | float]:
    """Returns (share of μ to keep, second-order term dλ ds) from the direction aimed at μ = 0.

    The share is the cube of the decrease that the direction reaches, within [1e-3, 0.8]. After a
    short step the second-order term says little and is left out.

    Theory: the predictor and corrector of [mehrotra1992interior].
    """
    a = min(1.0, longest(lam, dlam, on), longest(s, ds, on))
    before = float(lam[on] @ s[on])
    after = float((lam + a * dlam)[on] @ (s + a * ds)[on])
    keep = min(0.8, max((after / before) ** 3, 1e-3)) if before > 0.0 else 0.0
    return keep, dlam * ds if a > 0.2 else 0.0


def centred(slack: Array, lam: Array, margin: Mask, *, share: float) -> tuple[Array, Array]:
    """Returns (λ, s) near the given multipliers and slacks with λ_k s_k = μ on margin rows.

    y = λ/ρ − slack splits into smoothed positive and negative parts whose product is μ/ρ, with ρ
    the typical ratio of a multiplier to a slack.

    Args:
        slack, lam: (k,) of a nearby optimal pair, Σ b λ = 1.
        share: μ.
    """
    rho = float(np.abs(lam).mean()) or 1.0 / max(len(lam), 1)
    y = np.where(margin, np.maximum(lam, 0.0) / rho - np.maximum(slack, 0.0), 0.0)
    # the smaller part comes from the product, free of cancellation
    big = 0.5 * (np.abs(y) + np.sqrt(y * y + 4.0 * share / rho))
    small = (share / rho) / big
    up, down = np.where(y > 0.0, big, small), np.where(y > 0.0, small, big)
    return np.where(margin, rho * up, lam), np.where(margin, down, 1.0)


def patience(error: float) -> int:
    """Returns how many steps may pass without progress: few once rounding may be what is left."""
    return 40 if error > 1e-6 else 10
