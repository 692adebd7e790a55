"""Interior point for soft margins in the nuclear and the spectral norm.

    min ½t² + Σ cap_k ξ_k   s.t.  A(W) + ξ − s = b,  ξ, s ≥ 0 on margins, zero on ties

with P and Q of `cone.py`, except that both sides now share the size t of W:

    nuclear     P = [X₁ W; Wᵀ X₂],   Q = ½[tI −M; −Mᵀ tI],      t = ½ tr P
    spectral    P = [tI W; Wᵀ tI],   Q = [Y₁ −½M; −½Mᵀ Y₂],     t = tr Q

and PQ = 0, λs = 0, (cap − λ)ξ = 0. A step is Mehrotra's predictor and corrector, one step length
for all variables, as t ties the two sides together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.solvers.cone.interior_point import (
    CORRECTORS,
    MOST_STEPS,
    NUCLEAR,
    PATIENCE,
    ConeNorm,
    ConeState,
    Newton,
    NewtonStep,
    off_diagonal,
    place,
    symmetric,
)
from attsvm.solvers.unit_rows import BestPair, SoftRows

# The start keeps off the boundary: singular values of W, t above ‖W‖ and above ‖A*λ‖_dual.
SPREAD = 0.2
LIFT = 1.2


@dataclass(frozen=True)
class BoxedMultipliers:
    """Positive variables of a barrier method: λ and s, spare = cap − λ and ξ, all (k,).

    On the central path λs = spare·ξ = weight; both are 1 on ties, where nothing is bounded.
    """

    lam: Floats
    s: Floats
    spare: Floats
    xi: Floats


def boxed(soft: SoftRows, lam: Floats, slack: Floats, *, weight: float) -> BoxedMultipliers:
    """Variables near λ (k,) and slack = A(W) − b (k,), every product at least about `weight`."""
    held = soft.held
    cap = np.where(held, soft.cap, 2.0)
    over, under = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
    near = np.sqrt(weight)
    least = np.minimum(weight / np.maximum(over, near), 0.5 * cap)
    spare = np.minimum(weight / np.maximum(under, near), 0.5 * cap)
    # A small distance to the cap is set, not taken as a difference, which would lose it.
    high = lam > cap - spare
    inside = np.where(high, cap - spare, np.maximum(lam, least))
    room = np.where(high, spare, cap - inside)
    s, xi = np.maximum(over, weight / inside), np.maximum(under, weight / room)
    return BoxedMultipliers(
        np.where(held, inside, lam), *(np.where(held, x, 1.0) for x in (s, room, xi))
    )


def soft_interior_point(
    soft: SoftRows, *, cone: ConeNorm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """Best (W, λ) found: (dx, dz) and (k,); stops at relative gap `tol` or at rounding level.

    W0, lam0: the Frobenius optimum (norm one) and its multipliers, where the search starts.
    """
    rows, dx, stale = soft.rows, W0.shape[0], 0
    best = soft.best(W0, lam0)
    # A breakdown of the linear algebra is rounding level: what was found until then stands.
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        state, box = _start(soft, best, cone)
        for _ in range(MOST_STEPS):
            if best.gap <= tol or stale > PATIENCE:
                break
            state, box = _advance(soft, state, box, cone.factor(rows, state, squared=True))
            old = best.gap
            best = soft.judged(best, state.P[:dx, dx:], box.lam)
            stale = 0 if best.gap < old else stale + 1
    return best.W, best.lam


def _start(soft: SoftRows, best: BestPair, cone: ConeNorm) -> tuple[ConeState, BoxedMultipliers]:
    """An interior state at W and λ of `best`, products near the average of their gap."""
    W, rows = best.W, soft.rows
    dx, dz = W.shape
    count = dx + dz + 2 * int(soft.held.sum())
    weight = max(best.upper - best.lower, 0.1) / count
    box = boxed(soft, best.lam, rows.values(W) - rows.b, weight=weight)
    M = rows.adjoint(box.lam)
    least = LIFT * float(soft.norm.dual(M))
    if cone is NUCLEAR:
        U, sigma, Vt = np.linalg.svd(W)
        P = off_diagonal(W) + _blocks(U, sigma, Vt, lambda x: np.hypot(x, SPREAD))
        t = max(0.5 * float(np.trace(P)), least)
        Q = 0.5 * (t * np.eye(dx + dz) - off_diagonal(M))
    else:
        t = LIFT * float(soft.norm.value(W))
        P = t * np.eye(dx + dz) + off_diagonal(W)
        U, sigma, Vt = np.linalg.svd(M)
        spare = (max(t, least) - float(sigma.sum())) / (dx + dz)
        Q = off_diagonal(-0.5 * M) + _blocks(U, sigma, Vt, lambda x: 0.5 * x + spare)
    return _placed(soft, P, Q, box), box


def _blocks(U: Floats, sigma: Floats, Vt: Floats, change: Callable[[Floats], Floats]) -> Floats:
    """[U f(σ) Uᵀ 0; 0 V f(σ) Vᵀ], σ padded with zeros."""
    dx, dz = len(U), len(Vt)
    left, right = np.zeros(dx), np.zeros(dz)
    left[: sigma.size] = right[: sigma.size] = sigma
    out = np.zeros((dx + dz, dx + dz))
    out[:dx, :dx] = (U * change(left)) @ U.T
    out[dx:, dx:] = (Vt.T * change(right)) @ Vt
    return out


def _placed(soft: SoftRows, P: Floats, Q: Floats, box: BoxedMultipliers) -> ConeState:
    """The state whose ratio is s/λ + ξ/(cap − λ) on margins."""
    free = soft.rows.free
    state = place(P, Q, lam=box.lam, slack=np.where(free, 0.0, box.s), free=free)
    ratio = np.where(free, 0.0, box.s / np.where(free, 1.0, box.lam) + box.xi / box.spare)
    return replace(state, ratio=ratio)


def _advance(
    soft: SoftRows, state: ConeState, box: BoxedMultipliers, newton: Newton
) -> tuple[ConeState, BoxedMultipliers]:
    """Next iterate: predictor, then correctors for as long as they lengthen the step."""
    rows, held = soft.rows, soft.held
    P, Q, spectrum, root = state.P, state.Q, state.spectrum, np.sqrt(state.spectrum)
    N, dx, k = P.shape[0], rows.D.shape[1], len(held)
    both = np.concatenate([held, held])
    # λ and cap − λ in one vector, s and ξ in another.
    X = np.where(both, np.concatenate([box.lam, box.spare]), 1.0)
    Y = np.concatenate([box.s, box.xi])
    residual = rows.b + np.where(held, box.s - box.xi, 0.0) - rows.values(P[:dx, dx:])
    total = float(spectrum @ spectrum) + float(X[both] @ Y[both])
    count = N + int(both.sum())
    mean = 0.5 * (spectrum[:, None] + spectrum)

    def direction(
        aim: float, cross: Floats, product: Floats
    ) -> tuple[NewtonStep, Floats, Floats, float]:
        target = -cross / mean
        target[np.diag_indices(N)] += aim / spectrum - spectrum
        linear = np.where(both, (aim - product) / X - Y, 0.0)
        move = newton(target, residual + linear[:k] - linear[k:])
        dX = np.where(both, np.concatenate([move.lam, -move.lam]), 0.0)
        dY = np.where(both, linear - Y / X * dX, 0.0)
        fall = max(1e-3, float((-dX / X).max(initial=0.0)), float((-dY / Y).max(initial=0.0)))
        for scaled in (move.scaled_P, move.scaled_Q):
            least = np.linalg.eigvalsh(symmetric(scaled / (root[:, None] * root)))[0]
            fall = max(fall, -float(least))
        return move, dX, dY, 1.0 / fall

    move, dX, dY, a = direction(0.0, np.zeros((N, N)), np.zeros(2 * k))
    a = min(1.0, a)
    after = float(np.vdot(P + a * move.P, Q + a * move.Q))
    after += float((X + a * dX)[both] @ (Y + a * dY)[both])
    aim = total / count * min(1.0, max(0.01, after / total)) ** 3
    a = 0.0
    for _ in range(CORRECTORS):
        trial = direction(aim, symmetric(move.scaled_P @ move.scaled_Q), dX * dY)
        if min(1.0, trial[3]) < min(1.0, a):
            break
        move, dX, dY, a = trial
    a = min(1.0, (0.9 + 0.09 * min(1.0, a)) * a)
    X, Y = X + a * dX, Y + a * dY
    box = BoxedMultipliers(np.where(held, X[:k], box.lam + a * move.lam), Y[:k], X[k:], Y[k:])
    P, Q = symmetric(P + a * move.P), symmetric(Q + a * move.Q)
    return _placed(soft, P, Q, box), box
