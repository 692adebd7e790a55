"""The optimizers of the theory as torch optimizers: MirrorDescent, SteepestDescent, NormalizedGD.

Sparse and complex gradients are refused by the name of their parameter before anything moves. As in
torch, gradients are not inspected; `torch.nn.utils.get_total_norm(…, error_if_nonfinite=True)`
does. The pure optimizers are in attsvm/training/optimizers/{mirror,ngd,sign,spectral,signum}.py.
torch.optim.Muon is the approximate spectral one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from attsvm._utils.expected import checked_by, expect, shown
from attsvm._utils.expected import number as number_of
from attsvm.errors import Unsupported

Group = dict[str, Any]


def precision(x: Tensor) -> torch.dtype:
    """The precision of a parameter's state: float32, whatever the weights are, or float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class CheckedOptimizer(Optimizer):
    """An optimizer with checked options, gradients and states; subclasses define `_move`.

    buffer: the name of the average of gradients in the state.
    """

    buffer = "average"

    def __init__(self, params: Any, **defaults: Any) -> None:
        with checked_by(Unsupported):
            super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with its own options, checked as in the constructor."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._check_group(group, len(self.param_groups) - 1)
        except Unsupported:
            self.param_groups.pop()
            raise

    def _check_group(self, group: Group, number: int) -> None:
        """Raise Unsupported unless the options and the types of the parameters are valid."""
        for name, most in (("lr", math.inf), ("weight_decay", math.inf), ("momentum", 1.0)):
            value = group[name]
            if not isinstance(value, int | float | Tensor) or not 0 <= number_of(value) < most:
                raise Unsupported(
                    f"{name} is {shown(value)}: it must be a number, at least 0 and below {most:g}"
                )
        for place, x in enumerate(group["params"]):
            if not x.is_floating_point():
                kind = str(x.dtype).removeprefix("torch.")
                raise Unsupported(
                    f"{_name(group, number, place)} is of type {kind}: only real floating-point "
                    "parameters can be moved"
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; with a closure, return what it returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        ready = [self._with_gradient(*pair) for pair in enumerate(self.param_groups)]
        for group, params in zip(self.param_groups, ready, strict=True):
            if params:
                self._move(group, params)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of the same optimizer and shapes, digit by digit in its own precision."""
        if any(set(self.defaults) - set(group) for group in state_dict["param_groups"]):
            raise Unsupported("the saved state is of another optimizer: its groups lack options")
        super().load_state_dict(state_dict)
        theirs, mine = (
            [x for group in groups for x in group["params"]]
            for groups in (state_dict["param_groups"], self.param_groups)
        )
        for k, x in zip(theirs, mine, strict=True):  # torch rounds as the parameter is rounded
            for name, value in state_dict["state"].get(k, {}).items():
                self.state[x][name] = value.detach().to(x.device, precision(x)).clone()

    def _with_gradient(self, number: int, group: Group) -> list[Tensor]:
        """The parameters of a group that have a gradient."""
        shrink = float(group["lr"]) * float(group["weight_decay"])
        if not 0 <= shrink < 1:  # a schedule may have changed the rate since it was checked
            raise Unsupported(f"lr × weight_decay is {shrink:g}: it must lie in [0, 1)")
        for place, x in enumerate(group["params"]):
            if x.grad is not None and x.grad.layout != torch.strided:
                raise Unsupported(
                    f"the gradient of {_name(group, number, place)} is sparse: make it dense "
                    "(an embedding with sparse=False) or give it to torch.optim.SparseAdam"
                )
        return [x for x in group["params"] if x.grad is not None]

    def _average(self, x: Any, keep: float, share: float) -> Tensor:
        """m ← keep · m + share · g, from m = 0: what the directions of a parameter come from."""
        state = self.state[x]
        if self.buffer not in state:
            state[self.buffer] = torch.zeros_like(x.grad, dtype=precision(x))
        average: Tensor = state[self.buffer].mul_(keep).add_(x.grad, alpha=share)
        return average

    def _move(self, group: Group, params: list[Any]) -> None:
        """Update these parameters of a group in place."""
        raise NotImplementedError


def _name(group: Group, number: int, place: int) -> str:
    """The name of a parameter, or its place and shape where it was given without one."""
    names = group.get("param_names")
    if names:
        return f"parameter {names[place]!r}"
    shape = tuple(group["params"][place].shape)
    return f"parameter {place} of group {number}, shape {shape}"


def groups(model: nn.Module, *, p: float, **options: Any) -> list[Group]:
    """Parameter groups for MirrorDescent: matrices, and biases and gains with p = 2 apart.

    Parameters
    ----------
    model : torch.nn.Module
    p : float
        The exponent of the matrices.
    **options
        Options of the first group, such as lr.

    Returns
    -------
    list of dict
        One or two groups; the parameters keep their names, which messages use.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    >>> [(group["p"], len(group["params"])) for group in groups(model, p=1.1)]
    [(1.1, 1), (2.0, 3)]
    """
    own = expect(model, nn.Module, "model").named_parameters()
    trained = [(name, x) for name, x in own if x.requires_grad]
    if not trained:
        raise Unsupported("the model has no parameter that can be trained")
    weights, others = (
        [pair for pair in trained if (pair[1].ndim >= 2) == it] for it in (True, False)
    )
    made: list[Group] = [{"params": weights, "p": p, **options}, {"params": others, "p": 2.0}]
    return [group for group in made if group["params"]]


# A weight is the one that the last step left when it is within so many roundings of it.
_ROUNDINGS = 64


class MirrorDescent(CheckedOptimizer):
    """ℓp mirror descent. On attention it leads to the entrywise ℓp max margin.

        u ← s u − η g,    w = sign(u) |u|^(1/(p−1)),    s = (1 − η λ)^(p−1)

    The dual variable u is state: float32 beside weights of float32, bfloat16 and float16, float64
    beside float64. (An update of w itself would lose |w|^(p−1) at zeros, and nearly everywhere in
    bfloat16 for p near 1.) p = 2 is plain descent and keeps no u. Weights that are changed from
    outside get a new u, and so does a whole group when its p is changed. Changes through `.data`
    are not noticed: call `forget()` after them.

    Parameters
    ----------
    params : iterable of parameters, of named parameters or of groups (see `groups`)
    lr : float, default: 1e-3
        The step size η in the dual variable.
    p : float
        The exponent, above 1, of groups without their own; 2 is SGD.
    normalized : bool, default: False
        Divide each gradient by its ℓq norm, q = p/(p − 1).
    momentum : float, default: 0
        As in torch.optim.SGD, m ← μ m + g.
    weight_decay : float, default: 0
        Decoupled decay λ: w ← (1 − η λ) w with each step.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([0.25, 1.0]))
    >>> optimizer = MirrorDescent([w], lr=0.5, p=1.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.detach().tolist()  # √w goes down by 0.5, then is squared
    [0.0, 0.25]
    """

    buffer = "momentum_buffer"

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        p: float | None = None,
        normalized: bool = False,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        # The version and the exponent that a step left each parameter with.
        self._left: dict[int, tuple[int, float]] = {}
        rest = {"normalized": normalized, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, lr=lr, p=p, **rest)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._left = {}

    def forget(self) -> None:
        """Before the next step, compute u again wherever it does not match the weight."""
        self._left.clear()

    def _check_group(self, group: Group, number: int) -> None:
        if group["p"] is None:
            raise Unsupported(f"group {number} has no exponent: give p, or parameters by groups()")
        if not 1 < number_of(group["p"]) < math.inf:
            raise Unsupported(f"p is {shown(group['p'])}: it must be above 1 and finite")
        super()._check_group(group, number)

    def _move(self, group: Group, params: list[Any]) -> None:
        p, lr, kept = float(group["p"]), float(group["lr"]), float(group["momentum"])
        shrink = (1 - lr * float(group["weight_decay"])) ** (p - 1)
        toward = [self._average(x, kept, 1.0) if kept else x.grad for x in params]
        if group["normalized"]:
            toward = [_unit(g, p / (p - 1)) for g in toward]
        if p == 2:  # u is w
            _by_operations(params, params, toward, lr=lr, shrink=shrink, e=1.0)
            return
        others: list[tuple[Tensor, Tensor, Tensor]] = []
        for x, g in zip(params, toward, strict=True):
            u = self._dual(x, p)
            if not _looped(x, u, g, lr=lr, shrink=shrink, p=p):
                others.append((x, u, g))
        if others:
            _by_operations(
                *map(list, zip(*others, strict=True)), lr=lr, shrink=shrink, e=1 / (p - 1)
            )
        self._left |= {id(x): (x._version, p) for x in params}

    def _dual(self, x: Tensor, p: float) -> Tensor:
        """The dual variable of a parameter, anew where the weight is not what a step left."""
        state = self.state[x]
        if self._left.get(id(x)) != (x._version, p) or "dual" not in state:
            anew = _powers([x.detach().to(precision(x))], p - 1)[0]
            u = state.get("dual", anew)
            same = torch.isclose(
                x,
                _powers([u], 1 / (p - 1))[0].to(x.dtype),
                rtol=_ROUNDINGS * torch.finfo(x.dtype).eps,
                atol=torch.finfo(x.dtype).tiny,
            )
            state["dual"] = torch.where(same, u, anew)
        dual: Tensor = state["dual"]
        return dual


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
    if e != 1:
        torch._foreach_copy_(params, _powers(duals, e))


class SteepestDescent(CheckedOptimizer):
    """Normalized steepest descent. On attention its conjectured limit is the max margin in `norm`.

        w ← (1 − η λ) w − η D(g),    D(g) = argmax ⟨g, D⟩ over ‖D‖ ≤ 1

    D is g/‖g‖ for frobenius, sign(g) for max, U Vᵀ of g = U Σ Vᵀ for spectral, and
    sign(g)|g|^(q−1)/‖g‖_q^(q−1) with q = p/(p − 1) for ℓp.

    Parameters
    ----------
    params : iterable of parameters, of named parameters or of groups
    lr : float, default: 1e-3
        The length η of a step.
    norm : str, default: "frobenius"
        frobenius, max, spectral or l1.5 and the like; groups may have their own. Under spectral,
        vectors move by g/‖g‖.
    momentum : float, default: 0
        The direction is that of the average m ← β m + (1 − β) g.
    weight_decay : float, default: 0
        Decoupled decay λ.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.zeros(2, 2))
    >>> optimizer = SteepestDescent([w], lr=0.25, norm="max")
    >>> (3 * w[0, 0] - w[1, 1]).backward()
    >>> optimizer.step()
    >>> w.tolist()
    [[-0.25, 0.0], [0.0, 0.25]]
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        *,
        norm: str = "frobenius",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, norm=norm, momentum=momentum, weight_decay=weight_decay)

    def _check_group(self, group: Group, number: int) -> None:
        direction_of(group["norm"])
        super()._check_group(group, number)

    def _move(self, group: Group, params: list[Any]) -> None:
        toward = direction_of(group["norm"])
        lr, beta = float(group["lr"]), float(group["momentum"])
        kept = 1 - lr * float(group["weight_decay"])
        for x in params:
            g = self._average(x, beta, 1 - beta) if beta else x.grad
            x.mul_(kept).add_(toward(g).to(x.dtype), alpha=-lr)


