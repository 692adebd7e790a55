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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from attsvm.torch.calls import Call, Projection
from attsvm.torch.mirror import MirrorDescent
from attsvm.torch.steepest import NormalizedGD, SteepestDescent


class Law(NamedTuple):
    """What a step does to a norm: R ← kept·R + add, R of ‖·‖_p^power; p = −1: spectral."""

    p: float
    kept: float
    add: float
    power: float = 1.0


SPECTRAL = -1.0


@dataclass
class Radius:
    """A parameter, the number of its group, and a bound on its norm to the law's power."""

    parameter: Tensor
    group: int
    p: float
    R: float
    power: float = 1.0

    def norm(self) -> float:
        """The bound on the norm now."""
        return _root(self.R, self.power, self.parameter)


class Radii:
    """Bounds on the norms of parameters from the steps of an optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._kept: dict[int, Radius] = {}
        self._homes = {id(x): n for n, g in enumerate(optimizer.param_groups) for x in g["params"]}
        counts = [float(s["step"]) for s in optimizer.state.values() if "step" in s]
        self._steps = int(max(counts, default=0.0))
        self._largest = max((_adam(optimizer, t) for t in range(1, self._steps + 1)), default=0.0)
        self._handle: Any = optimizer.register_step_pre_hook(self._before)

    def close(self) -> None:
        """Listen to the optimizer no more."""
        self._handle.remove()

    def follow(self, parameters: Iterable[Tensor]) -> None:
        """Follow parameters from where they are, if they are not followed already."""
        for x in parameters:
            if id(x) in self._kept or not isinstance(x, torch.nn.Parameter):
                continue
            if id(x) not in self._homes:
                if not x.requires_grad:  # else something else may move it
                    self._kept[id(x)] = Radius(x, -1, 2.0, _norm(x, 2.0))
                continue
            n = self._homes[id(x)]
            law = self._law(n, x)
            if law is not None:
                R = _norm(x, law.p) ** law.power
                self._kept[id(x)] = Radius(x, n, law.p, R, law.power)

    def of(self, x: Tensor) -> tuple[float, float, float] | None:
        """(p, bound on the norm now, bound for ever at the present rates); None where unknown."""
        one = self._kept.get(id(x))
        if one is None:
            return None
        if one.group < 0:
            return one.p, one.R, one.R
        law = self._law(one.group, x)
        if law is None or law.p != one.p:
            return None
        slack = 1 + (_slack(x) if one.power == 1.0 else _dual_slack(x))
        # The fixed point of R ← (kept R + add)(1 + slack).
        rest = 1 - law.kept * slack
        top = law.add * slack / rest if law.kept < 1 and rest > 0 else math.inf
        ever = one.R if law.add == 0 else max(one.R, top)
        return one.p, one.norm(), _root(ever, one.power, x)

    def _law(self, number: int, x: Tensor) -> Law | None:
        largest = self._largest or _adam(self.optimizer, 1)
        return law_of(self.optimizer, self.optimizer.param_groups[number], x, largest)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A step is about to be taken."""
        self._steps += 1
        self._largest = max(self._largest, _adam(optimizer, self._steps))
        for one in self._kept.values():
            if one.group < 0:
                continue
            law = self._law(one.group, one.parameter)
            if law is None or law.p != one.p or law.power != one.power:
                one.R = math.inf
                continue
            slack = _slack if one.power == 1.0 else _dual_slack
            moved = (law.kept * one.R + law.add) * (1 + slack(one.parameter))
            if one.power == 1.0:
                # A sum is rounded to a number no further from it than the old weight is.
                # (The direction of a step may itself be off by a few roundings.)
                still = one.R + 2.1 * (law.add + (1 - law.kept) * one.R)
                moved = min(moved, still)
            one.R = max(one.R, moved) if one.parameter.grad is None else moved


def law_of(optimizer: Optimizer, group: dict[str, Any], x: Tensor, adam: float) -> Law | None:
    """The law of a group for a parameter; None where steps are not bounded.

    adam: the largest entry of an update of Adam per unit of lr.
    """
    kind = type(optimizer)  # a subclass of one's own may do anything
    lr, decay = float(group.get("lr", 0.0)), float(group.get("weight_decay", 0.0))
    if kind in (SteepestDescent, NormalizedGD):
        norm = group["norm"]
        if norm == "max":
            p = math.inf
        elif norm == "spectral":
            p = SPECTRAL if x.ndim >= 2 else 2.0
        else:
            p = 2.0 if norm == "frobenius" else float(norm[1:])
        return Law(p, abs(1 - lr * decay), lr)
    if kind is MirrorDescent:
        if not group["normalized"]:
            return None
        p, kept = float(group["p"]), 1 - lr * decay
        return Law(p, kept ** (p - 1), lr, p - 1)
    if kind in (Adam, AdamW):
        if not group["betas"][0] ** 2 < group["betas"][1] or torch.finfo(x.dtype).eps > 1e-6:
            return None
        decoupled = kind is AdamW or group.get("decoupled_weight_decay", False)
        return Law(math.inf, abs(1 - lr * decay) if decoupled else 1.0, lr * adam)
    return None


