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
    "ngd": lambda x: NormalizedGD(x, lr=0.05),
    "sgd": lambda x: torch.optim.SGD(x, lr=3.0),
    "adam": lambda x: torch.optim.Adam(x, lr=1e-2),
    "mirror": lambda x: MirrorDescent(x, lr=0.1, p=1.5),
}


class Finder(nn.Module):
    """One head that looks from each input's last token for a marked one; only W_Q, W_K are trained.

    What it reads is the second entry of the tokens, so that the loss falls by attention alone.
    """

    def __init__(self, d=8):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        q, k = self.q_proj(x[:, -1:]), self.k_proj(x)
        o = nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])
        return o[:, 0, 0, 1]


def data(seed, n=64, T=8, d=8):
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
    W_q, W_k, b_q, b_k = (
        getattr(m, part) for part in ("weight", "bias") for m in (model.q_proj, model.k_proj)
    )
    s = np.sort(logits_of(x[:, -1:], x, W_q, W_k, b_q, b_k, 1)[:, 0, 0], axis=1)
    return np.median(s[:, -1] - np.log(np.exp(s[:, :-1]).sum(axis=1)))


def run(rule, seed, most):
    """(the monitor's warning or None, the first step that is truly saturated or None)."""
    torch.manual_seed(seed)
    model = Finder()
    x, y = data(seed)
    optimizer = RULES[rule](model.parameters())
    truth = None
    with Monitor(model) as monitor, warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)
        for step in range(most):
            if true_odds(model, x) >= LEVEL:
                truth = step
                break
            optimizer.zero_grad()
            nn.functional.softplus(-y * model(x)).mean().backward()
            optimizer.step()
            monitor.step()
    return (monitor.warnings or [None])[0], truth


def main():
    """Print the table."""
    torch.set_num_threads(1)
    print("rule     seed   warned at   of step                    truly")
    for rule in RULES:
        for seed in range(3):
            said, truth = run(rule, seed, most=1500)
            when = "–" if said is None else f"{said.step}"
            what = "–"
            if said is not None:
                what = f"{said.linear:.0f} (linear fit), {said.log:.3g} (log fit)"
            print(f"{rule:8s} {seed:4d}   {when:>9s}   {what:26s} {truth}")


if __name__ == "__main__":
    main()
