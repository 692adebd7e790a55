"""What a record of the monitor adds to a training step, as in docs/torch.md.

    python -m tests.torch.costs

prints processor time on one thread.

Steps with a record and steps without one alternate, so that both see the same machine. The share
of a run is the cost of a record times the records it has, plus what every other step adds.
"""

import sys
import time

import numpy as np
import torch
from torch import nn

from attsvm.torch import Monitor
from attsvm.torch.monitor import _after
from tests.torch.attending import Functional


class Block(nn.Module):
    """A block of a transformer with scaled_dot_product_attention."""

    def __init__(self, d, heads):
        super().__init__()
        self.attention = Functional(d, heads, is_causal=True)
        self.norm, self.other = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wide = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.wide(self.other(x))


def models():
    """Name -> model, batch."""
    torch.manual_seed(0)
    made = {
        "functional, d 256, 4 layers, 16 × 128": nn.Sequential(*(Block(256, 8) for _ in range(4)))
    }
    for d, heads, layers, length in ((64, 4, 2, 32), (256, 8, 4, 128)):
        layer = nn.TransformerEncoderLayer(d, heads, 4 * d, batch_first=True)
        name = f"nn.TransformerEncoder, d {d}, {layers} layers, 16 × {length}"
        made[name] = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    sizes = ((128, 256), (32, 64), (128, 256))
    return {
        name: (model, torch.randn(16, *size))
        for (name, model), size in zip(made.items(), sizes, strict=True)
    }


def seconds(model, x, pairs=25):
    """Of a step without a monitor, of one with it that is not due, of one with a record."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(monitor):
        start = time.process_time()
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        if monitor is not None:
            monitor.step()
        return time.process_time() - start

    bare, record = [], []
    for _ in range(pairs + 2):
        bare.append(step(None))
        with Monitor(model) as monitor:
            record.append(step(monitor))
    with Monitor(model) as monitor:
        step(monitor)
        monitor._hooks.stop()
        monitor._next = 10**9
        # What such a step adds is too little for a difference of whole steps: it is timed alone.
        start = time.process_time()
        for _ in range(1000):
            monitor.step()
        idle = (time.process_time() - start) / 1000
    usual = np.median(bare[2:])
    return usual, usual + idle, np.median(record[2:])


def count_records(steps, every=200):
    """How many records a run of so many steps has at the default rate."""
    step = count = 0
    while step < steps:
        step, count = _after(step, every), count + 1
    return count


def print_monitor():
    """Print the table of the monitor; 1 if a share reaches 5 %, else 0."""
    worst = 0.0
    print("a step, ms: without   not due   a record      share of 100, 1,000, 10,000 steps")
    for name, (model, x) in models().items():
        bare, idle, record = seconds(model, x)
        said = ""
        for steps in (100, 1000, 10000):
            cost = max(idle - bare, 0.0) * steps + (record - bare) * count_records(steps)
            share = cost / (bare * steps)
            worst = max(worst, share)
            said += f"  {100 * share:5.2f} %"
        print(f"{name}\n{bare * 1e3:19.1f}{idle * 1e3:10.2f}{record * 1e3:11.1f}    {said}")
    return int(worst >= 0.05)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(print_monitor())
