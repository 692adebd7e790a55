"""Processor time of a training step of the usual networks, one thread: the table of docs/torch.md.

python -m tests.torch.paces
"""

import time

import numpy as np
import torch

from attsvm.torch.fitting import data_of, fitted, plan_of

OPTIMIZERS = ("sgd", "mirror", "adamw", "ngd", "muon", "steepest:spectral")
STEPS = 100


def pace(task, optimizer, **changes):
    """The median of a step's milliseconds, the first ten left out."""
    counts = {"train_count": 32 * (STEPS + 10), "valid_count": 10, "test_count": 10, "measured": 10}
    plan = plan_of(task, counts | {"optimizer": optimizer, "epochs": 1} | changes)
    seen = []
    fitted(plan, data_of(plan), watch=lambda moment: seen.append(time.process_time()))
    return 1e3 * float(np.median(np.diff(seen[10:-1])))


def main():
    """Print the table."""
    torch.set_num_threads(1)
    rows = (
        ("text", {}),
        ("text", {"source": "imdb"}),
        ("text", {"layers": 1}),
        ("images", {}),
        ("images", {"patch": 4}),
    )
    print(" " * 24, *(f"{name:>18}" for name in OPTIMIZERS))
    for task, changes in rows:
        said = ", ".join([task, *(f"{name}={value}" for name, value in changes.items())])
        print(f"{said:24}", *(f"{pace(task, name, **changes):18.1f}" for name in OPTIMIZERS))


if __name__ == "__main__":
    main()
