"""Ceilings: how large logits can be, from step sizes, weight decay and norms alone.

A rule whose step has norm at most u per unit of lr, with decoupled decay λ, keeps

    ‖θ_t‖ ≤ R_t,    R_{t+1} = (1 − η_t λ) R_t + η_t u,    and R_t ≤ max(R_0, u/λ) for ever.

Normalized mirror descent does so in the dual variable: ‖θ‖_P^(P−1) = ‖u‖_Q. The norm is that of the
rule: Frobenius, spectral, largest entry (also Adam's), ℓP. A logit of a head is then at most

    |scale| (R_Q |x| + r_q) (R_K |y| + r_k)

with |x|, |y| the longest inputs of queries and keys in the matching norm and r those of the biases.
These bounds are elementary: a violation is a fault. Roundings of floats are counted in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from attsvm._utils.arrays import Floats
from attsvm.torch.calls import Call, Projection
from attsvm.torch.optimizers import MirrorDescent, NormalizedGD, SteepestDescent


class StepBound(NamedTuple):
    """What a step does to a norm: R ← kept·R + add, R of ‖·‖_p^power; p = −1: spectral."""

    p: float
    kept: float
    add: float
    power: float = 1.0


SPECTRAL = -1.0
_Lengths = tuple[float, float]  # Euclidean, sum of absolute entries


class WeightPart(NamedTuple):
    """A part of a parameter, by heads: (H, rows, columns). name: what tells parts of one apart.

    A step's norm on a part is at most that on the whole, in each of these norms.
    """

    parameter: Tensor
    name: str
    blocks: Tensor


@dataclass
class Radius:
    """Bounds R (H,) on the norms of a part's blocks, to the bound's power; group −1: never moved.

    slack: what the roundings of a step may add, as a share.
    """

    parameter: Tensor
    group: int
    p: float
    R: Floats
    power: float = 1.0
    slack: float = 0.0


class Bound(NamedTuple):
    """‖block‖_p of each head (H,): at most `now`, and `ever` at the present rates."""

    p: float
    now: Floats
    ever: Floats


class Radii:
    """Bounds on the norms of parameters from the steps of an optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._kept: dict[tuple[int, str], Radius] = {}
        self._homes = {id(x): n for n, g in enumerate(optimizer.param_groups) for x in g["params"]}
        counts = [float(s["step"]) for s in optimizer.state.values() if "step" in s]
        self._steps = int(max(counts, default=0.0))
        self._largest = max((_adam(optimizer, t) for t in range(1, self._steps + 1)), default=0.0)
        self._handle: Any = optimizer.register_step_pre_hook(self._before)

    def close(self) -> None:
        """Listen to the optimizer no more."""
        self._handle.remove()

    def of(self, part: WeightPart) -> Bound | None:
        """The bounds of a part, which is followed from its first use on; None where not known."""
        x, key = part.parameter, (id(part.parameter), part.name)
        if key not in self._kept:
            made = self._start(part)
            if made is None:
                return None
            self._kept[key] = made
        one = self._kept[key]
        if one.group < 0:
            return Bound(one.p, one.R, one.R)
        bound = self._bound(one.group, x)
        if bound is None or bound.p != one.p:
            return None
        slack = 1 + one.slack
        # The fixed point of R ← (kept R + add)(1 + slack), with the largest steps still to come.
        bound = self._bound(one.group, x, later=True) or bound
        rest = 1 - bound.kept * slack
        top = bound.add * slack / rest if bound.kept < 1 and rest > 0 else math.inf
        ever = one.R if bound.add == 0 else np.maximum(one.R, top)
        rounded = 1 + torch.finfo(x.dtype).eps
        return Bound(one.p, one.R ** (1 / one.power) * rounded, ever ** (1 / one.power) * rounded)

    def _start(self, part: WeightPart) -> Radius | None:
        x = part.parameter
        if not isinstance(x, torch.nn.Parameter):
            return None
        if id(x) not in self._homes:  # what wants gradients may be moved by something else
            return None if x.requires_grad else Radius(x, -1, 2.0, _norms(part.blocks, 2.0))
        bound = self._bound(self._homes[id(x)], x)
        if bound is None:
            return None
        R = _norms(part.blocks, bound.p) ** bound.power
        slack = _slack(x, dual=bound.power != 1.0)
        return Radius(x, self._homes[id(x)], bound.p, R, bound.power, slack)

    def _bound(self, number: int, x: Tensor, *, later: bool = False) -> StepBound | None:
        largest = self._largest or _adam(self.optimizer, 1)
        if later:
            largest = max(largest, _adam(self.optimizer, None))
        return step_bound(self.optimizer, self.optimizer.param_groups[number], x, largest)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A step is about to be taken."""
        self._steps += 1
        self._largest = max(self._largest, _adam(optimizer, self._steps))
        bounds: dict[tuple[int, bool, torch.dtype], StepBound | None] = {}
        for one in self._kept.values():
            if one.group < 0:
                continue
            x = one.parameter
            key = one.group, x.ndim >= 2, x.dtype
            if key not in bounds:
                bounds[key] = self._bound(one.group, x)
            bound = bounds[key]
            if bound is None or bound.p != one.p or bound.power != one.power:
                one.R = np.full_like(one.R, np.inf)
                continue
            slack = 1 + one.slack
            moved = one.R * (bound.kept * slack) + bound.add * slack
            if one.power == 1.0 and one.slack > 1e-3:
                # A sum is rounded to a number no further from it than the old weight is. (The
                # direction of a step may itself be off by a few roundings.)
                still = one.R + 2.1 * (bound.add + (1 - bound.kept) * one.R)
                moved = np.minimum(moved, still)
            one.R = np.maximum(one.R, moved) if x.grad is None else moved


def step_bound(
    optimizer: Optimizer, group: dict[str, Any], x: Tensor, adam: float
) -> StepBound | None:
    """The bound of a group for a parameter; None where steps are not bounded.

    adam: the largest entry of an update of Adam per unit of lr.
    """
    kind = type(optimizer)  # a subclass may do anything
    lr, decay = float(group.get("lr", 0.0)), float(group.get("weight_decay", 0.0))
    if kind in (SteepestDescent, NormalizedGD):
        norm = group["norm"]
        if norm == "max":
            p = math.inf
        elif norm == "spectral":
            p = SPECTRAL if x.ndim >= 2 else 2.0
        else:
            p = 2.0 if norm == "frobenius" else float(norm[1:])
        return StepBound(p, abs(1 - lr * decay), lr)
    if kind is MirrorDescent:
        if not group["normalized"]:
            return None
        p, kept = float(group["p"]), 1 - lr * decay
        return StepBound(p, kept ** (p - 1), lr, p - 1)
    if kind in (Adam, AdamW):
        if not group["betas"][0] ** 2 < group["betas"][1] or torch.finfo(x.dtype).eps > 1e-6:
            return None
        decoupled = kind is AdamW or group.get("decoupled_weight_decay", False)
        return StepBound(math.inf, abs(1 - lr * decay) if decoupled else 1.0, lr * adam)
    return None


def _adam(optimizer: Optimizer, t: int | None) -> float:
    """The largest |m̂|/√v̂ that Adam's step t can have, or any step, over groups; 0 for others."""
    if type(optimizer) not in (Adam, AdamW):
        return 0.0
    betas = [tuple(float(b) for b in group["betas"]) for group in optimizer.param_groups]
    known = [(b1, b2) for b1, b2 in betas if b1**2 < b2]
    update = _any_update if t is None else lambda b1, b2: _update(b1, b2, t)
    return max((update(b1, b2) for b1, b2 in known), default=0.0)


