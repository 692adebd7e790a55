"""gaussian: Gaussian tokens and queries, and a random selection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm.errors import Unsupported
from attsvm.experiments.sweep.families.family import sized
from attsvm.experiments.sweep.group import Drawn
from attsvm.problem.tokens import Tokens


def all_gaussian(
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
