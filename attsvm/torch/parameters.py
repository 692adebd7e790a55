"""groups: a model's parameters in the two groups that mirror descent is meant for."""

from __future__ import annotations

from typing import Any

from torch import nn

from attsvm._utils.expected import expect
from attsvm.errors import Unsupported
from attsvm.torch.optimizer import Group

# Normalization layers by the names that libraries give them: their gains are no weights.
_NORMS = ("norm", "ln_", "layernorm", "rmsnorm", "batchnorm")


def groups(model: nn.Module, *, p: float, rest: float = 2.0, **options: Any) -> list[Group]:
    """Matrices with exponent p; biases, gains of normalization layers and scalars with `rest`.

    options go to the first group (such as lr). The parameters keep their names, which errors use.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    >>> [(group["p"], len(group["params"])) for group in groups(model, p=1.1)]
    [(1.1, 1), (2.0, 3)]
    """
    weights: list[tuple[str, nn.Parameter]] = []
    others: list[tuple[str, nn.Parameter]] = []
    for name, x in expect(model, nn.Module, "model").named_parameters():
        if x.requires_grad:
            (weights if x.ndim >= 2 and not _is_gain(name) else others).append((name, x))
    if not weights and not others:
        raise Unsupported("the model has no parameter that can be trained")
    made: list[Group] = [{"params": weights, "p": p, **options}, {"params": others, "p": rest}]
    return [group for group in made if group["params"]]


def _is_gain(name: str) -> bool:
    owner = name.lower().rpartition(".")[0].rpartition(".")[2]
    return any(owner.startswith(word) or owner.endswith(word) for word in _NORMS)
