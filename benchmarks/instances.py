"""The instances: tokens and queries uniform on the sphere, from one seed each.

Every function returns the arrays of a task: X (B, n, T, d), z (B, n, dq) or None, alpha (B, n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from benchmarks.task import Size, Training

# Redraws after which a size counts as infeasible.
_MOST = 100
# Tokens are made in blocks of about this many numbers, so that no second copy of X is needed.
_BLOCK = 1 << 22

Arrays = dict[str, Any]


def random_selection(seed: int, size: Size, *, stack: int) -> Arrays:
    """Random tokens with a random selection; a problem that is infeasible is drawn again."""
    rng = np.random.default_rng(seed)
    found = [_separable(rng, size) for _ in range(stack)]
    X, z, alpha = (np.stack(part) for part in zip(*found, strict=True))
    return {"X": X, "z": z, "alpha": alpha}


def planted_20(seed: int, size: Size, *, stack: int, kind: str = "float64") -> Arrays:
    """Tokens selected by a Gaussian W*, with a margin of 20 % of the best score.

    kind: the precision in which tokens are kept; they are drawn in double precision.
    """
    return _planted(seed, size, stack, margin=0.2, kind=kind)


def planted_50(seed: int, size: Size, *, stack: int) -> Arrays:
    """Tokens selected by a Gaussian W*, with a margin of 50 % of the best score."""
    return _planted(seed, size, stack, margin=0.5)


def planted_prompt(seed: int, size: Size, *, stack: int) -> Arrays:
    """Tokens selected by a Gaussian prompt p*: alpha_i = argmax_t x_it·p*."""
    n, T, d = size
    rng = np.random.default_rng(seed)
    X, alpha = np.empty((stack, n, T, d)), np.empty((stack, n), np.int64)
    for k in range(stack):
        p = rng.standard_normal(d)
        _fill_sphere(rng, X[k])
        alpha[k] = (X[k] @ p).argmax(axis=1)
    return {"X": X, "z": None, "alpha": alpha}


def all_choices(seed: int, size: Size, *, stack: int) -> Arrays:
    """One prompt problem with a Gaussian head v and no selection: all of them are asked for."""
    n, T, d = size
    rng = np.random.default_rng(seed)
    X = np.empty((1, n, T, d))
    _fill_sphere(rng, X[0])
    v = rng.standard_normal(d)
    return {"X": X, "z": None, "alpha": np.empty((1, 0), np.int64), "v": v}


def training(seed: int, size: Size, *, stack: int, steps: int = 2000, lr: float = 0.1) -> Arrays:
    """Instances to train a weight on: tokens, queries and heads on the sphere, labels ±1 at random.

    Every weight starts uniformly in ±1/√d, as a linear layer does.
    """
    n, T, d = size
    rng = np.random.default_rng(seed)
    X, z, v = np.empty((stack, n, T, d)), np.empty((stack, n, d)), np.empty((stack, d))
    for out in (X, z, v):
        _fill_sphere(rng, out)
    y = rng.choice([-1.0, 1.0], size=(stack, n))
    start = rng.uniform(-1.0, 1.0, size=(stack, d, d)) / np.sqrt(d)
    alpha = np.empty((stack, 0), np.int64)
    return {"X": X, "z": z, "alpha": alpha, "training": Training(v, y, start, lr, steps)}


def _separable(rng: np.random.Generator, size: Size) -> tuple[Any, Any, Any]:
    """X (n, T, d), z (n, d), alpha (n,) of a random selection that some W meets."""
    n, T, d = size
    for _ in range(_MOST):
        X, z = np.empty((n, T, d)), np.empty((n, d))
        _fill_sphere(rng, X)
        _fill_sphere(rng, z)
        alpha = rng.integers(T, size=n)
        tokens = Tokens(X, queries=z)
        # Whether a W exists does not depend on the norm; any feasible W shows it.
        problem = Problem.of(tokens, Selection.of(tokens, alpha))
        if solve(problem, "frobenius", tol=1e-3).W is not None:
            return X, z, alpha
    raise Unsupported(f"no separable selection of size {size} in {_MOST} draws")


def _planted(seed: int, size: Size, stack: int, *, margin: float, kind: str = "float64") -> Arrays:
    """alpha_i = argmax_t x_it·W* z_i; other tokens above (1 − margin) of the best are negated."""
    n, T, d = size
    rng = np.random.default_rng(seed)
    X, z = np.empty((stack, n, T, d), dtype=kind), np.empty((stack, n, d))
    alpha = np.empty((stack, n), np.int64)
    step = max(1, _BLOCK // (T * d))
    for k in range(stack):
        _fill_sphere(rng, z[k])
        logit = z[k] @ rng.standard_normal((d, d)).T
        for start in range(0, n, step):
            block = slice(start, min(start + step, n))
            tokens = np.empty(X[k, block].shape)
            _fill_sphere(rng, tokens)
            scores = np.matmul(tokens, logit[block, :, None])[:, :, 0]
            # An input without a positive score is turned round as a whole.
            below = (scores <= 0).all(axis=1)
            tokens[below] *= -1
            scores[below] *= -1
            place = np.arange(len(tokens))
            best = scores.argmax(axis=1)
            near = scores > (1 - margin) * scores[place, best][:, None]
            near[place, best] = False
            i, t = near.nonzero()
            tokens[i, t] *= -1
            X[k, block], alpha[k, block] = tokens, best
    return {"X": X, "z": z, "alpha": alpha}


def _fill_sphere(rng: np.random.Generator, out: Floats) -> None:
    """Points uniform on the sphere of the last axis, written into `out` block by block."""
    flat = out.reshape(-1, out.shape[-1])
    step = max(1, _BLOCK // flat.shape[1])
    for start in range(0, len(flat), step):
        block = flat[start : start + step]
        rng.standard_normal(out=block)
        block /= np.sqrt(np.einsum("kd,kd->k", block, block))[:, None]
