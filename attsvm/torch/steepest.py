"""SteepestDescent: steps of length η in a norm, along the direction that lowers the loss most.

    w ← (1 − η λ) w − η D(g),    D(g) = argmax ⟨g, D⟩ over ‖D‖ ≤ 1

frobenius  g/‖g‖                        max       sign(g)
spectral   U Vᵀ of g = U Σ Vᵀ           lP        sign(g)|g|^(Q−1)/‖g‖_Q^(Q−1), Q = P/(P − 1)

With momentum β the direction is that of the average m ← β m + (1 − β) g. The pure rules are
attsvm/training/optimizers/{ngd,sign,spectral,signum}.py. torch.optim.Muon is the approximate
spectral one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.torch.optimizer import Group, RuleOptimizer, precision

_LP = re.compile(r"l(\d+(\.\d+)?)")


class SteepestDescent(RuleOptimizer):
    """Normalized steepest descent: on attention it is believed to lead to the max margin in `norm`.

    lr: the length η of a step. norm: frobenius, max, spectral or l1.5 and the like, also by group.
    Vectors move by g/‖g‖ under spectral. momentum: the average's β. weight_decay: decoupled.
    check_finite: raise Unsupported before the step if a gradient is not finite.

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
        maximize: bool = False,
        check_finite: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "norm": norm,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "check_finite": check_finite,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: Group, number: int) -> None:
        direction_of(group["norm"])
        super()._check_group(group, number)

    def _move(self, group: Group, params: list[Tensor], gradients: list[Tensor]) -> None:
        toward = direction_of(group["norm"])
        lr, beta = float(group["lr"]), float(group["momentum"])
        kept = 1 - lr * float(group["weight_decay"])
        for x, g in zip(params, gradients, strict=True):
            if beta:
                state = self.state[x]
                if "average" not in state:
                    state["average"] = torch.zeros_like(g, dtype=precision(x))
                g = state["average"].mul_(beta).add_(g, alpha=1 - beta)
            D = toward(g)
            x.mul_(kept).add_(D.to(x.dtype), alpha=lr if group["maximize"] else -lr)


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
            raise Unsupported("NormalizedGD has the frobenius norm: for others use SteepestDescent")
        super().__init__(params, lr, norm="frobenius", **options)


def direction_of(norm: str) -> Callable[[Tensor], Tensor]:
    """The function D of a norm."""
    if isinstance(norm, str) and norm in _NAMED:
        return _NAMED[norm]
    found = _LP.fullmatch(norm) if isinstance(norm, str) else None
    if found and float(found[1]) > 1:
        p = float(found[1])
        return lambda g: _entrywise(g, p)
    raise Unsupported(
        f"norm is {shown(norm)}: frobenius, max, spectral, or l1.5 and the like, above 1"
    )


def _scaled(g: Tensor) -> Tensor:
    """g over its largest entry, so that no square leaves the range of floats; zero when g is."""
    top = g.abs().max() if g.numel() else g.sum()
    return g / torch.where(top > 0, top, torch.ones_like(top))


def _frobenius(g: Tensor) -> Tensor:
    unit = _scaled(g)
    size = torch.linalg.vector_norm(unit)
    return unit / torch.where(size > 0, size, torch.ones_like(size))


def _entrywise(g: Tensor, p: float) -> Tensor:
    unit, q = _scaled(g), p / (p - 1)
    size = torch.linalg.vector_norm(unit, ord=q)
    unit = unit / torch.where(size > 0, size, torch.ones_like(size))
    return torch.sign(unit) * unit.abs() ** (q - 1)


def _spectral(g: Tensor) -> Tensor:
    """U Vᵀ over the singular values above the rounding of the largest."""
    if g.ndim < 2 or not g.numel():
        return _frobenius(g)
    wide = _scaled(g.reshape(len(g), -1).to(torch.promote_types(g.dtype, torch.float32)))
    U, s, Vh = torch.linalg.svd(wide, full_matrices=False)
    live = s > s.max() * 4 * torch.finfo(wide.dtype).eps * sum(wide.shape)
    return ((U * live) @ Vh).reshape(g.shape)


_NAMED: dict[str, Callable[[Tensor], Tensor]] = {
    "frobenius": _frobenius,
    "max": torch.sign,
    "spectral": _spectral,
}
