"""What the monitor costs: processor time of training steps with and without it, one thread.

    python -m tests.torch.overhead            # about two minutes
    python -m tests.torch.overhead --quick

Steps with a record and steps without one alternate, so that both see the same machine. A record's
cost is the difference of medians; the share of a run is that times the records it has at the
default rate, plus what every other step adds. Ends with 1 when a run of 100 steps or more
pays 5 %.
"""

import statistics
import sys
import time

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
    small = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    usual = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return {
        "nn.TransformerEncoder, d 64, 2 layers, 16 × 32": (
            nn.TransformerEncoder(small, 2, enable_nested_tensor=False),
            torch.randn(16, 32, 64),
        ),
        "nn.TransformerEncoder, d 256, 4 layers, 16 × 128": (
            nn.TransformerEncoder(usual, 4, enable_nested_tensor=False),
            torch.randn(16, 128, 256),
        ),
        "functional, d 256, 4 layers, 16 × 128": (
            nn.Sequential(*(Block(256, 8) for _ in range(4))),
            torch.randn(16, 128, 256),
        ),
    }


def measured(model, x, pairs):
    """Seconds of a step without a monitor, with one that is not due, with a record; medians."""
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
    for _ in range(2):
        step(None)
    for _ in range(pairs):
        bare.append(step(None))
        with Monitor(model, optimizer) as monitor:
            record.append(step(monitor))
    with Monitor(model, optimizer) as monitor:
        step(monitor)
        monitor._watch.stop()
        monitor._next = 10**9
        # What such a step adds is too little for a difference of whole steps: it is timed alone.
        (hook,) = optimizer._optimizer_step_pre_hooks.values()
        start = time.process_time()
        for _ in range(1000):
            hook(optimizer, (), {})
            monitor.step()
        idle = (time.process_time() - start) / 1000
    usual = statistics.median(bare)
    return usual, usual + idle, statistics.median(record)


def records(steps, every=200):
    """How many records a run of so many steps has at the default rate."""
    step = count = 0
    while step < steps:
        step, count = _after(step, every), count + 1
    return count


def main():
    """Print the table."""
    torch.set_num_threads(1)
    pairs = 5 if "--quick" in sys.argv else 25
    worst = 0.0
    print("a step, ms: without   not due   a record      share of 100, 1,000, 10,000 steps")
    for name, (model, x) in models().items():
        bare, idle, record = measured(model, x, pairs)
        shares = []
        for steps in (100, 1000, 10000):
            cost = max(idle - bare, 0.0) * steps + (record - bare) * records(steps)
            shares.append(cost / (bare * steps))
        worst = max(worst, *shares)
        said = "  ".join(f"{100 * share:5.2f} %" for share in shares)
        print(f"{name}\n{bare * 1e3:19.1f}{idle * 1e3:10.2f}{record * 1e3:11.1f}      {said}")
    return int(worst >= 0.05)


if __name__ == "__main__":
    sys.exit(main())
