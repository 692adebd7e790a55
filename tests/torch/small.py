"""A small model with steps on it, and small data and configs for fits."""

import numpy as np
import torch

from attsvm.datasets.labelled import Labelled, Part
from attsvm.torch import config_of


def made(seed=0, width=5):
    """Two layers with biases, drawn from a seed."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 3)
    )


def quadratic(model, step=0):
    """The squared error on data drawn from the number of the step."""
    x = next(model.parameters())
    draw = torch.Generator().manual_seed(100 + step)
    data = torch.randn(16, 4, generator=draw).to(x.dtype)
    aim = torch.randn(16, 3, generator=draw).to(x.dtype)
    return ((model(data) - aim) ** 2).mean()


def moved(model, optimizer, step=0):
    """One step."""
    optimizer.zero_grad()
    quadratic(model, step).backward()
    optimizer.step()


def trained(model, optimizer, first, last):
    """Steps first, …, last − 1."""
    for step in range(first, last):
        moved(model, optimizer, step)


def texts(count=96, seed=0):
    """Texts whose class is the one opinion word in them, among words that say nothing."""
    draw = np.random.default_rng(seed)

    def part(n):
        labels = draw.integers(0, 2, n)
        rows = []
        for label in labels:
            words = [f"w{k}" for k in draw.integers(0, 12, draw.integers(1, 7))]
            words.insert(int(draw.integers(0, len(words) + 1)), ("bad", "good")[label])
            rows.append(words)
        return Part(rows, labels)

    return Labelled("made up", "text", ("bad", "good"), part(count), part(32), part(32))


def small_config(**changes):
    """A config for them."""
    sizes = {"width": 16, "layers": 1, "heads": 2, "hidden": 16, "length": 8, "batch": 16}
    return config_of("text", sizes | {"epochs": 4, "measured": 96, "lr": None} | changes)


def equal(one, other):
    """Whether two fits have the same records and the same weights, bit by bit."""
    ours, theirs = one.network.state_dict(), other.network.state_dict()
    same = all(np.array_equal(ours[k].float().numpy(), theirs[k].float().numpy()) for k in ours)
    return one.records == other.records and same
