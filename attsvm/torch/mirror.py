"""MirrorDescent: ℓP mirror descent as a torch optimizer, kept in the dual variable.

    u ← s u − η g,    w = sign(u) |u|^(1/(P−1)),    s = (1 − η λ)^(P−1)

u is state, in float32 beside weights of float32, bfloat16 and float16, in float64 beside float64.
An update through w would stick where |w|^(P−1) is lost: at zeros, and nearly everywhere in
bfloat16 for P near 1. Decoupled decay λ multiplies w by 1 − η λ, which is s on u. P = 2 is plain
descent and keeps no u. The pure rule is attsvm/training/optimizers/mirror.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attsvm._utils.expected import number as number_of
from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.torch.optimizer import Group, RuleOptimizer, precision

# A weight is the one that the last step left when it is within so many roundings of it.
_ROUNDINGS = 4


class Left(NamedTuple):
    """How a step left a parameter: its version then, and the exponent."""

    version: int
    p: float


class MirrorDescent(RuleOptimizer):
    """ℓP mirror descent: on attention it leads to the entrywise ℓP max margin.

    lr: the step size η in the dual variable. p: the exponent P > 1, of the groups that have none of
    their own (those of `groups` have); 2 is SGD.
    normalized: each gradient is divided by its own ℓQ norm, Q = P/(P − 1). momentum: as in
    torch.optim.SGD, m ← μ m + g. weight_decay: decoupled, w ← (1 − η λ) w beside the step.
    maximize: climb. foreach: move tensors without a compiled loop together (default: on other
    devices than the CPU). check_finite: raise Unsupported before the step if a gradient is not
    finite.

    Weights that are changed from outside (a projection, another checkpoint) get their u anew, and
    all of a group when its p is changed; changes through `.data` cannot be seen: call `forget()`
    after them.

    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([0.25, 1.0]))
    >>> optimizer = MirrorDescent([w], lr=0.5, p=1.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.detach().tolist()  # √w goes down by 0.5, then is squared
    [0.0, 0.25]
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        p: float | None = None,
        normalized: bool = False,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        check_finite: bool = False,
    ) -> None:
        self._left: dict[int, Left] = {}
        defaults = {
            "lr": lr,
            "p": p,
            "normalized": normalized,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "check_finite": check_finite,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._left = {}

    def forget(self) -> None:
        """Look at every weight before the next step, and take u anew where it is another one."""
        self._left.clear()

    def _check_group(self, group: Group, number: int) -> None:
        if group["p"] is None:
            raise Unsupported(f"group {number} has no exponent: give p, or parameters by groups()")
        if not 1 < number_of(group["p"]) < float("inf"):
            raise Unsupported(f"p is {shown(group['p'])}: it must be above 1 and finite")
        super()._check_group(group, number)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of the same shapes and exponents, the dual variables digit by digit."""
        mine, theirs = self.param_groups, state_dict["param_groups"]
        for number, (group, saved) in enumerate(zip(mine, theirs, strict=False)):
            if "p" in saved and saved["p"] != group["p"]:
                raise Unsupported(
                    f"group {number} was saved with p = {saved['p']:g} and has p = "
                    f"{group['p']:g}: dual variables of one exponent mean nothing for another"
                )
        super().load_state_dict(state_dict)
        self.forget()

    def _move(self, group: Group, params: list[Tensor], gradients: list[Tensor]) -> None:
        toward = self._directions(group, params, gradients)
        p, lr, shrink = _sizes(group)
        if p == 2:
            _plain(params, toward, lr, shrink)
            return
        others: list[tuple[Tensor, Tensor, Tensor]] = []
        for x, g in zip(params, toward, strict=True):
            u = self._dual(x, p)
            if not _looped(x, u, g, lr=lr, shrink=shrink, p=p):
                others.append((x, u, g))
        together = group["foreach"]
        if together is None:
            together = any(x.device.type != "cpu" for x in params)
        for part in [others] if together and others else [[one] for one in others]:
            _by_operations(*map(list, zip(*part, strict=True)), lr=lr, shrink=shrink, e=1 / (p - 1))
        self._left |= {id(x): Left(x._version, p) for x in params}

    def _directions(self, group: Group, params: list[Tensor], g: list[Tensor]) -> list[Tensor]:
        """What is taken off the dual variables, times the step size."""
        if group["momentum"]:
            for x, new in zip(params, g, strict=True):
                state = self.state[x]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = new.detach().to(precision(x), copy=True)
                else:
                    state["momentum_buffer"].mul_(group["momentum"]).add_(new)
            g = [self.state[x]["momentum_buffer"] for x in params]
        if group["normalized"]:
            g = [_over_norm(new, group["p"] / (group["p"] - 1)) for new in g]
        return g

    def _dual(self, x: Tensor, p: float) -> Tensor:
        """The dual variable of a parameter, anew where the weight is not what a step left."""
        state = self.state[x]
        left = self._left.get(id(x))
        if "dual" not in state or (left is not None and left.p != p):
            state["dual"] = _powers([x.detach().to(precision(x))], p - 1)[0]
        elif left is None or left.version != x._version:
            u = state["dual"]
            expected = _left_by(u, x.detach(), p)
            off = (x.detach() - expected).abs() > _ROUNDINGS * torch.finfo(x.dtype).eps * x.abs()
            state["dual"] = torch.where(off, _powers([x.detach().to(u.dtype)], p - 1)[0], u)
        dual: Tensor = state["dual"]
        return dual


def _sizes(group: Group) -> tuple[float, float, float]:
    """P, the signed step size and the factor of a dual variable."""
    p, lr = float(group["p"]), float(group["lr"])
    shrink = (1 - lr * float(group["weight_decay"])) ** (p - 1)
    return p, -lr if group["maximize"] else lr, shrink


def _left_by(u: Tensor, x: Tensor, p: float) -> Tensor:
    """The weights that a step to the dual variable u leaves, computed as the step does for x."""
    w = torch.empty_like(x)
    if _looped(w, u.clone(), torch.zeros_like(u), lr=0.0, shrink=1.0, p=p):
        return w
    return _powers([u], 1 / (p - 1))[0].to(x.dtype)


def _looped(x: Tensor, u: Tensor, g: Tensor, *, lr: float, shrink: float, p: float) -> bool:
    """Take the step by a compiled loop; False if there is none for tensors of this kind."""
    for tensor in (x, u, g):
        if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
            return False
        if not tensor.is_contiguous():
            return False
    from attsvm.torch.fused import step_of

    step_of(p)(_flat(u), _flat(g), _flat(x), lr, shrink)
    torch.autograd.graph.increment_version(x)
    return True


def _flat(x: Tensor) -> Any:
    """The tensor's memory as a flat array."""
    return x.detach().numpy().reshape(-1)


def _powers(tensors: list[Tensor], exponent: float) -> list[Tensor]:
    """sign(x)|x|^exponent of every tensor."""
    out = list(torch._foreach_abs(tensors))
    torch._foreach_pow_(out, exponent)
    torch._foreach_mul_(out, torch._foreach_sign(tensors))
    return out


def _over_norm(g: Tensor, q: float) -> Tensor:
    """g over its ℓq norm, zero when g is; no square or power leaves the range of floats."""
    wide = g.to(precision(g))
    top = wide.abs().max() if wide.numel() else wide.sum()
    unit = wide / torch.where(top > 0, top, torch.ones_like(top))
    size = torch.linalg.vector_norm(unit, ord=q)
    return unit / torch.where(size > 0, size, torch.ones_like(size))


def _plain(params: list[Tensor], toward: list[Tensor], lr: float, kept: float) -> None:
    """w ← kept·w − lr·g for all tensors at once."""
    if kept != 1:
        torch._foreach_mul_(params, kept)
    same = [g if g.dtype == x.dtype else g.to(x.dtype) for x, g in zip(params, toward, strict=True)]
    torch._foreach_add_(params, same, alpha=-lr)


def _by_operations(
    params: list[Tensor],
    duals: list[Tensor],
    toward: list[Tensor],
    *,
    lr: float,
    shrink: float,
    e: float,
) -> None:
    """The step by torch's own operations, on any device and of any precision."""
    wide = [g.to(u.dtype) for u, g in zip(duals, toward, strict=True)]
    if shrink != 1:
        torch._foreach_mul_(duals, shrink)
    torch._foreach_add_(duals, wide, alpha=-lr)
    torch._foreach_copy_(params, _powers(duals, e))
