"""Training as the papers' code does it: PyTorch's automatic gradient, one instance at a time.

loss = (1/n) Σ log(1 + exp(−y softmax(X W z)·X v)),   W ← W − η G/(‖G‖ + ε),   in float64

The same work at each step as in the released notebook: a module whose linear layer maps every
token, torch.optim.SGD, the gradient normalized in place, W and the mean top probability stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from benchmarks.task import EPS, Answer, Task


def answer(task: Task) -> list[Answer]:
    """The last W of each instance."""
    return [Answer(_train(task, k), None) for k in range(task.stack)]


def _train(task: Task, k: int) -> Floats:
    import torch

    if task.training is None or task.z is None:
        raise Unsupported("the torch loop trains a weight only")
    run = task.training
    X, z, y, v, first = (
        torch.tensor(a) for a in (task.X[k], task.z[k], run.y[k], run.v[k], run.start[k])
    )
    model = _module(torch, first, v)
    optimizer = torch.optim.SGD([model.layer.weight], lr=run.lr)
    stored = np.zeros((run.steps, *first.shape))
    sure = np.zeros(run.steps)
    for step in range(run.steps):
        optimizer.zero_grad()
        f = model(X, z)
        loss = torch.log(1 + torch.exp(-y * f)).mean()
        loss.backward()
        G = model.layer.weight.grad
        G /= G.norm() + EPS
        optimizer.step()
        stored[step] = model.layer.weight.detach().T.numpy()
        sure[step] = model.attention.detach().max(dim=-1)[0].mean()
    found: Floats = stored[-1] if run.steps else first.numpy()
    return found


def _module(torch: Any, W: Any, v: Any) -> Any:
    """One attention layer with the weight W (d, dq) and the fixed decoder v."""

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(*W.shape, bias=False).double()
            self.layer.weight.data = W.T.clone()
            self.v = torch.nn.Parameter(v)

        def forward(self, X: Any, z: Any) -> Any:
            keys = self.layer(X)  # (n, T, dq)
            self.attention = torch.softmax(z.unsqueeze(1) @ keys.transpose(-2, -1), dim=-1)
            return (self.attention @ X @ self.v).view(-1)

    return Attention()
