"""Families of instances, by name: what a study draws.

family(seeds, **parameters) -> Drawn: the instance of a seed depends on the seed and on the
parameters alone, never on the seeds beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
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


def sphere(
    seeds: Sequence[int], n: int = 6, T: int = 8, d: int = 10, equal_scores: bool = False,
    queries: str = "free",
) -> Drawn:  # fmt: skip
    """v, x and z uniform on the unit sphere, labels random signs.

    equal_scores: all but an input's best token share one score. queries: "free", "first" for each
    input's first token, or "none" for prompts.
    """
    from attsvm.experiments.studies.shared.random_instances import drawn

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


def spaced(
    seeds: Sequence[int], size: str = "5x5", d: int = 10, gap: float = 0.1, width: int = 0,
    model: str = "weight", start: int = 0,
) -> Drawn:  # fmt: skip
    """Unit vectors whose best score is ahead by `gap`; with starts, for `init = "drawn"`.

    size: inputs x tokens. width: columns of the factors, d for 0.
    """
    from attsvm.experiments.studies.shared import random_instances

    shape = sized(*pair(size), d)
    made = random_instances.spaced(
        shape, list(seeds), gap=gap, start=start, width=width or None
    )  # fmt: skip
    starts = made.factors if model == "factored" else made.weight
    return Drawn(made.stack, made.heads, starts=starts)


def equal_scores(
    seeds: Sequence[int], n: int = 3, T: int = 3, d: int = 4, deviation: float = 1.0, start: int = 0
) -> Drawn:
    """Instances of equal scores, and starts N(0, deviation²), for `init = "drawn"`."""
    from attsvm.experiments.studies.shared.plain_descent import equal_scored

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
