"""Batches: the inputs of a plan as tensors, and the order in which an epoch takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attsvm.datasets.labelled import PAD, Labelled, Vocabulary
from attsvm.errors import Unsupported
from attsvm.torch.fitting.plan import Plan

# Texts of so many batches are ordered by length together, so that few numbers are padding.
_POOL = 16
# Inputs that are measured at once.
_AT_ONCE = 256


@dataclass(frozen=True)
class Inputs:
    """x (n, …) and y (n,) of one part; lengths (n,) of texts, [cls] with them, else None."""

    x: Tensor
    y: Tensor
    lengths: Tensor | None

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs at these places, cut to the longest text among them, and their classes."""
        x = self.x[places]
        if self.lengths is not None:
            x = x[:, : int(self.lengths[places].max())]
        return x, self.y[places]

    def in_order(self, most: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The first inputs in large batches, texts by length."""
        n = len(self) if most is None else min(most, len(self))
        places = torch.arange(n)
        if self.lengths is not None:
            places = torch.argsort(self.lengths[:n], stable=True)
        for start in range(0, n, _AT_ONCE):
            yield self.batch(places[start : start + _AT_ONCE])


@dataclass(frozen=True)
class Encoded:
    """The three parts as tensors. vocabulary: of texts, else None."""

    train: Inputs
    valid: Inputs
    test: Inputs
    vocabulary: Vocabulary | None


def encoded(plan: Plan, data: Labelled) -> Encoded:
    """A set as the plan's network takes it; the words are those of the training part."""
    if data.kind != plan.task:
        raise Unsupported(f"the plan is for {plan.task} and {data.name} holds {data.kind}")
    known = Vocabulary.of(data.train.inputs, plan.vocabulary) if data.kind == "text" else None
    made = []
    for part in (data.train, data.valid, data.test):
        y = torch.from_numpy(np.asarray(part.labels, dtype=np.int64))
        if known is not None:
            x = torch.from_numpy(known.encode(part.inputs, length=plan.length))
            made.append(Inputs(x, y, (x != PAD).sum(dim=1)))
        else:
            x = torch.from_numpy(np.array(part.inputs, dtype=np.float32))
            made.append(Inputs(x.to(getattr(torch, plan.dtype)), y, None))
    train, valid, test = made
    return Encoded(train, valid, test, known)


def order(inputs: Inputs, plan: Plan, epoch: int) -> list[Tensor]:
    """The places of each batch of an epoch, drawn from the plan's seed and the epoch's number."""
    draw = torch.Generator().manual_seed(plan.seed * 100_003 + epoch)
    places = torch.randperm(len(inputs), generator=draw)
    if inputs.lengths is None:
        return list(places.split(plan.batch))
    batches: list[Tensor] = []
    for pool in places.split(plan.batch * _POOL):
        ranked = pool[torch.argsort(inputs.lengths[pool], stable=True)]
        batches += ranked.split(plan.batch)
    return [batches[k] for k in torch.randperm(len(batches), generator=draw).tolist()]
