"""The optimizers that a plan can name, with the groups and the rate that suit each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.optim import SGD, Adam, AdamW, Optimizer

from attsvm.errors import Unsupported
from attsvm.torch.fitting.plan import Plan
from attsvm.torch.mirror import MirrorDescent
from attsvm.torch.networks import Network
from attsvm.torch.optimizer import Group
from attsvm.torch.parameters import groups
from attsvm.torch.steepest import SteepestDescent, direction_of

P = 1.1
# What Muon's authors, and torch, have.
_MUON_MOMENTUM = 0.95
Make = Callable[[Plan, list[Group], dict[str, Any]], list[Optimizer]]


@dataclass(frozen=True)
class Named:
    """make(plan, groups, options) gives the optimizers. lr: the usual rate. takes: p, momentum."""

    make: Make
    lr: float
    takes: tuple[str, ...] = ()


def _mirror(normalized: bool) -> Make:
    def make(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
        p = P if plan.p is None else plan.p
        for part in parts:
            part["p"] = p if part["p"] != 2 else 2.0
        made = MirrorDescent(parts, p=p, normalized=normalized, momentum=plan.momentum, **options)
        return [made]

    return make


def _steepest(norm: str) -> Make:
    def make(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
        made = SteepestDescent(_plain(parts), norm=norm, momentum=plan.momentum, **options)
        return [made]

    return make


def _sgd(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
    return [SGD(_plain(parts), momentum=plan.momentum, **options)]


def _adam(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
    return [Adam(_plain(parts), fused=True, **options)]


def _adamw(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
    return [AdamW(_plain(parts), fused=True, **options)]


def _muon(plan: Plan, parts: list[Group], options: dict[str, Any]) -> list[Optimizer]:
    """Muon for the matrices inside the network, AdamW at a tenth of its rate for all else."""
    try:
        from torch.optim import Muon
    except ImportError as error:
        raise Unsupported("this torch has no Muon: it has from 2.9 on") from error
    inner = [part for part in _plain(parts) if part["inner"]]
    outer = [part | {"lr": part["lr"] * 0.1} for part in _plain(parts) if not part["inner"]]
    return [
        Muon(inner, momentum=plan.momentum or _MUON_MOMENTUM, **options),
        AdamW(outer, fused=True, **options),
    ]


def _plain(parts: list[Group]) -> list[Group]:
    return [{name: x for name, x in part.items() if name != "p"} for part in parts]


OPTIMIZERS: dict[str, Named] = {
    "adam": Named(_adam, 1e-3),
    "adamw": Named(_adamw, 1e-3),
    "mirror": Named(_mirror(False), 0.1, ("p", "momentum")),
    "muon": Named(_muon, 1e-2, ("momentum",)),
    "ngd": Named(_steepest("frobenius"), 1e-2, ("momentum",)),
    "nmirror": Named(_mirror(True), 1e-3, ("p", "momentum")),
    "sgd": Named(_sgd, 0.1, ("momentum",)),
}
_RATES = {"frobenius": 1e-2, "max": 1e-3, "spectral": 1e-2}


def named(name: str) -> Named:
    """The optimizer of this name; steepest:NORM takes a norm of attsvm.torch.SteepestDescent."""
    first, _, norm = name.partition(":")
    if first == "steepest":
        direction_of(norm)
        return Named(_steepest(norm), _RATES.get(norm, 1e-2), ("momentum",))
    if name not in OPTIMIZERS:
        known = ", ".join((*OPTIMIZERS, "steepest:NORM"))
        raise Unsupported(f"optimizer is {name!r}: known are {known}")
    return OPTIMIZERS[name]


def rate_of(plan: Plan) -> float:
    """The plan's rate, or the usual one of its optimizer."""
    return named(plan.optimizer).lr if plan.lr is None else plan.lr


def check_optimizer(plan: Plan) -> None:
    """Raises Unsupported unless the plan's optimizer exists and takes what the plan gives it."""
    entry = named(plan.optimizer)
    if plan.p is not None and "p" not in entry.takes:
        raise Unsupported(f"p is for mirror and nmirror: {plan.optimizer} has none")
    if plan.p is not None and not plan.p > 1:
        raise Unsupported(f"p is {plan.p:g}: it must be above 1")
    if plan.momentum and "momentum" not in entry.takes:
        raise Unsupported(f"{plan.optimizer} has averages of its own and takes no momentum")


def optimizers_of(plan: Plan, network: Network) -> list[Optimizer]:
    """The optimizers of a plan over a network's parameters: one, or two with muon.

    Matrices, and apart from them the embeddings with a rate of their own; biases and gains have
    p = 2 under mirror descent.
    """
    check_optimizer(plan)
    lr = rate_of(plan)
    tables = {id(x) for x in network.embeddings}
    parts: dict[tuple[bool, ...], Group] = {}
    for group in groups(network, p=P):
        for name, x in group["params"]:
            matrix, table = group["p"] != 2, id(x) in tables
            inner = matrix and not table and name.startswith("blocks.")
            rate = lr * (plan.embedding_lr if table else 1.0)
            made = {"params": [], "p": group["p"], "lr": rate, "inner": inner}
            parts.setdefault((matrix, table, inner), made)["params"].append((name, x))
    options = {"lr": lr, "weight_decay": plan.weight_decay}
    return named(plan.optimizer).make(plan, list(parts.values()), options)
