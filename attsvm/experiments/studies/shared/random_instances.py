"""Random instances of the averaged experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.group import Drawn
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.training.models.gradient.attention import attend
from attsvm.training.models.gradient.batch import Batch


def drawn(
    shape: Sequence[int], seed: int, *, queries: str = "free", **options: Any
) -> tuple[Tokens, Floats]:
    """Tokens and head of the unit-sphere family, shape = (n, T, d); queries: "free", "first" for
    each input's first token, or "none"."""
    arrays = sphere_arrays(*shape, seed=seed, **options)
    z = {"free": arrays["z"], "none": None}.get(queries, queries)
    return Tokens(arrays["X"], queries=z, labels=arrays["y"]), arrays["v"]


def compact(shape: Sequence[int], seed: int) -> tuple[Tokens, Floats]:
    """The draw in coordinates of the spans of its tokens and of its queries, where d exceeds them.

    Inner products stay, and a W that starts at zero never leaves those spans, so that training and
    problems are the same at any d.
    """
    tokens, v = drawn(shape, seed)
    n, T, d = shape
    if d <= n * T:
        return tokens, v
    keys = np.linalg.qr(np.asarray(tokens.X).reshape(n * T, d).T)[0]
    queries = np.linalg.qr(tokens.queries.T)[0]
    return Tokens(tokens.X @ keys, queries=tokens.queries @ queries, labels=tokens.labels), v @ keys


def compact_sphere(seeds: Sequence[int], n: int, T: int, d: int) -> Drawn:
    """The family of `drawn`, each instance in the coordinates of `compact`."""
    pairs = [compact((n, T, d), seed) for seed in seeds]
    return Drawn([tokens for tokens, _ in pairs], np.stack([v for _, v in pairs]))


def attention(tokens: Tokens, W: Floats) -> Floats:
    """The attention (n, T) under W (d, dq)."""
    b = Batch.of(tokens)
    logs, _, _ = attend(b.keys, b.values, b.queries, b.present, np.ascontiguousarray(W)[None])
    return np.exp(logs[0])


def best_problem(tokens: Tokens, v: Any) -> Problem:
    """The problem of the best tokens under the head v."""
    return Problem.of(tokens, Selection.best(tokens, v))
