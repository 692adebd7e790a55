"""as_optimizer(): a torch.optim.Optimizer class as an optimizer of attsvm.train and compare.

Every step makes the torch optimizer anew, from the parameters and the state that the last step
left, hands it the exact gradient in float64, and takes the step. So the optimizer is a pair of pure
functions, as all are here, and runs can be saved and continued. A gradient below what a float
holds is zero to it: the run reports the first step of that kind.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from attsvm._utils.expected import flag, positive, shown
from attsvm.errors import Unsupported
from attsvm.training.optimizers.optimizer import BELOW, Blocks, Optimizer, State, Step

# log of the least float64 with a full mantissa.
_LEAST = math.log(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class TorchOptimizer(Optimizer):
    """An Optimizer that is a class of torch.optim.Optimizer with its options, without parameters.

    >>> from attsvm.torch import as_optimizer
    >>> made = as_optimizer(torch.optim.Adam, lr=0.01, betas=(0.9, 0.99))
    >>> made.name, made.lr, made.options
    ('Adam', 0.01, {'betas': (0.9, 0.99)})
    """

    kind: Any = field(default=None, kw_only=True)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True, compare=False)
    normalized: bool = field(default=False, kw_only=True)

    def on(self, params: Any, lr: float | None = None) -> torch.optim.Optimizer:
        """The torch optimizer over these parameters, or groups of them; default rate: its own."""
        rate = self.lr if lr is None else lr
        with _one_sentence(self.name, "cannot be made"):
            made: torch.optim.Optimizer = self.kind(params, lr=rate, **self.options)
        return made


def as_optimizer(
    kind: type[torch.optim.Optimizer],
    lr: float | None = None,
    *,
    name: str | None = None,
    normalized_gradient: bool = False,
    **options: Any,
) -> TorchOptimizer:
    """A torch optimizer for `attsvm.train`, `attsvm.compare` and `attsvm.torch.fit`.

    Parameters
    ----------
    kind : class
        A subclass of torch.optim.Optimizer whose step needs no closure.
    lr : float, optional
        The step size; default: that of the class. The lr of `train` and the lrs of `compare` win
        over it.
    name : str, optional
        What results call it; default: the name of the class.
    normalized_gradient : bool, default: False
        Pass the gradient over its norm, which stays a float however small the gradient is. Only
        for rules that do not depend on the size of the gradient it is the same run.
    **options
        Those of the class, such as betas or momentum.

    Returns
    -------
    TorchOptimizer

    Raises
    ------
    Unsupported
        Where `kind` is no such class, does not take the options, or needs a closure.

    Examples
    --------
    >>> import attsvm, torch
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> sgd = attsvm.torch.as_optimizer(torch.optim.SGD, lr=0.5)
    >>> path = attsvm.train(tokens, model="prompt", head=[0.2, 0.7], optimizer=sgd, steps=100)
    >>> same = attsvm.train(
    ...     tokens, model="prompt", head=[0.2, 0.7], optimizer="gd", lr=0.5, steps=100
    ... )
    >>> bool(abs(path.at(-1)["p"] - same.at(-1)["p"]).max() < 1e-12)
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        raise Unsupported(
            f"as_optimizer takes a class, such as torch.optim.Adam, and its options: this is "
            f"{shown(kind)}"
        )
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise Unsupported(
            f"{kind.__name__} needs a closure that evaluates the loss again: as_optimizer hands "
            "over one gradient per step"
        )
    normalized = flag(normalized_gradient, "normalized_gradient")
    name = kind.__name__ if name is None else name
    given: dict[str, Any] = {} if lr is None else {"lr": positive(lr, "lr")}
    with _one_sentence(name, "cannot be made"):
        rate = kind([nn.Parameter(torch.zeros(2, 2))], **given, **options).defaults.get("lr")
    if rate is None:
        raise Unsupported(f"{name} has no lr: as_optimizer needs a class with a step size")

    def run(blocks: Blocks, lr: float, b: int) -> tuple[torch.optim.Optimizer, _Params]:
        params = {x: nn.Parameter(torch.tensor(a[b])) for x, a in blocks.items()}
        return made.on(params.values(), lr), params

    def init(params: Blocks) -> State:
        optimizer, own = run(params, float(rate), 0)
        before = _attributes(optimizer)
        for x in own.values():
            x.grad = torch.ones_like(x)
        _take_step(name, optimizer)
        after = _attributes(optimizer)
        if lost := [key for key, value in after.items() if before.get(key) != value]:
            raise Unsupported(
                f"{name} keeps {lost[0]} outside of state and param_groups, so that its run cannot "
                "be continued"
            )
        B = len(next(iter(params.values())))
        state = {
            key: np.zeros((B, *a.shape), a.dtype) for key, a in _saved(name, optimizer, own).items()
        }
        return state | {"started": np.zeros(B), BELOW: np.full(B, -1.0)}

    def move(step: Step) -> tuple[Blocks, State]:
        new = {x: a.copy() for x, a in step.params.items()}
        after = {key: np.array(value) for key, value in step.state.items()}
        for b, lr in enumerate(step.lr):
            optimizer, own = run(step.params, float(lr), b)
            if after["started"][b]:
                _restore(optimizer, own, {key: a[b] for key, a in after.items()})
            size = _log_norm(step, b)
            if -math.inf < size < _LEAST and not normalized and after[BELOW][b] < 0:
                after[BELOW][b] = step.count
            unit = size if normalized and size > -math.inf else 0.0
            for x, param in own.items():
                scale = np.exp(step.gradient.log_scale[x][b] - unit)
                param.grad = torch.tensor(step.gradient.direction[x][b] * scale)
            _take_step(name, optimizer)
            saved = _saved(name, optimizer, own)
            if fresh := saved.keys() - after.keys():
                raise Unsupported(f"{name} adds {min(fresh)} to its state after the first step")
            for key, value in saved.items():
                after[key][b] = value
            for x, param in own.items():
                new[x][b] = param.detach().numpy()
            after["started"][b] = 1
        return new, after

    made = TorchOptimizer(
        name,
        init,
        move,
        lr=float(rate),
        floats=True,
        kind=kind,
        options=options,
        normalized=normalized,
    )
    return made


