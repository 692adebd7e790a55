"""Small data and plans for fits."""

import numpy as np

from attsvm.datasets.labelled import Labelled, Part
from attsvm.torch.fitting import plan_of


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


def small(**changes):
    """A plan for them."""
    sizes = {"width": 16, "layers": 1, "heads": 2, "hidden": 16, "length": 8, "batch": 16}
    return plan_of("text", sizes | {"epochs": 4, "measured": 96, "lr": None} | changes)


def equal(one, other):
    """Whether two fits have the same records and the same weights, bit by bit."""
    ours, theirs = one.network.state_dict(), other.network.state_dict()
    same = all(np.array_equal(ours[k].float().numpy(), theirs[k].float().numpy()) for k in ours)
    return one.records == other.records and same