def _update(b1: float, b2: float, t: int) -> float:
    """By Cauchy and Schwarz m_t² ≤ v_t (1−β₁)²/(1−β₂) Σ_{j<t} (β₁²/β₂)^j."""
    r = b1 * b1 / b2
    total = (1 - r**t) / (1 - r)
    corrected = math.sqrt(1 - b2**t) / (1 - b1**t)
    # v is a sum of about 1/(1 − β₂) rounded terms.
    rounded = 1 + 2.0**-23 * (2 + 1 / (1 - b2))
    return (1 - b1) / math.sqrt(1 - b2) * math.sqrt(total) * corrected * rounded


@cache
def _any_update(b1: float, b2: float) -> float:
    """The largest `_update` of all t: one by one until β₁^t is below rounding, then the limit."""
    last = 1 if b1 == 0 else math.ceil(-37 / math.log(b1))
    first = max(_update(b1, b2, t) for t in range(1, last + 1))
    rounded = 1 + 2.0**-23 * (2 + 1 / (1 - b2))
    limit = (1 - b1) / math.sqrt((1 - b2) * (1 - b1 * b1 / b2)) * rounded
    return max(first, limit * (1 + 1e-12))


def _norms(blocks: Tensor, p: float) -> Floats:
    wide = blocks.detach().double()
    if p == SPECTRAL:
        found = torch.linalg.matrix_norm(wide, 2)
    else:
        found = torch.linalg.vector_norm(wide.reshape(len(wide), -1), ord=p, dim=1)
    out: Floats = found.cpu().numpy()
    return out


def _slack(x: Tensor, *, dual: bool) -> float:
    """What roundings of a step may add to a norm, as a share: those of sums of squares lead.

    dual: of dual variables, which are kept in float32 or better.
    """
    eps = torch.finfo(x.dtype).eps
    if dual:
        eps = min(eps, torch.finfo(torch.float32).eps)
    return 8 * eps * math.sqrt(x.numel())


class Ceiling(NamedTuple):
    """Bounds (H,) on every |scale · q·k| of a call: now, and for ever at these rates and inputs."""

    now: Floats
    ever: Floats


def ceiling_of(call: Call, radii: Radii | None) -> Ceiling | None:
    """The ceiling of a call's logits; None where the steps or the weights are not known."""
    if radii is None or call.inputs is None:
        return None
    x = _lengths(call.inputs[0])
    y = x if call.inputs[1] is call.inputs[0] else _lengths(call.inputs[1])
    found = _single(call, radii, x, y) if call.single is not None else _pair(call, radii, x, y)
    if found is None:
        return None
    kind = call.inputs[0].dtype if call.q is None else call.q.dtype
    rounded = abs(call.scale) * (1 + 16 * torch.finfo(kind).eps) ** 2  # of q, k and their product
    return Ceiling(rounded * found.now, rounded * found.ever)


