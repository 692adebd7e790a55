"""Starting points and step lengths of interior-point methods."""

from __future__ import annotations

import numpy as np

from attsvm.solvers.duality import Array, Mask


def longest(x: Array, dx: Array, on: Mask) -> float:
    """Returns the largest a ≤ 1e3 with x + a dx ≥ 0 on the masked entries."""
    shrink = float(np.max(-dx[on] / x[on], initial=1e-3))
    return 1.0 / shrink


def centred(slack: Array, lam: Array, margin: Mask, *, share: float) -> tuple[Array, Array]:
    """Returns (λ, s) near the given multipliers and slacks with λ_k s_k = μ on margin rows.

    y = λ/ρ − slack splits into smoothed positive and negative parts whose product is μ/ρ, with ρ
    the typical ratio of a multiplier to a slack.

    Args:
        slack, lam: (k,) of a nearby optimal pair, Σ b λ = 1.
        share: μ.
    """
    rho = max(float(np.abs(lam).mean()), 1e-12)
    y = np.where(margin, np.maximum(lam, 0.0) / rho - np.maximum(slack, 0.0), 0.0)
    root = np.sqrt(y * y + 4.0 * share / rho)
    # the smaller part comes from the product, free of cancellation
    big = 0.5 * (np.abs(y) + root)
    small = (share / rho) / big
    up, down = np.where(y > 0.0, big, small), np.where(y > 0.0, small, big)
    return np.where(margin, rho * up, lam), np.where(margin, down, 1.0)
