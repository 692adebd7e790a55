"""Training as the papers' code does it: PyTorch's automatic gradient, one instance at a time.

loss = (1/n) Σ log(1 + exp(−y softmax(X W z)·X v)),   W ← W − η G/(‖G‖ + ε),   in float64
"""

from __future__ import annotations

from attsvm.bench.task import EPS, Answer, Task
from attsvm.errors import Unsupported
from attsvm.tokens import Floats


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
    W = first.requires_grad_(True)
    for _ in range(run.steps):
        s = torch.softmax(torch.bmm(X, (z @ W.T).unsqueeze(2)).squeeze(2), dim=1)
        f = (s * (X @ v)).sum(dim=1)
        loss = torch.nn.functional.softplus(-y * f).mean()
        loss.backward()
        with torch.no_grad():
            G = W.grad
            W -= run.lr * G / (G.norm() + EPS)
            W.grad = None
    found: Floats = W.detach().numpy()
    return found
