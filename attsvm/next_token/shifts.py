"""Random sentences that training did not see, and how they may differ from those it saw.

Other lengths, other frequencies of the tokens, another mixture of queries, repeated tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.sentences import Sentences

# Rounds of drawing, each as large as what was asked, before it is said that there are too few.
_ROUNDS = 100
# A round that finds less than this share of what is asked is the last: nearly all have been found.
_FEW = 1e-3


def draw_unseen(
    sentences: Sentences,
    count: int,
    *,
    length: int | tuple[int, int],
    seed: int,
    frequencies: Any = None,
    queries: Any = None,
    repeats: bool = False,
) -> Ints:
    """`count` different sentences (count, L) whose context is not in the training set.

    A context is the set of distinct tokens and the query; sentences differ in their tokens, their
    counts or their query, not in the order alone. length: a number of tokens, or the least and the
    most; frequencies (N,): how often each token comes, uniform without; queries (N,): how often
    each is the query, as in training without; repeats: tokens are drawn one by one, and may come
    twice. −1 beyond the end.
    """
    low, high = (length, length) if isinstance(length, int | np.integer) else length
    N = sentences.vocabulary
    most = high if repeats else min(high, N)
    if not (2 <= low <= most == high and count >= 0):
        raise Unsupported(f"length is {length} and count {count}: not to be had of {N} tokens")
    share = np.ones(N) if frequencies is None else _weights(frequencies, N, "frequencies")
    seen = np.bincount(sentences.queries, sentences.counts, N)
    mixture = seen if queries is None else _weights(queries, N, "queries")
    if not mixture.any():
        raise BadTokens("there is no sentence whose query could be drawn: give queries (N,)")
    tokens, _ = sentences.distinct
    known = {
        (int(q), frozenset(row[row >= 0].tolist()))
        for q, row in zip(sentences.queries, tokens, strict=True)
    }
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    for _ in range(_ROUNDS):
        before = len(found)
        if before == count:
            break
        ends = rng.choice(N, count, p=mixture / mixture.sum())
        sizes = rng.integers(low, high + 1, count)
        for q, front in zip(ends.tolist(), _fronts(rng, ends, share, sizes, repeats), strict=True):
            if len(found) < count and (q, frozenset([*front, q])) not in known:
                found[(*sorted(front), q)] = None
        if len(found) - before < count * _FEW:
            break
    if len(found) < count:
        raise Unsupported(
            f"{len(found)} unseen sentences were found where {count} were asked for: ask for fewer "
            "or longer ones"
        )
    words = np.full((count, high), -1, np.int64)
    for s, key in enumerate(found):
        words[s, : len(key)] = key
    return words


def zipf(vocabulary: int, *, exponent: float = 1.0) -> Floats:
    """Frequencies (N,) of Zipf's law: token k comes in proportion to 1/(k + 1)^exponent."""
    weights = np.arange(1.0, vocabulary + 1) ** -exponent
    return weights / weights.sum()


def _fronts(
    rng: np.random.Generator, ends: Ints, share: Floats, sizes: Ints, repeats: bool
) -> list[list[int]]:
    """What stands before each query: `sizes` − 1 tokens by their share."""
    N, M = len(share), len(ends)
    if repeats:
        drawn = rng.choice(N, (M, int(sizes.max(initial=1)) - 1), p=share / share.sum())
    else:
        # The largest log share + Gumbel noise: one after the other, without putting back.
        with np.errstate(divide="ignore"):
            keys = np.log(share) + rng.gumbel(size=(M, N))
        keys[np.arange(M), ends] = -np.inf
        drawn = np.argsort(-keys, axis=1, kind="stable")
        short = np.isfinite(keys).sum(axis=1) < sizes - 1
        if short.any():
            raise Unsupported("too few tokens have a frequency above 0 for this length")
    return [row[: size - 1] for row, size in zip(drawn.tolist(), sizes.tolist(), strict=True)]


def _weights(given: Any, N: int, what: str) -> Floats:
    weights = np.asarray(given, np.float64)
    if weights.shape != (N,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise BadTokens(f"{what} must be {N} numbers, none below 0 and not all 0")
    return weights
