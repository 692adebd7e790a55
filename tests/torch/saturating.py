"""Runs whose attention saturates, and the step at which it truly does.

    python -m tests.torch.saturating

prints for each run when the monitor warned, of which step, and when half of all queries truly had
99 % of their attention on one key (looked at after every step, over every query).
"""

import warnings

import numpy as np
import torch
from torch import nn

from attsvm.torch import MirrorDescent, Monitor, NormalizedGD, SaturationWarning
from tests.torch.attending import logits_of

LEVEL = np.log(0.99 / 0.01)
RULES = {
    "ngd": lambda x: NormalizedGD(x, lr=0.02),
    "sgd": lambda x: torch.optim.SGD(x, lr=1.0),
    "adam": lambda x: torch.optim.Adam(x, lr=3e-3),
    "mirror": lambda x: MirrorDescent(x, lr=0.02, p=1.5),
}


class Finder(nn.Module):
    """One head of attention from a last token to the one that carries a mark, and a linear head."""

    def __init__(self, d=8):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, 1, batch_first=True)
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        o, _ = self.attention(x[:, -1:], x, x, need_weights=False)
        return self.head(o)[:, 0, 0]


def data(seed, n=128, T=8, d=8):
    """Tokens with a mark on one of them, whose second entry is the label."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, T, d)) * 0.5
    place, y = draw.integers(0, T - 1, n), draw.choice([-1.0, 1.0], n)
    x[:, :, 0] = 0.0
    x[np.arange(n), place, 0] = 2.0
    x[np.arange(n), place, 1] = 2.0 * y
    return (torch.as_tensor(a, dtype=torch.float32) for a in (x, y))


def true_odds(model, x):
    """The median over all queries of log(p/(1 − p)) of the largest attention, by plain formulas."""
    W_q, W_k, _ = model.attention.in_proj_weight.chunk(3)
    b_q, b_k, _ = model.attention.in_proj_bias.chunk(3)
    s = np.sort(logits_of(x[:, -1:], x, W_q, W_k, b_q, b_k, 1)[:, 0, 0], axis=1)
    return np.median(s[:, -1] - np.log(np.exp(s[:, :-1]).sum(axis=1)))


def run(rule, seed, most=20000):
    """(the monitor's warning or None, the first step that is truly saturated or None)."""
    torch.manual_seed(seed)
    model = Finder()
    x, y = data(seed)
    optimizer = RULES[rule](model.parameters())
    with Monitor(model, optimizer) as monitor, warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)
        for step in range(most):
            if true_odds(model, x) >= LEVEL:
                return (monitor.warnings or [None])[0], step
            optimizer.zero_grad()
            nn.functional.softplus(-y * model(x)).mean().backward()
            optimizer.step()
            monitor.step()
    return (monitor.warnings or [None])[0], None


def main():
    """Print the table."""
    torch.set_num_threads(1)
    print("rule     seed   warned at   of step (range)            truly")
    for rule in RULES:
        for seed in range(5):
            said, truth = run(rule, seed, most=4000)
            when = "–" if said is None else f"{said.step}"
            what = "–"
            if said is not None:
                what = f"{said.expected:.0f} ({said.first:.0f} to {said.last:.3g})"
            print(f"{rule:8s} {seed:4d}   {when:>9s}   {what:26s} {truth}")


if __name__ == "__main__":
    main()
