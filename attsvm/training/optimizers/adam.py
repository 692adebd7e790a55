"""Adam: x ← x − η m̂/(√v̂ + ε), entry by entry, with ε = 0 allowed.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   m̂ = m/(1 − β₁ᵗ),   v̂ = v/(1 − β₂ᵗ)

The state is log √v and the ratio r = m/√v of each entry. The ratio is bounded when β₁² ≤ β₂ and
the logarithm never underflows, so with ε = 0 the optimizer does not notice the scale of the
gradient:

    log √v' = ½ log(e^(log β₂ + 2 log √v) + e^(log(1 − β₂) + 2 log |g|))
    r' = β₁ r √v/√v' + (1 − β₁) g/√v'

Entries whose v is zero do not move.
"""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.training.optimizers.graded.wide import logs_of
from attsvm.training.optimizers.optimizer import (
    ADAM,
    Blocks,
    Gradient,
    Held,
    LaneRule,
    Optimizer,
    State,
    Step,
    arrays_of,
    planes,
)
from attsvm.training.optimizers.steps import entries_of, log, log_of, over


def adam(*, beta1: float = 0.9, beta2: float = 0.999, eps: float = 0.0) -> Optimizer:
    """Adam with bias correction; ε is in the gradient's true scale.

    Theory: with ε = 0 on separable linear models the limit is the max-margin solution in the
    largest entry [zhang2024adam].
    """
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and beta1**2 <= beta2):
        raise Unsupported(
            f"adam has β₁ = {beta1}, β₂ = {beta2}: both must lie in [0, 1), with β₁² ≤ β₂ "
            "(else its steps are not bounded)"
        )
    if not 0 <= eps < np.inf:
        raise Unsupported(f"adam has ε = {eps}: it must be finite and not negative")
    keep, add = log_of(beta2) / 2, math.log1p(-beta2) / 2

    def init(params: Blocks) -> State:
        state: State = {"count": np.int64(0)}
        for block, x in params.items():
            state |= {f"{block}.ratio": np.zeros_like(x), f"{block}.log": np.full_like(x, -np.inf)}
        return state

    def move(step: Step) -> tuple[Blocks, State]:
        # Counted here, not by step.count: a run that goes on with a fresh state starts at 1.
        t = int(step.state["count"]) + 1
        if t < 1:
            raise Unsupported(f"the state of adam counts {t - 1} steps: it is damaged")
        bias1, bias2 = 1 - beta1**t, 1 - beta2**t
        new: Blocks = {}
        after: State = {"count": np.int64(t)}
        for block, x in step.params.items():
            ratio, log_root = step.state[f"{block}.ratio"], step.state[f"{block}.log"]
            G, size = _sized(step.gradient, block)
            root = np.logaddexp(2 * (log_root + keep), 2 * (size + add)) / 2
            base = np.where(root == -np.inf, 0.0, root)
            ratio = beta1 * ratio * np.exp(log_root - base)
            ratio = ratio + (1 - beta1) * np.sign(G) * np.exp(size - base)
            D = ratio * (np.sqrt(bias2) / bias1)
            if eps > 0:
                # √v̂/(√v̂ + ε) = 1/(1 + e^(log ε − log √v̂))
                D = D * np.exp(-np.logaddexp(0.0, np.log(eps) - (base - np.log(bias2) / 2)))
            new[block] = x - over(step.lr, x) * D
            after |= {f"{block}.ratio": ratio, f"{block}.log": root}
        return new, after

    rule = LaneRule(ADAM, (beta1, beta2, eps), _pack, _unpack)
    return Optimizer("adam", init, move, graded=True, fused=rule, limit="adam")


def _pack(state: State, W: Floats, z: Floats) -> Held:
    return planes(state["ratio"], state["log"]), np.zeros(len(W), np.int64)


def _unpack(held: Held, W: Floats, z: Floats, count: int) -> State:
    ratio, log_root = arrays_of(held[0], W)
    return {"count": np.int64(count), "ratio": ratio, "log": log_root}


def _sized(gradient: Gradient, block: str) -> tuple[Floats, Floats]:
    """Numbers with the sign of each entry of g, and log |g|."""
    G, terms = gradient.direction[block], gradient.graded.get(block)
    if terms is None:
        return G, log(np.abs(G)) + over(gradient.log_scale[block], G)
    share, power = entries_of(G, gradient.log_scale[block], terms)
    return share, logs_of(share, power)
