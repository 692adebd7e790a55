"""Families of instances, by name: what a study draws.

family(seeds, **parameters) -> Drawn: the instance of a seed depends on the seed and on the
parameters alone, never on the seeds beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.group import Drawn
from attsvm.problem.tokens import Tokens

Family = Callable[..., Drawn]


def sized(n: int, T: int, d: int) -> tuple[int, int, int]:
    """(n, T, d); raises BadTokens unless they are sizes of inputs with something to select."""
    for name, value, least in (("n", n, 1), ("T", T, 2), ("d", d, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadTokens(f"{name} is {value!r}: it is a whole number from {least} on")
    return n, T, d


def pair(size: str) -> tuple[int, int]:
    """(n, T) of a text such as 5x10."""
    first, _, second = str(size).partition("x")
    if not (first.isdigit() and second.isdigit()):
        raise BadTokens(f"size is {size!r}: it is inputs x tokens, such as 5x10")
    return int(first), int(second)


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


def sphere(
    seeds: Sequence[int], n: int = 6, T: int = 8, d: int = 10, equal_scores: bool = False,
    queries: str = "free",
) -> Drawn:  # fmt: skip
    """v, x and z uniform on the unit sphere, labels random signs.

    equal_scores: all but an input's best token share one score. queries: "free", "first" for each
    input's first token, or "none" for prompts.
    """
    shape = sized(n, T, d)
    if queries not in ("free", "first", "none"):
        raise Unsupported(f'queries is {queries!r}: it is "free", "first" or "none"')
    pairs = [drawn(shape, s, equal_scores=equal_scores, queries=queries) for s in seeds]
    return Drawn([t for t, _ in pairs], np.stack([v for _, v in pairs]))


def gaussian(
    seeds: Sequence[int], n: int = 5, T: int = 5, d: int = 5, attention: str = "cross"
) -> Drawn:
    """Tokens and queries N(0, I), one token per input to be selected at random.

    Every coordinate has a stream of its own: smaller d keep the first coordinates of larger ones,
    and what is separable in d is so in d + 1. attention: "cross", or "self" with each input's first
    token as its query.
    """
    n, T, d = sized(n, T, d)
    if attention not in ("cross", "self"):
        raise Unsupported(f'attention is {attention!r}: it is "cross" or "self"')
    tokens, alphas = [], []
    for seed in seeds:
        streams = [np.random.default_rng([seed, n, T, k]) for k in range(d)]
        parts = [draw.standard_normal((n, T + 1)) for draw in streams]
        whole = np.stack(parts, axis=2)
        queries = "first" if attention == "self" else whole[:, T]
        tokens.append(Tokens(whole[:, :T].copy(), queries=queries))
        alphas.append(np.random.default_rng([seed, n, T]).integers(0, T, n))
    return Drawn(tokens, alpha=np.stack(alphas))


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
    seeds: Sequence[int], size: str = "5x5", d: int = 10, gap: float = 0.1, width: int = 0,
    model: str = "weight", start: int = 0,
) -> Drawn:  # fmt: skip
    """Unit vectors whose best score is ahead by `gap`; with starts, for `init = "drawn"`.

    x, z and v are uniform on the unit sphere, labels random signs; instances are drawn again until
    every best score is ahead. Given v the inputs are independent, and each one passes with the same
    probability at any v: so each input is drawn again by itself. Starts are those of the released
    code: uniform in ±1/√d.

    Only inner products matter: descent on W moves it in the span of the keys' differences on one
    side and in that of the queries on the other. So both are written in orthonormal bases of their
    spans, where these are smaller than d, and the start likewise: the run is the same one, with
    fewer numbers.

    size: inputs x tokens. width: columns of the factors, d for 0.
    """
    n, T, _ = sized(*pair(size), d)
    m = width or d
    stack, heads, starts = [], [], []
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
        heads.append(v @ keys)
        weight = {"W": keys.T @ W @ queries}
        starts.append({"K": keys.T @ K, "Q": queries.T @ Q} if model == "factored" else weight)
    blocks = {name: np.stack([one[name] for one in starts]) for name in starts[0]}
    return Drawn(stack, np.stack(heads), starts=blocks)


def equal_scored(shape: Sequence[int], seed: int) -> tuple[Tokens, Floats]:
    """Tokens and queries uniform on the sphere, and all but the best token of an input moved along
    v until they share the least score, to the last bit: v is the first unit vector, scores are
    first coordinates. shape = (n, T, d)."""
    n, T, d = shape
    draw = np.random.default_rng([n, T, d, seed])
    X, z = (draw.standard_normal(size) for size in ((n, T, d), (n, d)))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    y = draw.choice([-1.0, 1.0], size=n)
    scores = y[:, None] * X[:, :, 0]
    rest = scores < scores.max(axis=1, keepdims=True)
    X[:, :, 0] = np.where(rest, (y * scores.min(axis=1))[:, None], X[:, :, 0])
    return Tokens(X, queries=z, labels=y), np.eye(d)[0]


def equal_scores(
    seeds: Sequence[int], n: int = 3, T: int = 3, d: int = 4, deviation: float = 1.0, start: int = 0
) -> Drawn:
    """Instances of equal scores, and starts N(0, deviation²), for `init = "drawn"`."""
    shape = sized(n, T, d)
    pairs = [equal_scored(shape, seed) for seed in seeds]
    starts = [
        deviation * np.random.default_rng([start, seed, *shape]).standard_normal((d, d))
        for seed in seeds
    ]
    heads = np.stack([v for _, v in pairs])
    return Drawn([t for t, _ in pairs], heads, starts={"W": np.stack(starts)})


def relevant_inputs(
    draw: np.random.Generator, shape: Sequence[int], signal: float
) -> tuple[Floats, Floats, Ints]:
    """Tokens (n, T, d), labels (n,) and the places (n,) of the relevant tokens.

    Input i has the label y_i; its relevant token is signal (ν + y_i μ), μ and ν the first two axes,
    the others are N(0, I/d), of length about one. One draw for every strength: only the relevant
    tokens change with it.
    """
    n, T, d = shape
    X = draw.standard_normal((n, T, d)) / np.sqrt(d)
    y = draw.choice([-1.0, 1.0], size=n)
    place = draw.integers(0, T, n)
    X[np.arange(n), place] = 0.0
    X[np.arange(n), place, 0] = signal * y
    X[np.arange(n), place, 1] = signal
    return X, y, place


def flipped_labels(
    seeds: Sequence[int], n: int = 10, T: int = 5, d: int = 60, signal: float = 1.0,
    flip: float = 0.0,
) -> Drawn:  # fmt: skip
    """Relevant tokens of this strength among noise tokens, each label flipped with this chance.

    The head reads along μ; ν is what relevant tokens have in common, so that a prompt along ν finds
    them. about: the places (B, n) of the relevant tokens, and which labels (B, n) are flipped.
    """
    shape = sized(n, T, d)
    if d < 2 or not 0 <= flip <= 1 or not signal > 0:
        raise BadTokens(
            f"flipped-labels needs d ≥ 2, signal > 0 and 0 ≤ flip ≤ 1; here d = {d}, "
            f"signal = {signal}, flip = {flip}"
        )
    stack, relevant, flips = [], [], []
    for seed in seeds:
        draw = np.random.default_rng([seed, *shape])
        turned = draw.uniform(size=n) < flip
        X, y, place = relevant_inputs(draw, shape, signal)
        stack.append(Tokens(X, labels=np.where(turned, -y, y)))
        relevant.append(place)
        flips.append(turned)
    heads = np.tile(np.eye(d)[0], (len(stack), 1))
    about = {"relevant": np.stack(relevant), "flips": np.stack(flips)}
    return Drawn(stack, heads, about=about)


FAMILIES: dict[str, Family] = {
    "sphere": sphere,
    "gaussian": gaussian,
    "spaced": spaced,
    "equal-scores": equal_scores,
    "flipped-labels": flipped_labels,
}
