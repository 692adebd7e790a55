"""MirrorDescent: ℓP mirror descent as a torch optimizer, kept in the dual variable.

    u ← s u − η g,    w = sign(u) |u|^(1/(P−1)),    s = (1 − η λ)^(P−1)

u is state, in float32 beside weights of float32, bfloat16 and float16, in float64 beside float64.
An update through w would stick where |w|^(P−1) is lost: at zeros, and nearly everywhere in
bfloat16 for P near 1. Decoupled decay λ multiplies w by 1 − η λ, which is s on u. P = 2 is plain
descent and keeps no u. The pure rule is attsvm/rules/mirror.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attsvm.errors import Unsupported
from attsvm.torch.optimizer import Group, RuleOptimizer, flat, plain_memory, precision

# Entries from which a step pays for going past the caches.
LARGE = 1 << 16
# Bytes at whose multiples it may begin, bits.LINE.
_LINE = 64
# A weight is the one that the last step left when it is within so many roundings of it.
_ROUNDINGS = 4


class Left(NamedTuple):
    """How a step left a parameter: its version then, the exponent, and whether by a kernel."""

    version: int
    p: float
    kernel: bool


class MirrorDescent(RuleOptimizer):
    """ℓP mirror descent: on attention it leads to the entrywise ℓP max margin.

    lr: the step size η in the dual variable. p: the exponent P > 1, also by group; 2 is SGD.
    normalized: each gradient is divided by its own ℓQ norm, Q = P/(P − 1). momentum: as in
    torch.optim.SGD, m ← μ m + g. weight_decay: decoupled, w ← (1 − η λ) w beside the step.
    maximize: climb. foreach: move the tensors that no kernel takes together; chosen without it.
    check_finite: refuse a step whose gradients are not finite; nothing is changed then. Large
    tensors are looked at while they move, with the dual variables of the last step kept as the way
    back: with them the state is as large as AdamW's.

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
        p: float,
        normalized: bool = False,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        check_finite: bool = True,
    ) -> None:
        self._left: dict[int, Left] = {}
        self._spare: dict[int, Tensor] = {}
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
        self._left, self._spare = {}, {}

    def forget(self) -> None:
        """Look at every weight before the next step, and take u anew where it is another one."""
        self._left.clear()

    def _check_group(self, group: Group, number: int) -> None:
        if not 1 < float(group["p"]) < float("inf"):
            raise Unsupported(f"p is {float(group['p']):g}: it must be above 1 and finite")
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
        others: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for x, g in zip(params, toward, strict=True):
            u = self._dual(x, p)
            if plain_memory(x) and plain_memory(u) and plain_memory(g):
                from attsvm.torch.one_pass import step
                from attsvm.torch.threads import in_parts

                arrays, far = (flat(u), flat(g), flat(x)), _large(x)
                in_parts(step, arrays, lr=lr, shrink=shrink, p=p, far=far)
                torch.autograd.graph.increment_version(x)
                self._left[id(x)] = Left(x._version, p, True)
            else:
                for part, tensor in zip(others, (x, u, g), strict=True):
                    part.append(tensor)
        if others[0]:
            _mirrored(*others, lr=lr, shrink=shrink, p=p, together=group["foreach"])
            self._left |= {id(x): Left(x._version, p, False) for x in others[0]}

    def _looks(self, group: Group, x: Tensor, g: Tensor) -> bool:
        """Whether it is large, the kernels' own work, and its weight what they left last time."""
        return (
            _large(x)
            and self._left.get(id(x)) == Left(x._version, float(group["p"]), True)
            and not (group["momentum"] or group["normalized"] or group["p"] == 2)
            and "dual" in self.state[x]  # it may have been cleared
            and plain_memory(self.state[x]["dual"])
            and plain_memory(x)
            and plain_memory(g)
        )

    def _move_and_look(self, parts: list[list[tuple[int, Tensor, Tensor]]]) -> None:
        if not any(parts):
            return
        from attsvm.torch.one_pass import step_beside
        from attsvm.torch.threads import in_parts

        moved: list[tuple[Tensor, float]] = []
        for number, (group, part) in enumerate(zip(self.param_groups, parts, strict=True)):
            p, lr, shrink = _sizes(group)
            for place, x, g in part:
                u, new = self.state[x]["dual"], self._beside(x)
                arrays = (flat(u), flat(g), flat(new), flat(x))
                moved.append((x, p))
                if not all(in_parts(step_beside, arrays, lr=lr, shrink=shrink, p=p)):
                    self._take_back(moved)
                    raise self._refusal(number, place)
        for x, p in moved:
            self._spare[id(x)], self.state[x]["dual"] = self.state[x]["dual"], self._spare[id(x)]
            torch.autograd.graph.increment_version(x)
            self._left[id(x)] = Left(x._version, p, True)

    def _beside(self, x: Tensor) -> Tensor:
        """Room for the next dual variable of a parameter."""
        room = self._spare.get(id(x))
        if room is None or room.shape != x.shape or not _large(room):
            room = self._spare[id(x)] = torch.empty_like(x, requires_grad=False)
        return room

    def _take_back(self, moved: list[tuple[Tensor, float]]) -> None:
        """Give weights that were moved the values of their dual variables again."""
        for x, p in moved:
            x.copy_(_left_by(self.state[x]["dual"], x, p))
            self._left[id(x)] = Left(x._version, p, True)

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
            state["dual"] = _power(x.detach().to(precision(x)), p - 1)
        elif left is None or left.version != x._version:
            u = state["dual"]
            expected = _left_by(u, x.detach(), p)
            off = (x.detach() - expected).abs() > _ROUNDINGS * torch.finfo(x.dtype).eps * x.abs()
            state["dual"] = torch.where(off, _power(x.detach().to(u.dtype), p - 1), u)
        dual: Tensor = state["dual"]
        return dual


