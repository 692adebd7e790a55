"""Lion, as a user would write it for torch; the tests also load this file from the command line."""

import torch

from attsvm.torch import as_optimizer


class Lion(torch.optim.Optimizer):
    """x ← (1 − η λ) x − η sign(β₁ m + (1 − β₁) g),   m ← β₂ m + (1 − β₂) g."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, (b1, b2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(torch.sign(b1 * m + (1 - b1) * p.grad), alpha=lr)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


lion = as_optimizer(Lion, lr=1e-2)
