"""A small model, its loss, and steps on it."""

import torch


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