class NormalizedGD(SteepestDescent):
    """Normalized gradient descent, w ← w − η g/‖g‖, each parameter by its own norm.

    >>> import torch
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = NormalizedGD([w], lr=0.5)
    >>> (3 * w[0] + 4 * w[1]).backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in w.tolist()]
    [-0.3, -0.4]
    """

    def __init__(self, params: Any, lr: float = 1e-3, **options: Any) -> None:
        if options.pop("norm", "frobenius") != "frobenius":
            raise Unsupported("NormalizedGD has norm='frobenius': for others use SteepestDescent")
        super().__init__(params, lr, norm="frobenius", **options)


def direction_of(norm: str) -> Callable[[Tensor], Tensor]:
    """The function D(g) = argmax ⟨g, D⟩ over ‖D‖ ≤ 1 of a norm."""
    known: dict[str, Any] = {"frobenius": _unit, "max": torch.sign, "spectral": _spectral}
    if isinstance(norm, str) and norm in known:
        return known[norm]
    found = re.fullmatch(r"l(\d+(\.\d+)?)", norm) if isinstance(norm, str) else None
    if found and float(found[1]) > 1:
        p = float(found[1])
        return lambda g: _steepest(g, p)
    raise Unsupported(
        f"norm is {shown(norm)}: frobenius, max, spectral, or l1.5 and the like, above 1"
    )


def _scale(g: Tensor) -> Tensor:
    """g over its largest entry, so that no square leaves the range of floats; zero when g is."""
    wide = g.to(precision(g))
    top = wide.abs().max() if wide.numel() else wide.sum()
    return wide / top.clamp(min=torch.finfo(wide.dtype).tiny)


def _unit(g: Tensor, q: float = 2.0) -> Tensor:
    """g over its ℓq norm; zero when g is."""
    return F.normalize(_scale(g).flatten(), p=q, dim=0).view_as(g)


def _steepest(g: Tensor, p: float) -> Tensor:
    """sign(g)|g|^(q−1)/‖g‖_q^(q−1)."""
    q = p / (p - 1)
    unit = _unit(g, q)
    return torch.sign(unit) * unit.abs() ** (q - 1)


def _spectral(g: Tensor) -> Tensor:
    """U Vᵀ over the singular values above the rounding of the largest."""
    if g.ndim < 2 or not g.numel():
        return _unit(g)
    wide = _scale(g.reshape(len(g), -1))
    U, s, Vh = torch.linalg.svd(wide, full_matrices=False)
    live = s > s.max() * 4 * torch.finfo(wide.dtype).eps * sum(wide.shape)
    return ((U * live) @ Vh).reshape(g.shape)
