"""The two bounds of a certificate, rounded the safe way, for one problem or a stack of them.

Every argument may carry a leading stack axis B. The rounding errors are those of the standard
model: a sum of k products errs by at most k + 1 units of the sum of absolute values.

Theory: [higham2002accuracy].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.norms import Norm
from attsvm.norms.norm import UNIT

# A residual of this many times its rounding bound still counts as zero in a proof.
_RESIDUAL = 4.0


@dataclass(frozen=True)
class Below:
    """A lower bound `value`; `dual` the plain dual norm; `residual` ‖A*λ‖_F / Σ λ‖Δ‖‖z‖.

    `null`: the residual is rounding alone and the numerator positive, so no W exists.
    """

    value: Any
    dual: Any
    residual: Any
    null: Any


def below(
    norm: Norm, shape: tuple[int, int], *, worth: Any, absolute: Any, size: Any, used: Any, G: Any
) -> Below:
    """lower = (Σ bλ + Σ cμ)/‖G‖_dual with G = A*λ + C*μ.

    worth: the numerator; absolute: the sum of its absolute terms; size: Σ |λ|‖Δ‖‖z‖; used: how
    many multipliers are not zero. The difference Δ, the products and a later scaling of λ add five
    units to each entry of G.
    """
    worth = worth - (used + 3) * UNIT * absolute * 1.01
    error = (used + 8) * UNIT * size * 1.01
    plain = np.sqrt(np.einsum("...ij,...ij->...", G, G))
    dual = norm.dual(G)
    safe = dual * (1 + norm.rounding(shape)) + norm.spread(shape)[1] * error
    positive = worth > 0
    value = np.where(positive, worth * (1 - 4 * UNIT) / np.where(safe > 0, safe, 1.0), 0.0)
    value = np.where(positive & (safe == 0), np.inf, value)
    residual = plain / np.where(size > 0, size, 1.0)
    return Below(value, dual, residual, positive & (plain <= _RESIDUAL * error))


def worst_margin(shape: tuple[int, int], W: Any, *, margins: Any, row_norms: Any, b: Any) -> Any:
    """The least margin over b, rounded down; all b positive. Not positive: W is not feasible.

    Each margin is a sum of d·dq products taken as two dot products from a rounded Δ; two more
    units for a scaling of W afterwards.
    """
    d, dq = shape
    plain = np.sqrt(np.einsum("...ij,...ij->...", W, W))
    error = (d + dq + 7) * UNIT * 1.01 * plain
    return ((margins - error[..., None] * row_norms) / b).min(axis=-1)


def above(norm: Norm, shape: tuple[int, int], W: Any, worst: Any) -> Any:
    """upper = ‖W‖/worst for a positive worst margin, inf otherwise."""
    feasible = worst > 0
    value = norm.value(W) * (1 + norm.rounding(shape)) / np.where(feasible, worst, 1.0)
    return np.where(feasible, value * (1 + 8 * UNIT), np.inf)
