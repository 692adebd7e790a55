"""Random sentences for next-token prediction: sets that are realizable, and sets with ties.

Both draw a map n of followers and, for each query, which tokens go before which; a sentence's
label follows the token of it that goes first.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb, perm

import numpy as np
from numpy.random import Generator

from attsvm.errors import Unsupported
from attsvm.ground.arrays import Ints

Lines = list[list[int]]
# Where fewer than this many times the sentences asked for exist, they are listed and not guessed.
_CROWDED = 4


def realizable(
    vocabulary: int = 20,
    length: int | tuple[int, int] = 4,
    count: int = 68,
    seed: int = 0,
    *,
    query_count: int | None = None,
    fixed_points: bool = False,
) -> Lines:
    """N lines x n(x), then `count` different sentences with one optimal token and no cycles.

    n is a random permutation of the N tokens (without n(x) = x unless fixed_points). Each query
    has a random strict order of all tokens. A sentence is `length` different tokens in random
    order (a number, or the least and the most), its query last; the first of them in the query's
    order is the optimal token, and its follower is the label. query_count: how many tokens are
    queries; all without.
    """
    rng = np.random.default_rng(seed)
    low, high = _lengths(length, vocabulary)
    queries = _queries(rng, vocabulary, query_count)
    follows = _followers(rng, vocabulary, fixed_points)
    ranks = rng.permuted(np.tile(np.arange(vocabulary), (vocabulary, 1)), axis=1)
    lines = [[x, int(follows[x])] for x in range(vocabulary)]
    for tokens in _contexts(rng, queries, vocabulary, (low, high), count):
        rank = ranks[tokens[-1]]
        optimal = min(tokens, key=lambda x: rank[x])
        lines.append([*tokens, int(follows[optimal])])
    return lines


def cyclic(
    vocabulary: int = 20,
    length: int | tuple[int, int] = 4,
    count: int = 40,
    seed: int = 0,
    *,
    query_count: int | None = None,
    group: int = 3,
    copies: int = 10,
    spread: float = 1.0,
) -> Lines:
    """N lines x n(x), then `count` different contexts, those with ties under each of their labels.

    Each query has a random order of groups of `group` tokens (the last group takes the rest), and
    each token a number θ, normal with deviation `spread`. In a context the tokens T of its first
    group are all optimal: its line with the label n(x), x ∈ T, is written copies·softmax_T(θ)_x
    times, rounded, and at least once. So T is tied: it lies in one strongly connected component,
    and no component leaves its group. Each query's first context has two optimal tokens or more.
    """
    rng = np.random.default_rng(seed)
    low, high = _lengths(length, vocabulary)
    if not 2 <= group <= vocabulary:
        raise Unsupported(f"group is {group}: ties need 2 to {vocabulary} tokens")
    if copies < 1:
        raise Unsupported(f"copies is {copies}: a context is written at least once")
    queries = _queries(rng, vocabulary, query_count)
    follows = _followers(rng, vocabulary, False)
    size = vocabulary // group
    level = np.minimum(np.arange(vocabulary) // group, size - 1)
    levels = rng.permuted(np.tile(level, (vocabulary, 1)), axis=1)
    theta = spread * rng.standard_normal((vocabulary, vocabulary))
    drawn = _contexts(rng, queries, vocabulary, (low, high), count, ordered=False)
    tied = [_tied(rng, q, levels[q], int(rng.integers(low, high + 1))) for q in queries[:count]]
    contexts = list({(*sorted(tokens), tokens[-1]): tokens for tokens in tied + drawn}.values())
    lines = [[x, int(follows[x])] for x in range(vocabulary)]
    for tokens in contexts[:count]:
        q = tokens[-1]
        top = [x for x in tokens if levels[q, x] == levels[q, tokens].min()]
        odds = np.exp(theta[q, top] - theta[q, top].max())
        for x, share in zip(top, odds / odds.sum(), strict=True):
            lines += [[*tokens, int(follows[x])]] * max(1, round(copies * float(share)))
    return lines


def _tied(rng: Generator, query: int, level: Ints, length: int) -> list[int]:
    """A context of this query whose first group has two of its tokens or more."""
    # Two of a group g, the query, and others that do not go before g. Without room for the query
    # as a third it must be one of the two.
    groups = [
        g
        for g in range(int(level[query]) + 1)
        if (level >= g).sum() >= length and (length > 2 or g == level[query])
    ]
    g = int(rng.choice(groups))
    of_group = rng.permutation(np.flatnonzero((level == g) & (np.arange(len(level)) != query)))
    chosen = [int(x) for x in of_group[: 1 if level[query] == g else 2]]
    rest = np.setdiff1d(np.flatnonzero(level >= g), [*chosen, query])
    chosen += [int(x) for x in rng.permutation(rest)[: length - 1 - len(chosen)]]
    return [*(int(x) for x in rng.permutation(chosen)), query]


def _contexts(
    rng: Generator,
    queries: list[int],
    N: int,
    lengths: tuple[int, int],
    count: int,
    *,
    ordered: bool = True,
) -> Lines:
    """`count` different lists of different tokens that end in a query, in random order.

    Not ordered: lists that differ only in the order of the tokens before the query are the same.
    """
    low, high = lengths
    ways, listing = (perm, permutations) if ordered else (comb, combinations)
    total = len(queries) * sum(ways(N - 1, L - 1) for L in range(low, high + 1))
    if not 0 <= count <= total:
        raise Unsupported(
            f"count is {count}: {len(queries)} queries and {N} tokens make at most {total} of this "
            "length"
        )
    if total <= _CROWDED * count:
        every = [
            (*front, q)
            for q in queries
            for L in range(low, high + 1)
            for front in listing([x for x in range(N) if x != q], L - 1)
        ]
        found = {every[k]: None for k in rng.permutation(total)[:count]}
    else:
        found = {}
        while len(found) < count:
            q = queries[int(rng.integers(len(queries)))]
            drawn = rng.choice(N - 1, int(rng.integers(low, high + 1)) - 1, replace=False)
            front = [int(x + (x >= q)) for x in drawn]
            found[(*(front if ordered else sorted(front)), q)] = None
    return [
        [*(int(x) for x in rng.permutation(key[:-1])), key[-1]] if not ordered else list(key)
        for key in found
    ]


def _lengths(length: int | tuple[int, int], N: int) -> tuple[int, int]:
    """The least and the most tokens before a label."""
    low, high = (length, length) if isinstance(length, int) else length
    if N < 2:
        raise Unsupported(f"the vocabulary is {N}: a sentence needs two tokens")
    if not 2 <= low <= high <= N:
        raise Unsupported(
            f"length is {length}: a sentence has 2 to {N} different tokens before its label"
        )
    return low, high


def _queries(rng: Generator, N: int, query_count: int | None) -> list[int]:
    """The tokens that may be queries, in random order."""
    most = N if query_count is None else query_count
    if not 1 <= most <= N:
        raise Unsupported(f"query_count is {query_count}: there are {N} tokens")
    return [int(q) for q in rng.permutation(N)[:most]]


def _followers(rng: Generator, N: int, fixed_points: bool) -> Ints:
    """A random permutation (N,), without fixed points unless they are allowed."""
    while True:  # a permutation has no fixed point with probability about 1/e
        follows = rng.permutation(N)
        if fixed_points or (follows != np.arange(N)).all():
            return follows
