"""Mirror descent under ‖x‖_P^P/P, entry by entry, kept in the dual variable.

    u = sign(x) |x|^(P−1),    u ← u − η g,    x = sign(u) |u|^(1/(P−1)),    P > 1

u is the state: for P near 1 the power 1/(P−1) is large, x underflows where u does not, and an
update through x would stick at zero. P = 2 is gradient descent.

Normalized mirror descent: u ← u − η g/‖g‖_Q in the dual variable, Q = P/(P − 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.norms.entrywise import power_norm
from attsvm.training.optimizers.gradient_descent import unscaled
from attsvm.training.optimizers.optimizer import (
    MIRROR,
    Blocks,
    Held,
    LaneRule,
    Optimizer,
    State,
    Step,
    arrays_of,
    planes,
)
from attsvm.training.optimizers.steps import Toward, over, unit


def mirror(p: float) -> Optimizer:
    """Mirror descent with the gradient in true scale.

    Theory: on the weight it leads to the entrywise ℓP max margin [julistiono2024mirror].
    """
    made = through_dual(f"mirror:{p:.12g}", unscaled, p)
    return replace(made, dual=(p, True), fused=_rule(p, plain=True))


def through_dual(name: str, toward: Toward, p: float) -> Optimizer:
    """The optimizer u ← u − η D(g) in the dual variable u of exponent P = p.

    Entries of x that are no longer what the last step left there (a projection, a restart) get
    their u anew. Decoupled decay is not defined: it shrinks x, and here u is what adds up.
    """
    if not 1 < p < np.inf:
        raise Unsupported(f"optimizer {name!r} has P = {p:g}: it must be above 1")

    def init(params: Blocks) -> State:
        state: State = {}
        for block, x in params.items():
            state |= {f"{block}.left": x, f"{block}.dual": power(x, p - 1)}
        return state

    def move(step: Step) -> tuple[Blocks, State]:
        new: Blocks = {}
        duals: State = {}
        for block, x in step.params.items():
            left, u = step.state[f"{block}.left"], step.state[f"{block}.dual"]
            if x is not left and not np.array_equal(x, left):
                u = np.where(x == left, u, power(x, p - 1))
            D = toward(step.gradient.direction[block], step.gradient.log_scale[block])
            with np.errstate(invalid="ignore"):  # 0 · inf, for lr = 0
                u = u - over(step.lr, x) * D
            new[block] = power(u, 1 / (p - 1))
            duals |= {f"{block}.left": new[block], f"{block}.dual": u}
        return new, duals

    return Optimizer(name, init, move, decays=False, limit=name)


def _rule(p: float, *, plain: bool) -> LaneRule:
    """The rule of the kernel, which holds u."""

    def pack(state: State, W: Floats, z: Floats) -> Held:
        u = np.where(state["left"] == W, state["dual"], power(W, p - 1))
        return planes(u), np.zeros(len(W), np.int64)

    def unpack(held: Held, W: Floats, z: Floats, count: int) -> State:
        return {"left": W.copy(), "dual": arrays_of(held[0], W)[0]}

    return LaneRule(MIRROR, (p, float(plain), 0.0), pack, unpack)


def power(x: Floats, exponent: float) -> Floats:
    """sign(x) |x|^exponent, ±inf where it leaves the range of floats."""
    with np.errstate(over="ignore"):
        return np.sign(x) * np.abs(x) ** exponent


def nmirror(p: float) -> Optimizer:
    """Mirror descent by the dual norm of each block; P = 2 is normalized gradient descent.

    `norm` is None: the step in u has dual norm η, but the step in x depends on where x is.
    """

    def toward(G: Floats, log_scale: Floats) -> Floats:
        size = np.asarray(power_norm(G.reshape(len(G), 1, -1), p / (p - 1)))
        return unit(G, size, log_scale)

    made = through_dual(f"nmirror:{p:.12g}", toward, p)
    return replace(made, dual=(p, False), fused=_rule(p, plain=False))