_Params = dict[str, nn.Parameter]
# What torch itself changes on an optimizer.
_OF_TORCH = frozenset(vars(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)))


@contextmanager
def _one_sentence(name: str, what: str) -> Iterator[None]:
    """Raises Unsupported for whatever the class of a user raises."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        kind = type(error).__name__
        raise Unsupported(f"{name} {what}: {kind}{': ' + said if said else ''}") from error


def _take_step(name: str, optimizer: torch.optim.Optimizer) -> None:
    with _one_sentence(name, "fails in step()"):
        optimizer.step()


def _attributes(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The numbers and strings that an optimizer of a user keeps on itself."""
    own = {key: value for key, value in vars(optimizer).items() if key not in _OF_TORCH}
    return {key: value for key, value in own.items() if isinstance(value, int | float | str)}


def _saved(name: str, optimizer: torch.optim.Optimizer, params: _Params) -> dict[str, Any]:
    """The state as arrays: BLOCK.NAME for tensors, BLOCK#NAME and group#NAME for numbers."""
    kept: dict[str, Any] = {}
    for x, param in params.items():
        for key, value in optimizer.state.get(param, {}).items():
            sign = "." if isinstance(value, torch.Tensor) else "#"
            kept[f"{x}{sign}{key}"] = value
    for key, value in optimizer.param_groups[0].items():
        if key != "lr" and isinstance(value, int | float) and not isinstance(value, bool):
            kept[f"group#{key}"] = value
    arrays = {key: np.asarray(value) for key, value in kept.items() if value is not None}
    for key, array in arrays.items():
        if array.dtype.kind not in "fi":
            raise Unsupported(f"{name} keeps {key}, which is not a number or a tensor of numbers")
    if len(optimizer.state) > len(params):
        raise Unsupported(f"{name} keeps state that belongs to no parameter")
    return arrays


def _restore(optimizer: torch.optim.Optimizer, params: _Params, state: dict[str, Any]) -> None:
    """Give an optimizer the state that `_saved` has read."""
    for key, value in state.items():
        for x, param in params.items():
            if key.startswith(f"{x}."):
                tensor = torch.from_numpy(np.array(value))
                optimizer.state[param][key.removeprefix(f"{x}.")] = tensor
            elif key.startswith(f"{x}#"):
                optimizer.state[param][key.removeprefix(f"{x}#")] = value.item()
        if key.startswith("group#"):
            optimizer.param_groups[0][key.removeprefix("group#")] = value.item()


def _log_norm(step: Step, b: int) -> float:
    """The log of the gradient's norm over all blocks of one instance."""
    direction, log_scale = step.gradient.direction, step.gradient.log_scale
    with np.errstate(divide="ignore"):
        logs = [log_scale[x][b] + np.log(np.linalg.norm(direction[x][b])) for x in direction]
    return float(np.logaddexp.reduce(2 * np.array(logs)) / 2)