def _large(x: Tensor) -> bool:
    """Whether a step on it goes past the caches."""
    return x.numel() >= LARGE and x.data_ptr() % _LINE == 0


def _sizes(group: Group) -> tuple[float, float, float]:
    """P, the signed step size and the factor of a dual variable."""
    p, lr = float(group["p"]), float(group["lr"])
    shrink = (1 - lr * float(group["weight_decay"])) ** (p - 1)
    return p, -lr if group["maximize"] else lr, shrink


def _left_by(u: Tensor, x: Tensor, p: float) -> Tensor:
    """The weights that a step to the dual variable u leaves, computed as the step does for x."""
    if plain_memory(x) and plain_memory(u):
        from attsvm.torch.one_pass import step
        from attsvm.torch.threads import in_parts

        w, zero = torch.empty_like(x), torch.zeros_like(u)
        in_parts(step, (flat(u.clone()), flat(zero), flat(w)), lr=0.0, shrink=1.0, p=p)
        return w
    return _power(u, 1 / (p - 1)).to(x.dtype)


def _power(x: Tensor, exponent: float) -> Tensor:
    return torch.sign(x) * torch.abs(x) ** exponent


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


def _mirrored(
    params: list[Tensor],
    duals: list[Tensor],
    toward: list[Tensor],
    *,
    lr: float,
    shrink: float,
    p: float,
    together: bool | None,
) -> None:
    """The step by torch's own operations, for tensors that no kernel takes."""
    wide = [g.to(u.dtype) for u, g in zip(duals, toward, strict=True)]
    e = 1 / (p - 1)
    if together is False:
        for x, u, g in zip(params, duals, wide, strict=True):
            u.mul_(shrink).sub_(g, alpha=lr)
            x.copy_(_power(u, e))
        return
    if shrink != 1:
        torch._foreach_mul_(duals, shrink)
    torch._foreach_add_(duals, wide, alpha=-lr)
    new = torch._foreach_abs(duals)
    torch._foreach_pow_(new, e)
    torch._foreach_mul_(new, torch._foreach_sign(duals))
    torch._foreach_copy_(params, new)
