"""Inputs with one relevant token among noise, some of whose labels are flipped.

Input i has the true label y_i and tokens in R^d: the relevant one is s (ν + y_i μ), μ and ν
orthonormal, s the strength of the signal; the others are N(0, I/d), of length about one. The label
that is given is −y_i with the probability of a flip. The head reads along μ; ν is what relevant
tokens have in common, so that a prompt along ν finds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.group import Drawn
from attsvm.problem.tokens import Tokens


def _inputs(
    draw: np.random.Generator, shape: Sequence[int], signal: float
) -> tuple[Floats, Floats, Ints]:
    """Tokens (n, T, d), labels (n,) and the places (n,) of the relevant tokens.

    One draw for every strength: only the relevant tokens change with it.
    """
    n, T, d = shape
    X = draw.standard_normal((n, T, d)) / np.sqrt(d)
    y = draw.choice([-1.0, 1.0], size=n)
    place = draw.integers(0, T, n)
    X[np.arange(n), place] = 0.0
    X[np.arange(n), place, 0] = signal * y
    X[np.arange(n), place, 1] = signal
    return X, y, place


def flipped(shape: Sequence[int], seeds: Sequence[int], *, signal: float, flip: float) -> Drawn:
    """The instances of these seeds, shape = (n, T, d), d ≥ 2; μ and ν are the first two axes.

    about: the places (B, n) of the relevant tokens, and which labels (B, n) are flipped.
    """
    n, _, d = shape
    stack, relevant, flips = [], [], []
    for seed in seeds:
        draw = np.random.default_rng([seed, *shape])
        turned = draw.uniform(size=n) < flip
        X, y, place = _inputs(draw, shape, signal)
        stack.append(Tokens(X, labels=np.where(turned, -y, y)))
        relevant.append(place)
        flips.append(turned)
    heads = np.tile(np.eye(d)[0], (len(stack), 1))
    about = {"relevant": np.stack(relevant), "flips": np.stack(flips)}
    return Drawn(stack, heads, about=about)


def fresh_share(shape: Sequence[int], seed: int, *, signal: float, p: Floats, count: int) -> float:
    """Of so many fresh inputs of an instance's own stream, the share whose relevant token has the
    largest logit under the prompt p (d,)."""
    _, T, d = shape
    draw = np.random.default_rng([seed, *shape, 1])
    X, _, place = _inputs(draw, (count, T, d), signal)
    return float(((X @ p).argmax(axis=1) == place).mean())
