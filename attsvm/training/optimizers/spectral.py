"""Spectral descent: x ← x − η U Vᵀ, the steepest descent in the largest singular value.

Muon: x ← x − η U Vᵀ of m = U Σ Vᵀ, m the running average of gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import norm_of
from attsvm.norms.norm import UNIT
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import NONE, of_logs
from attsvm.training.optimizers.gradient_descent import normalized
from attsvm.training.optimizers.optimizer import (
    POLAR,
    Held,
    LaneRule,
    Optimizer,
    State,
    unheld,
)
from attsvm.training.optimizers.steps import Average, averaged, by_terms, memoryless, over, whole

# The odd polynomial a σ + b σ³ + c σ⁵ that Muon applies to the singular values, and how often.
_NEWTON_SCHULZ, _ROUNDS = (3.4445, -4.7750, 2.0315), 5


def exact(G: Floats, log_scale: Floats) -> Floats:
    """U Vᵀ of g = U Σ Vᵀ over its nonzero singular values; g/‖g‖ for a block of vectors (B, d).

    For gradients without a graded form. Singular values below the rounding of the largest one are
    taken as zero: their vectors are noise, and U Vᵀ would give the noise the length of the signal.
    """
    if G.ndim == 2:
        return normalized(G, log_scale)
    return norm_of("spectral").dual_maximizer(np.where(over(log_scale == -np.inf, G), 0.0, G))


def approximate(G: Floats, log_scale: Floats) -> Floats:
    """U f(Σ) Vᵀ by matrix products only, f(σ) near 1: Muon's five rounds of Newton–Schulz.

    With X = g/‖g‖, five times X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X. Singular values of X above
    about 0.01 end between 0.65 and 1.25, smaller ones are cut short, zero stays zero. Vectors
    are normalized exactly.
    """
    X = normalized(G, log_scale)
    if G.ndim == 2:
        return X
    tall = X.shape[-2] > X.shape[-1]
    X = X.swapaxes(-1, -2) if tall else X
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_ROUNDS):
        A = X @ X.swapaxes(-1, -2)
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.swapaxes(-1, -2) if tall else X


def finely(terms: Graded) -> Floats:
    """U Vᵀ over every singular value that the terms have, however small it is."""
    return terms.direction() if terms.right.shape[2] == 1 else terms.resolved()[0]


def terms_of(G: Floats, log_scale: Floats) -> Graded:
    """g as the terms σ u vᵀ of its singular values above the rounding of the largest."""
    U, s, Vt = np.linalg.svd(np.where(over(log_scale == -np.inf, G), 0.0, G), full_matrices=False)
    live = s > s[:, :1] * 4 * UNIT * sum(G.shape[1:])
    number = np.arange(s.shape[1])
    x = of_logs(np.where(live, s, 0.0), np.broadcast_to(log_scale[:, None], s.shape))
    return Graded(np.ascontiguousarray(U.swapaxes(1, 2)), Vt, number, number, *x)


def spectral(*, newton_schulz: bool = False) -> Optimizer:
    """Spectral descent: the largest singular value of every step is η, unless approximated."""
    if newton_schulz:
        made = memoryless("spectral", approximate)
    else:
        made = memoryless("spectral", exact, norm="spectral", finely=finely)
        made = replace(made, fused=unheld(POLAR, 0.0, width=lambda W, z: z.shape[1] * W.shape[1]))
    return replace(made, limit="spectral")


def muon(*, momentum: float = 0.95, newton_schulz: bool = False) -> Optimizer:
    """Spectral descent with this momentum β; β = 0 is spectral descent.

    The singular vectors are exact; newton_schulz=True takes the usual approximation.

    Theory: on linear multiclass models the limit is the spectral max margin [fan2025spectral].
    """

    def average(ndim: int) -> Average:
        if newton_schulz:
            return whole(approximate)
        return whole(normalized) if ndim == 2 else by_terms(terms_of)

    made = averaged("muon", average, momentum, graded=not newton_schulz)
    rule = None if newton_schulz else LaneRule(POLAR, (momentum, 0.0, 0.0), _pack, _unpack, True)
    return replace(made, fused=rule, limit="muon")


def _pack(state: State, W: Floats, z: Floats) -> Held:
    """The c_i (n, d) of m = Σ_i c_i z_iᵀ over one power of two, where the bases are such vectors.

    Those of `_unpack` are; those of a step in graded form are not.
    """
    B, n, dq = z.shape
    d = W.shape[1]
    none = np.full((B, n * d), np.nan), np.zeros(B, np.int64)
    if n > min(d, dq) or "share" not in state:
        return none
    X, Y, share, power = (state[name] for name in ("left", "right", "share", "power"))
    c, top = X[:, :n].reshape(B, -1).copy(), power[:, 0, 0] - 1
    new = (share == 0).all(axis=(1, 2))
    own = (Y[:, :n] == z).all(axis=(1, 2)) & (share == _live(n, d, dq)).all(axis=(1, 2))
    c[new], top[new] = 0.0, NONE
    c[~(new | own)] = np.nan
    return c, top


def _unpack(held: Held, W: Floats, z: Floats, count: int) -> State:
    B, d, dq = W.shape
    n = z.shape[1]
    live = (held[0] != 0).any(axis=1)
    state: State = {
        "left": np.zeros((B, d, d)),
        "right": np.zeros((B, dq, dq)),
        "share": np.zeros((B, d, dq)),
        "power": np.zeros((B, d, dq), np.int64),
    }
    state["left"][live, :n] = held[0][live].reshape(-1, n, d)
    state["right"][live, :n] = z[live]
    state["share"][live] = _live(n, d, dq)
    state["power"][live] = (held[1][live] + 1)[:, None, None]
    return state


def _live(n: int, d: int, dq: int) -> Floats:
    """½ for the first n entries of the diagonal of (d, dq), 0 elsewhere."""
    return 0.5 * np.eye(d, dq) * (np.arange(dq) < n)