def _single(call: Call, radii: Radii, x: _Lengths, y: _Lengths) -> Ceiling | None:
    """|y·W x| ≤ ‖W‖ |y| |x|."""
    W = call.single
    found = None if W is None else radii.of(WeightPart(W, "whole", W.reshape(1, len(W), -1)))
    if W is None or found is None:
        return None
    times = x[1] * y[1] if found.p == math.inf else x[0] * y[0] * _euclidean(found.p, W.numel())
    return Ceiling(found.now * times, found.ever * times)


def _pair(call: Call, radii: Radii, x: _Lengths, y: _Lengths) -> Ceiling | None:
    """|q·k| ≤ ‖q‖ ‖k‖, each by its projection; less where one matrix holds both."""
    if call.query is None or call.key is None:
        return None
    key_heads = call.key_heads or call.heads
    q = _side(call.query, radii, call.heads, x)
    k = _side(call.key, radii, key_heads, y)
    if q is None or k is None:
        return None
    many = call.heads // key_heads
    out = [a * np.repeat(b, many) for a, b in zip(q, k, strict=True)]
    joint = _joint(call, radii, x[0], y[0])
    if joint is not None:
        out = [np.minimum(a, b) for a, b in zip(out, joint, strict=True)]
    for extra in call.extra_weights:
        found = radii.of(WeightPart(extra, "extra", extra.reshape(call.heads, -1, 1)))
        if found is None:
            return None
        times = _euclidean(found.p, extra.numel() // call.heads)
        sizes = found.now * times, found.ever * times
        out = [np.maximum(a, b * c) for a, b, c in zip(out, q, sizes, strict=True)]
    return Ceiling(*out)


def _side(M: Projection, radii: Radii, heads: int, x: _Lengths) -> Ceiling | None:
    """‖M x + b‖ ≤ ‖M‖ |x| + ‖b‖ for each head; entries at most R give ‖M x‖ ≤ √rows R |x|₁."""
    blocks, b = M.matrix(heads), M.vector(heads)
    found = radii.of(WeightPart(M.weight, f"{M.rows} {heads}", blocks))
    if found is None:
        return None
    _, rows, columns = blocks.shape
    if found.p == math.inf:
        times = math.sqrt(rows) * x[1]
    else:
        times = _euclidean(found.p, rows * columns) * x[0]
    now, ever = found.now * times, found.ever * times
    if b is not None and M.bias is not None:
        biases = radii.of(WeightPart(M.bias, f"{M.bias_rows} {heads}", b[..., None]))
        if biases is None:
            return None
        times = _euclidean(biases.p, rows)
        now, ever = now + biases.now * times, ever + biases.ever * times
    return Ceiling(now, ever)


def _joint(call: Call, radii: Radii, x: float, y: float) -> Ceiling | None:
    """Of one matrix with blocks (W_Q, W_K) of Frobenius norm R and one bias with norm r:

    |q·k| ≤ R² |x||y|/2 + R r max(|x|, |y|) + r²/2, because a b ≤ (a² + b²)/2.
    """
    Q, K = call.query, call.key
    if Q is None or K is None or Q.weight is not K.weight or Q.bias is not K.bias:
        return None
    H = call.heads
    if (call.key_heads or H) != H:
        return None
    blocks = torch.cat([Q.matrix(H), K.matrix(H)], dim=1)
    R = radii.of(WeightPart(Q.weight, f"joint {H}", blocks))
    if R is None or not 0 < R.p <= 2:
        return None
    r = Bound(2.0, np.zeros(H), np.zeros(H))
    a, b = Q.vector(H), K.vector(H)
    if Q.bias is not None and a is not None and b is not None:
        biases = radii.of(WeightPart(Q.bias, f"joint {H}", torch.cat([a, b], dim=1)[..., None]))
        if biases is None or not 0 < biases.p <= 2:
            return None
        r = biases

    def both(R: Floats, r: Floats) -> Floats:
        return R * R * (x * y / 2) + R * r * max(x, y) + r * r / 2

    return Ceiling(both(R.now, r.now), both(R.ever, r.ever))


def _euclidean(p: float, entries: int) -> float:
    """The most that a Euclidean (or spectral) norm is of an ℓp norm of so many entries."""
    if p == SPECTRAL or p <= 2:
        return 1.0
    return float(entries ** (0.5 - (0.0 if p == math.inf else 1 / p)))


def _lengths(x: Tensor) -> _Lengths:
    """The largest Euclidean length and sum of absolute entries of inputs (…, d)."""
    x = x.detach()
    kind = torch.promote_types(x.dtype, torch.float32)
    long = torch.linalg.vector_norm(x, dim=-1, dtype=kind).max()
    total = torch.linalg.vector_norm(x, ord=1, dim=-1, dtype=kind).max()
    return float(long), float(total)
