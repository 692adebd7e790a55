"""Random problems of every kind that has gone wrong somewhere: one seed, one problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm import Problem, Selection, Tokens
from attsvm.errors import BadSelection

KINDS = (
    "plain", "planted", "duplicate-token", "near-duplicate", "duplicate-input", "masked",
    "zero-rows", "ties", "zero-right-sides", "mixed", "sparse", "integer", "low-rank",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A problem and what it was made of."""

    seed: int
    kind: str
    scale: float
    problem: Problem


def case(seed: int, *, large: bool = False) -> Case:
    """The problem of this seed: sizes, kind and scale all drawn from it.

    large: more than 100 margins.
    """
    draw = np.random.default_rng([20240, seed])
    kind = KINDS[seed % len(KINDS)]
    while True:
        problem = _problem(draw, kind, large)
        if problem is not None:
            scale, made = problem
            return Case(seed, kind, scale, made)


def _problem(draw: Any, kind: str, large: bool) -> tuple[float, Problem] | None:
    n = int(draw.integers(8, 20)) if large else int(draw.integers(1, 8))
    T = int(draw.integers(8, 16)) if large else int(draw.integers(2, 8))
    d = int(draw.integers(2, 14))
    dq = int(draw.choice([1, 1, 2, d, int(draw.integers(2, 14))]))
    X = draw.standard_normal((n, T, d))
    z = draw.standard_normal((n, dq)) if dq > 1 else np.ones((n, 1))
    alpha = draw.integers(0, T, n)
    mask = None
    b = np.ones((n, T))
    if kind == "sparse":
        X *= draw.random(X.shape) < 0.4
    elif kind == "integer":
        X, z = np.round(X), np.round(2 * z)
    elif kind == "low-rank":
        X = X[..., :1] * draw.standard_normal(d) + X[..., 1:2] * draw.standard_normal(d)
    elif kind == "duplicate-token":
        X[0, 0] = X[0, T - 1]
    elif kind == "near-duplicate":
        i, t = int(draw.integers(n)), int(draw.integers(T))
        X[i, t] = X[i, (t + 1) % T] + 10.0 ** -draw.integers(3, 11) * draw.standard_normal(d)
    elif kind == "duplicate-input" and n > 1:
        X[1], z[1], alpha[1] = X[0], z[0], alpha[0]
    elif kind == "masked":
        mask = draw.random((n, T)) < 0.7
        mask[np.arange(n), alpha] = True
    elif kind == "zero-rows":
        z[int(draw.integers(n))] = 0.0
        b[:] = draw.choice([0.0, 1.0])
    if kind in ("planted", "masked", "duplicate-input", "ties", "zero-right-sides", "mixed"):
        # Separable for sure: the kept token is the best under a random matrix.
        score = np.einsum("ntd,de,ne->nt", X, draw.standard_normal((d, dq)), z)
        alpha = (
            np.where(mask, score, -np.inf).argmax(axis=1)
            if mask is not None
            else score.argmax(axis=1)
        )
    kept = np.zeros((n, T), dtype=bool)
    kept[np.arange(n), alpha] = True
    if kind in ("ties", "mixed"):
        kept[np.arange(n), draw.integers(0, T, n)] = True
    if kind in ("zero-right-sides", "mixed"):
        b[draw.random(n) < 0.5] = 0.0
    if kind == "mixed":
        b *= draw.choice([0.5, 1.0, 3.0], size=(n, 1))
    scale = 10.0 ** float(draw.integers(-8, 9)) if draw.random() < 0.5 else 1.0
    try:
        tokens = Tokens(X * scale, queries=z * draw.choice([1.0, scale]), mask=mask)
        return scale, Problem.of(tokens, Selection.of(tokens, kept), b=b)
    except BadSelection:
        return None  # nothing left to separate: drawn again