def _adam(optimizer: Optimizer, t: int) -> float:
    """The largest |m̂|/√v̂ that Adam's step t can have, over groups; 0 for other optimizers.

    By Cauchy and Schwarz m_t² ≤ v_t (1−β₁)²/(1−β₂) Σ_{j<t} (β₁²/β₂)^j.
    """
    if type(optimizer) not in (Adam, AdamW):
        return 0.0
    top = 0.0
    for group in optimizer.param_groups:
        b1, b2 = (float(b) for b in group["betas"])
        if not b1**2 < b2:
            continue
        r = b1 * b1 / b2
        total = (1 - r**t) / (1 - r)
        corrected = math.sqrt(1 - b2**t) / (1 - b1**t)
        # v is a sum of about 1/(1 − β₂) rounded terms.
        rounded = 1 + 2.0**-23 * (2 + 1 / (1 - b2))
        bound = (1 - b1) / math.sqrt(1 - b2) * math.sqrt(total) * corrected
        top = max(top, bound * rounded)
    return top


def _norm(x: Tensor, p: float) -> float:
    wide = x.detach().double()
    if p == SPECTRAL:
        return float(torch.linalg.matrix_norm(wide.reshape(len(wide), -1), 2))
    return float(torch.linalg.vector_norm(wide, ord=p))


def _slack(x: Tensor) -> float:
    """What roundings of a step may add to a norm, as a share: those of sums of squares lead."""
    return 8 * torch.finfo(x.dtype).eps * math.sqrt(x.numel())


def _dual_slack(x: Tensor) -> float:
    """The same for dual variables, which are kept in float32 or better."""
    eps = min(torch.finfo(x.dtype).eps, torch.finfo(torch.float32).eps)
    return 8 * eps * math.sqrt(x.numel())


def _root(R: float, power: float, x: Tensor) -> float:
    return R ** (1 / power) * (1 + torch.finfo(x.dtype).eps)


class Ceiling(NamedTuple):
    """Bounds on every |scale · q·k| of a call: now, and for ever at these rates and inputs."""

    now: float
    ever: float


def ceiling_of(call: Call, radii: Radii | None) -> Ceiling | None:
    """The ceiling of a call's logits; None where the steps or the weights are not known."""
    if radii is None or call.inputs is None:
        return None
    radii.follow(_parameters(call))
    x = _lengths(call.inputs[0])
    y = x if call.inputs[1] is call.inputs[0] else _lengths(call.inputs[1])
    both = [_bound(call, radii, which, (x, y)) for which in (1, 2)]
    if any(b is None for b in both):
        return None
    kind = call.inputs[0].dtype if call.q is None else call.q.dtype
    rounded = abs(call.scale) * (1 + 16 * torch.finfo(kind).eps) ** 2  # of q, k and their product
    now, ever = (rounded * b for b in both if b is not None)
    return Ceiling(now, ever)


def _parameters(call: Call) -> list[Tensor]:
    parts = [call.single, *call.extra_weights]
    for M in (call.query, call.key):
        if M is not None:
            parts += [M.weight, M.bias]
    return [x for x in parts if x is not None]


_Lengths = tuple[float, float]


def _bound(
    call: Call, radii: Radii, which: int, lengths: tuple[_Lengths, _Lengths]
) -> float | None:
    """A bound on |q·k| for inputs of these lengths; which: 1 for now, 2 for ever."""
    x, y = lengths
    if call.single is not None:
        found = radii.of(call.single)
        if found is None:
            return None
        p, R = found[0], found[which]
        if p == math.inf:
            return R * x[1] * y[1]
        return _euclidean(p, call.single.numel()) * R * x[0] * y[0]
    if call.query is None or call.key is None:
        return None
    q, k = (
        _side(M, radii, which, heads)
        for M, heads in ((call.query, call.heads), (call.key, call.key_heads or call.heads))
    )
    if q is None or k is None:
        return None
    product = q.of(x) * k.of(y)
    if call.query.weight is call.key.weight and q.joint and k.joint:
        # Parts of one matrix of Frobenius norm R, and of one bias of norm r: a b ≤ (a² + b²)/2.
        R, r = q.R, q.r
        product = min(product, R * R * x[0] * y[0] / 2 + R * r * max(x[0], y[0]) + r * r / 2)
    for extra in call.extra_weights:
        found = radii.of(extra)
        if found is None:
            return None
        entries = extra.numel() // call.heads
        size = _euclidean(found[0], entries) * found[which]
        product = max(product, q.of(x) * size)
    return product


class _Side(NamedTuple):
    """‖M x + b‖ ≤ R |x| + r, |x| Euclidean, or the sum of entries where `sums`."""

    R: float
    r: float
    sums: bool
    joint: bool

    def of(self, lengths: _Lengths) -> float:
        return self.R * lengths[1 if self.sums else 0] + self.r


def _side(M: Projection, radii: Radii, which: int, heads: int) -> _Side | None:
    found = radii.of(M.weight)
    if found is None:
        return None
    p, R = found[0], found[which]
    _, rows, columns = M.matrix(heads).shape
    r, joint = 0.0, p != SPECTRAL and p <= 2
    if M.bias is not None:
        told = radii.of(M.bias)
        if told is None:
            return None
        r = _euclidean(told[0], rows) * told[which]
        joint = joint and 0 < told[0] <= 2
    if p == math.inf:
        return _Side(math.sqrt(rows) * R, r, True, False)
    return _Side(_euclidean(p, rows * columns) * R, r, False, joint)


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
