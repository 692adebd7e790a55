"""What the optimizers share: the laws of their arguments, closures, and gradients that are read.

A step is taken whole or not at all: sparse and complex gradients and, with check_finite=True,
gradients with a NaN or an infinity are refused by the name of their parameter, and nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from attsvm._utils.expected import checked_by, shown
from attsvm._utils.expected import number as number_of
from attsvm.errors import Unsupported

Group = dict[str, Any]


def precision(x: Tensor) -> torch.dtype:
    """The precision of a parameter's state: float32, whatever the weights are, or float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class RuleOptimizer(Optimizer):
    """An optimizer that moves each parameter by a rule; a subclass says how in `_move`."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        with checked_by(Unsupported):
            super().__init__(params, defaults)
        for number, group in enumerate(self.param_groups):
            self._check_group(group, number)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with options of its own, checked as the first ones were."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._check_group(group, len(self.param_groups) - 1)
        except Unsupported:
            self.param_groups.pop()
            raise

    def _check_group(self, group: Group, number: int) -> None:
        """Raises Unsupported unless options and parameters are of the kinds that can be moved."""
        for name in ("lr", "weight_decay"):
            value = group[name]
            if not isinstance(value, int | float | Tensor):
                raise Unsupported(f"{name} is {shown(value)}: it must be a number")
            if not 0 <= number_of(value) < math.inf:
                raise Unsupported(f"{name} is {shown(value)}: it must be finite, not negative")
        if not 0 <= number_of(group["momentum"]) < 1:
            raise Unsupported(f"momentum is {shown(group['momentum'])}: it must lie in [0, 1)")
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
        ready = [self._gradients(group, number) for number, group in enumerate(self.param_groups)]
        for group, (params, gradients) in zip(self.param_groups, ready, strict=True):
            if params:
                self._move(group, params, gradients)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state of the same optimizer and shapes, digit by digit in its own precision."""
        for number, group in enumerate(state_dict["param_groups"]):
            if lacking := sorted(set(self.defaults) - set(group)):
                raise Unsupported(
                    f"group {number} was saved without {lacking[0]}: the state is of another "
                    "optimizer"
                )
        theirs = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        mine = chain.from_iterable(group["params"] for group in self.param_groups)
        pairs = [(x, state_dict["state"].get(k, {})) for k, x in zip(theirs, mine, strict=False)]
        for x, kept in pairs:
            for name, value in kept.items():
                if not isinstance(value, Tensor) or value.shape != x.shape:
                    raise Unsupported(
                        f"the saved {name} has shape {tuple(getattr(value, 'shape', ()))}, its "
                        f"parameter {tuple(x.shape)}: the state is of another model"
                    )
        super().load_state_dict(state_dict)
        for x, kept in pairs:  # torch would round it to the precision of the parameter
            for name, value in kept.items():
                self.state[x][name] = value.detach().to(x.device, precision(x)).clone()

    def _gradients(self, group: Group, number: int) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters of a group that have a gradient, and the gradients, checked."""
        shrink = float(group["lr"]) * float(group["weight_decay"])
        if not 0 <= shrink < 1:  # a schedule may have changed the rate since it was checked
            raise Unsupported(f"lr × weight_decay is {shrink:g}: it must lie in [0, 1)")
        params: list[Tensor] = []
        gradients: list[Tensor] = []
        for place, x in enumerate(group["params"]):
            g = x.grad
            if g is None:
                continue
            if g.is_sparse or g.layout != torch.strided:
                raise Unsupported(
                    f"the gradient of {_name(group, number, place)} is sparse: make it dense "
                    "(an embedding with sparse=False) or give it to torch.optim.SparseAdam"
                )
            if group["check_finite"] and not _finite(g):
                raise Unsupported(
                    f"the gradient of {_name(group, number, place)} is not finite: "
                    "the step is not taken, and nothing was changed"
                )
            params.append(x)
            gradients.append(g)
        return params, gradients

    def _move(self, group: Group, params: list[Tensor], gradients: list[Tensor]) -> None:
        """Move the parameters of a group by its rule."""
        raise NotImplementedError


def _finite(g: Tensor) -> bool:
    """Whether all entries are finite: surely if the norm is, which large entries overflow."""
    return bool(torch.linalg.vector_norm(g).isfinite()) or bool(torch.isfinite(g).all())


def _name(group: Group, number: int, place: int) -> str:
    """What a parameter is called: its own name where torch was told it."""
    names = group.get("param_names")
    if names:
        return f"parameter {names[place]!r}"
    shape = tuple(group["params"][place].shape)
    return f"parameter {place} of group {number}, shape {shape}"
