"""Random sentences for next-token prediction: realizable sets, some of them inside the paper's
premises, and sets with ties.

All draw a map n of followers and, for each query, which tokens go before which; a sentence's label
follows the token of it that goes first. `unconfused` and `closed` have no confused tokens, which
the theorems ask for; `closed` holds every prefix of its sentences too.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb, perm

import numpy as np
from numpy.random import Generator

from attsvm._utils.arrays import Ints
from attsvm.errors import Unsupported

Lines = list[list[int]]
# Where fewer than this many times the sentences asked for exist, they are listed and not guessed.
_CROWDED = 4


def paper_example() -> list[list[str]]:
    """Example 1 of the paper: S V O P, V O P, O P P and P S V with all their prefixes."""
    text = "S V|V O|O P|P S|S V O|S V O P|V O P|O P P|P S V"
    return [line.split() for line in text.split("|")]


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


def unconfused(
    vocabulary: int = 20,
    length: int | tuple[int, int] = (2, 5),
    count: int = 68,
    seed: int = 0,
    *,
    query_count: int | None = None,
) -> Lines:
    """N lines x n(x), then `count` different sentences without confused tokens.

    n is a random permutation without fixed points. Each query splits the tokens at random into O
    and N, itself in N. A sentence is one token of O, the optimal one, and tokens of N in random
    order, the query last: `length` different tokens in all (a number, or the least and the most).
    """
    rng = np.random.default_rng(seed)
    low, high = _lengths(length, vocabulary)
    queries = _queries(rng, vocabulary, query_count)
    follows = _followers(rng, vocabulary, False)
    splits: dict[int, tuple[Ints, Ints]] = {}  # O, and N without the query
    for q in queries:
        others = rng.permutation(np.delete(np.arange(vocabulary), q))
        size = int(rng.integers(1, vocabulary - high + 2))
        splits[q] = others[:size], others[size:]
    total = sum(
        len(O) * sum(comb(len(below), L - 2) for L in range(low, high + 1))
        for O, below in splits.values()
    )
    _check_count(count, total, f"{len(queries)} queries and {vocabulary} tokens")
    found: dict[tuple[int, ...], list[int]] = {}
    while len(found) < count:
        q = queries[int(rng.integers(len(queries)))]
        O, below = splits[q]
        optimal = int(rng.choice(O))
        rest = rng.choice(below, int(rng.integers(low, high + 1)) - 2, replace=False)
        front = rng.permutation([optimal, *rest]).tolist()
        found.setdefault((*sorted(front), q), [*front, q, int(follows[optimal])])
    return [[x, int(follows[x])] for x in range(vocabulary)] + list(found.values())


def closed(vocabulary: int = 20, length: int = 6, count: int | None = None, seed: int = 0) -> Lines:
    """N lines x n(x), then sentences with all their prefixes, without confused tokens.

    n is a random permutation without fixed points. From each of `count` random starts (all tokens
    without it) a sentence grows: the next token is n of a random token of the sentence, so chosen
    that no token of a query is both above and below others and that none occurs more often than
    the optimal one. It ends with `length` tokens before its last label, or where no choice is left.
    """
    rng = np.random.default_rng(seed)
    if vocabulary < 2 or length < 2:
        raise Unsupported(
            f"the vocabulary is {vocabulary} and length {length}: a sentence needs two tokens"
        )
    starts = vocabulary if count is None else count
    _check_count(starts, vocabulary, f"{vocabulary} starts")
    follows = _followers(rng, vocabulary, False)
    above: list[set[int]] = [set() for _ in range(vocabulary)]
    below: list[set[int]] = [set() for _ in range(vocabulary)]
    lines: dict[tuple[int, ...], None] = {}
    for start in rng.permutation(vocabulary)[:starts]:
        words = [int(start), int(follows[start])]
        while len(words) <= length:
            q, most = words[-1], max(map(words.count, words))
            fitting = [
                t
                for t in sorted(set(words) - below[q])
                if words.count(t) == most and not (set(words) - {t}) & above[q]
            ]
            if not fitting:
                break
            optimal = int(rng.choice(fitting))
            above[q].add(optimal)
            below[q] |= set(words) - {optimal}
            words.append(int(follows[optimal]))
            lines[tuple(words)] = None
    return [[x, int(follows[x])] for x in range(vocabulary)] + [list(line) for line in lines]


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
    # Two of a group g, the query, and others that do not go before g. Without a place for the query
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
    _check_count(count, total, f"{len(queries)} queries and {N} tokens")
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


def _check_count(count: int, most: int, what: str) -> None:
    """Raises Unsupported unless there are so many sentences."""
    if not 0 <= count <= most:
        raise Unsupported(f"count is {count}: {what} make at most {most} sentences of this length")


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
