"""Random instances of the averaged experiments, their starts, and where trained weights stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import Unsupported
from attsvm.experiments.group import Drawn, selected_by
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED
from attsvm.training.models.gradient.attention import attend
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.path import Path


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


def uniform_starts(seeds: Sequence[int], shapes: dict[str, tuple[int, int]], start: int) -> Blocks:
    """Uniform first blocks of these shapes (B, ...), each instance's from its own seed."""
    streams = [np.random.default_rng([start, seed]) for seed in seeds]
    out: Blocks = {}
    for name, shape in shapes.items():
        edge = 1.0 / np.sqrt(shape[0])
        out[name] = np.stack([s.uniform(-edge, edge, shape) for s in streams])
    return out


def selected_problems(stack: Sequence[Tokens], W: Floats) -> list[Problem]:
    """The problem of the tokens that each W (B, d, dq) attends to most."""
    return [
        Problem.of(tokens, Selection.of(tokens, selected_by(tokens, M)))
        for tokens, M in zip(stack, W, strict=True)
    ]


def end_of(tokens: Tokens, v: Floats, W: Floats, found: Certificate) -> str:
    """The kind of the tokens that W attends to most, by their certificate (global, local, neither,
    infeasible or undecided); spread where some input has no attention of 0.999 on any token."""
    s = attention(tokens, W)
    if s.max(axis=1).min() < DECIDED:
        return "spread"
    return verdict_on(tokens, Selection.of(tokens, s.argmax(axis=1)), v, found).kind


# ---------------------------------------------------------------- v1, Figures 5, 6 and 10


class Spaced(NamedTuple):
    """B instances: tokens, heads (B, ·), and the starts W (B, ·, ·) and K, Q (B, ·, m), whose
    entries are uniform in ±1/√d in the coordinates of R^d."""

    stack: list[Tokens]
    heads: Floats
    weight: Blocks
    factors: Blocks


def _units(draw: np.random.Generator, *shape: int) -> Floats:
    a = draw.standard_normal(shape)
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def _input(draw: np.random.Generator, v: Floats, T: int, gap: float) -> Floats:
    """Tokens (T, d) whose best score under v is ahead by the gap: the first such of a stream."""
    while True:
        several = _units(draw, 8, T, len(v))
        scores = np.partition(several @ v, T - 2, axis=1)
        ahead = scores[:, T - 1] - scores[:, T - 2] >= gap
        if ahead.any():
            return several[int(ahead.argmax())]


def _basis(vectors: Floats) -> Floats:
    """An orthonormal basis (d, k) of the span of the rows (m, d), or of everything if that has no
    fewer vectors."""
    m, d = vectors.shape
    return np.linalg.qr(vectors.T)[0] if m < d else np.eye(d)


def spaced(
    shape: Sequence[int], seeds: Sequence[int], *, gap: float, start: int, width: int | None = None
) -> Spaced:
    """The instances of these seeds, shape = (n, T, d), with starts of the released code.

    x, z and v are uniform on the unit sphere, labels random signs; instances are drawn again until
    every best score is ahead of the others by `gap`. Given v the inputs are independent, and each
    one passes with the same probability at any v: so each input is drawn again by itself.

    Only inner products matter: descent on W moves it in the span of the keys' differences on one
    side and in that of the queries on the other. So both are written in orthonormal bases of their
    spans, where these are smaller than d, and the start likewise: the run is the same one, with
    fewer numbers.

    start: the seed of the starting points. width: columns of the factors, d without it.
    """
    n, T, d = shape
    m = d if width is None else width
    stack: list[Tokens] = []
    parts: list[tuple[Floats, Floats, Floats, Floats]] = []
    for seed in seeds:
        draw = np.random.default_rng([seed, n, T, d])
        v = _units(draw, d)
        y = draw.choice([-1.0, 1.0], size=n)
        X = np.stack([_input(draw, y[i] * v, T, gap) for i in range(n)])
        z = _units(draw, n, d)
        keys, queries = _basis(X.reshape(n * T, d)), _basis(z)
        first = np.random.default_rng([start, seed, n, T, d])
        edge = 1.0 / np.sqrt(d)
        W, K, Q = (first.uniform(-edge, edge, (d, c)) for c in (d, m, m))
        stack.append(Tokens(X @ keys, queries=z @ queries, labels=y))
        parts.append((v @ keys, keys.T @ W @ queries, keys.T @ K, queries.T @ Q))
    heads, W, K, Q = (np.stack([part[k] for part in parts]) for k in range(4))
    return Spaced(stack, heads, {"W": W}, {"K": K, "Q": Q})


def weights_at(path: Path, steps: Sequence[int]) -> Floats:
    """W (R, B, ·, ·) at these steps; raises Unsupported for one that is not recorded."""
    places = np.searchsorted(path.steps, steps)
    found = path.steps[np.minimum(places, len(path.steps) - 1)]
    if not np.array_equal(found, steps):
        raise Unsupported(f"of the steps {list(steps)} only {found.tolist()} are near a record")
    return path.matrices()[places]


def picks(stack: Sequence[Tokens], W: Floats) -> Ints:
    """The tokens (B, n) that each W (B, ·, ·) attends to most."""
    return np.stack([selected_by(t, M) for t, M in zip(stack, W, strict=True)])
