"""Equalities that training must keep: between optimizers, models, clocks, and parts of one run."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath

import numpy as np
from scipy.interpolate import CubicSpline

from attsvm import Path, Tokens, measures, train
from attsvm._utils.arrays import Floats
from attsvm.datasets.instances import sphere_arrays
from attsvm.training.models import MODELS
from attsvm.training.optimizers import OPTIMIZERS
from tests.training.stacks import Stack, stack

COLUMNS = ("steps", "loss", "log_gradient", "top", "top_attention", "clock", "changed")


def prompt_against_weight(optimizer: str = "gd", steps: int = 300) -> float:
    """The largest difference between W(t) and p(t) aᵀ/‖a‖² when a is every input's query.

    The step on p is η‖a‖², or η‖a‖ where it is normalized.
    """
    made = sphere_arrays(4, 5, 6, seed=3)
    a = np.random.default_rng(0).standard_normal(6)
    with_query = Tokens(made["X"], queries=np.tile(a, (4, 1)), labels=made["y"])
    alone = Tokens(made["X"], labels=made["y"])
    size, lr = float(np.linalg.norm(a)), 0.05
    scaled = lr * (size if optimizer == "ngd" else size**2)
    W = train(with_query, optimizer=optimizer, head=made["v"], lr=lr, steps=steps)
    p = train(alone, model="prompt", optimizer=optimizer, head=made["v"], lr=scaled, steps=steps)
    moved = p.weights["p"][-1, 0][:, None] * a / size**2
    return float(np.abs(W.weights["W"][-1, 0] - moved).max())


def mirror_against_descent(mirror: str, plain: str, steps: int = 300) -> float:
    """The largest difference between the weights of two optimizers over all records."""
    tokens, heads = stack(3)
    one, two = (
        train(tokens, optimizer=optimizer, head=heads, steps=steps, init="normal:1").matrices()
        for optimizer in (mirror, plain)
    )
    return float(np.abs(one - two).max())


def every_combination() -> list[tuple[str, str]]:
    """Every model with every optimizer, P = 1.75 where an optimizer has one."""
    return [
        (model, optimizer.replace(":P", ":1.75")) for model in MODELS for optimizer in OPTIMIZERS
    ]


def _instances(model: str) -> tuple[Tokens | list[Tokens], Floats | None]:
    tokens, heads = stack(2, 3, 4, 5)
    if MODELS[model].prompt:
        tokens = [Tokens(t.X, labels=t.labels) for t in tokens]
    return tokens, None if MODELS[model].trains_head else heads


def continued_equals_whole(model: str, optimizer: str, folder: FilePath, cut: int = 23) -> bool:
    """Whether 41 steps are, in every digit, `cut` steps saved and loaded and the rest."""
    tokens, head = _instances(model)
    run = partial(
        train, tokens, head=head, model=model, optimizer=optimizer, init="normal:0.5", lr=0.02
    )
    whole, first = run(steps=41), run(steps=cut)
    first.save(folder / "part.npz", force=True)
    rest = train(tokens, head=head, steps=41 - cut, start=Path.load(folder / "part.npz"))
    pairs = [(getattr(rest, name), getattr(whole, name)) for name in COLUMNS]
    pairs += [(rest.weights[name], block) for name, block in whole.weights.items()]
    pairs += [(rest.state[name], part) for name, part in whole.state.items()]
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def curves_apart(step: float, made: Stack | None = None) -> float:
    """The largest distance between the directions of W under ngd and under gd at equal flow time.

    ngd makes 3/step steps of size `step`; gd makes steps of 10 · step until it is as late. Between
    its records, which are a twentieth of e apart, gd's direction is a cubic spline in log time.
    """
    tokens, heads = stack(1) if made is None else made
    fast = train(tokens, head=heads, lr=step, steps=round(3 / step), init="normal:0.1")
    count = int(np.exp(fast.clock[-1, 0]) / (10 * step)) + 2
    slow = train(tokens, optimizer="gd", head=heads, lr=10 * step, steps=count, init="normal:0.1")
    units = [path.matrices()[:, 0] / measures.size(path)[:, :, None] for path in (slow, fast)]
    curve = CubicSpline(slow.clock[1:, 0], units[0][1:])
    clock = fast.clock[:, 0]
    both = (clock > slow.clock[10, 0]) & (clock <= slow.clock[-1, 0])
    gaps = curve(clock[both]) - units[1][both]
    return float(np.linalg.norm(gaps, axis=(1, 2)).max())
