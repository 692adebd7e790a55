"""Checkpoints: the whole state of a fit between two steps, in tensors and text, no objects."""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from attsvm._utils.files import beside, check_in
from attsvm.errors import BadTokens, Unsupported
from attsvm.torch.fitting.history import Record
from attsvm.torch.fitting.plan import Plan, differences
from attsvm.torch.networks import Network

NAME = "checkpoint.pt"
_KIND = "attsvm fit 1"
# A run may be carried on for longer: what was done is the same.
_FREE = ("epochs",)
# What reading something else raises.
_UNREADABLE = (
    RuntimeError,
    pickle.UnpicklingError,
    LookupError,
    TypeError,
    ValueError,
    EOFError,
    OSError,
)


@dataclass
class State:
    """Where a fit is: the next stretch of steps, what was recorded, seconds spent so far."""

    network: Network
    optimizers: list[Optimizer]
    stretch: int = 0
    step: int = 0
    seconds: float = 0.0
    records: tuple[Record, ...] = ()
    collapsed: bool = False


def save(state: State, plan: Plan, digest: str, file: Path) -> None:
    """Write a checkpoint in one move."""
    said = {
        "kind": _KIND,
        "plan": plan.to_dict(),
        "data": digest,
        "stretch": state.stretch,
        "step": state.step,
        "seconds": state.seconds,
        "records": [record._asdict() for record in state.records],
        "collapsed": state.collapsed,
    }
    tensors = {
        "network": state.network.state_dict(),
        "optimizers": [one.state_dict() for one in state.optimizers],
    }
    with beside(file) as target:
        torch.save({"said": json.dumps(said), **tensors}, target)


def load(state: State, plan: Plan, digest: str, file: Path) -> None:
    """Put a checkpoint's state into a new run. Raises Unsupported where it is of another plan."""
    check_in(file, "the checkpoint of a fit")
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("not what torch.save writes")
        found: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
        said = json.loads(found["said"])
        known = said["kind"] == _KIND
        records = tuple(Record(**record) for record in said["records"])
    except _UNREADABLE as error:
        raise BadTokens(f"{file} is no checkpoint of a fit, or it is cut") from error
    if not known:
        raise BadTokens(f"{file} was written by another version of attsvm ({said['kind']})")
    freed = {name: getattr(plan, name) for name in _FREE}
    if other := differences(plan, said["plan"] | freed):
        raise Unsupported(f"{file} is of another plan: {'; '.join(other)}")
    if said["data"] != digest:
        raise Unsupported(f"{file} is of other data: the texts or images are not the same")
    if said["stretch"] > plan.epochs * plan.records:
        raise Unsupported(f"{file} is past {plan.epochs} epochs: ask for more")
    state.network.load_state_dict(found["network"])
    for one, kept in zip(state.optimizers, found["optimizers"], strict=True):
        one.load_state_dict(kept)
    state.stretch, state.step, state.records = said["stretch"], said["step"], records
    state.seconds, state.collapsed = said["seconds"], said["collapsed"]
