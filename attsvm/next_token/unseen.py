"""Unseen sentences: random ones, what the solution predicts for them, and what a model does.

The attention's solution W_kq⋆ gives each distinct token w of a sentence with the query q the logit
E[w]ᵀ W_kq⋆ E[q]. Training drives attention to the token with the largest one, and the prediction is
its follower. Where two tokens share the largest logit the direction alone does not decide.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.attention import Contexts, attend
from attsvm.next_token.order import KINDS, Order
from attsvm.next_token.problems import Columns
from attsvm.next_token.sentences import Sentences, orthonormal

# Logits and entries of a column closer than this tie, unless a certified accuracy is given.
EQUAL = 1e-9
# Output logits held at once.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the solution says of M sentences.

    words (M, L); top, second (M,): the distinct tokens with the largest logits, second −1 where
    there is one token only; gap (M,): by how much top is ahead, inf without a second; label (M,):
    the follower of top, −1 without one; accuracy (M,): how far the gap may be off.
    """

    words: Ints
    top: Ints
    second: Ints
    gap: Floats
    label: Ints
    accuracy: Floats

    @property
    def tied(self) -> Bools:
        """Where the gap cannot be told from 0 (M,): the theory is silent."""
        return self.gap <= self.accuracy

    def ahead(self, gap: float) -> Bools:
        """Where top is surely alone and the gap is at least this, up to its accuracy (M,)."""
        return ~self.tied & (self.gap >= gap - self.accuracy)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model does with M sentences.

    top (M,): the distinct token with the most attention, all its places together; mass (M,): that
    attention; output (M,): the token with the largest output logit.
    """

    top: Ints
    mass: Floats
    output: Ints


@dataclass(frozen=True)
class UnseenAgreement:
    """How often a model's output is the predicted one.

    total: sentences; ties: those on which theory is silent; threshold, judged, agreed: of the
    sentences with a gap of at least the threshold, how many there are and how many the model
    answers as predicted; attended: on how many of them the predicted token has the most attention.
    """

    total: int
    ties: int
    threshold: float
    judged: int
    agreed: int
    attended: int

    def to_dict(self) -> dict[str, Any]:
        """The agreement as plain data for JSON; wide: sentences with a gap of the threshold."""
        return {
            "sentences": self.total,
            "ties": self.ties,
            "gap": self.threshold,
            "wide": self.judged,
            "agreed": self.agreed,
            "attended": self.attended,
        }

    @property
    def share(self) -> float:
        """agreed/judged."""
        return self.agreed / self.judged if self.judged else float("nan")


def predict_unseen(
    words: Any, W: Floats, E: Floats, follows: Ints, *, accuracy: float | Floats = EQUAL
) -> Predictions:
    """What the solution W (d, d) says of sentences.

    words (M, L): tokens from left to right, the query last, −1 beyond the end; E (N, d); follows
    (N,): n(x), −1 where it is not known; accuracy: of a difference of two logits, one number or
    one for each query (N,), as `logit_accuracy` gives it.
    """
    follows = np.asarray(follows, np.int64)
    if np.shape(W) != (E.shape[1],) * 2 or len(E) != len(follows):
        raise BadTokens(
            f"W {np.shape(W)}, E {E.shape} and {len(follows)} followers do not fit: they are "
            "(d, d), (N, d) and N"
        )
    given = _sentences(words, follows)
    tokens, _ = given.distinct
    U = W if orthonormal(E) and E.shape[0] == E.shape[1] else E @ W @ E.T
    logits = np.where(tokens >= 0, U[tokens, given.queries[:, None]], -np.inf)
    if tokens.shape[1] == 1:
        tokens = np.pad(tokens, ((0, 0), (0, 1)), constant_values=-1)
        logits = np.pad(logits, ((0, 0), (0, 1)), constant_values=-np.inf)
    rows = np.arange(len(tokens))[:, None]
    best = np.argsort(-logits, axis=1, kind="stable")[:, :2]
    top, second = tokens[rows, best].T
    high, low = logits[rows, best].T
    within = np.broadcast_to(np.asarray(accuracy, np.float64), (given.vocabulary,))
    return Predictions(given.words, top, second, high - low, follows[top], within[given.queries])


def logit_accuracy(orders: Mapping[int, Order], columns: Columns, E: Floats) -> Floats:
    """How far a difference of two logits before each query may be off (N,).

    A feasible W of norm at most `upper`, where no solution is below `lower`, is within
    r = √(upper² − lower²) of the solution: the squares of orthogonal steps add up.
    """
    radii = [np.sqrt(max(p.upper**2 - p.lower**2, 0.0)) for p in columns.pieces]
    off = np.zeros(len(E))
    if orthonormal(E):
        asked = [order.query for order in orders.values() if len(order.covers[0])]
        off[asked] = np.sqrt(2.0) * np.asarray(radii)
        return off
    lengths = np.linalg.norm(E, axis=1)
    return 2 * float(lengths.max()) * max(radii) * lengths


def answer_unseen(words: Any, W_ov: Floats, W_kq: Floats, E: Floats) -> Answers:
    """What the model with the decoder W_ov (N, d) and attention W_kq (d, d) does with sentences.

    words and E as in `predicted`. Repeated tokens count as often as they occur.
    """
    N = len(E)
    given = _sentences(words, np.full(N, -1, np.int64))
    contexts = Contexts.of(given, E)
    logs, best = attend(contexts.logits(W_kq))
    rows = np.arange(len(logs))
    V = E @ W_ov.T
    output = np.empty(len(logs), np.int64)
    step = max(_BLOCK // N, 1)
    for start in range(0, len(logs), step):
        here = slice(start, start + step)
        tokens = contexts.tokens[here]
        mass = np.zeros((len(tokens), N))
        row, column = np.nonzero(tokens >= 0)
        mass[row, tokens[row, column]] = np.exp(logs[here][row, column])
        output[here] = (mass @ V).argmax(axis=1)
    return Answers(contexts.tokens[rows, best], np.exp(logs[rows, best]), output)


def agreement(asked: Predictions, answered: Answers, *, threshold: float = 0.25) -> UnseenAgreement:
    """How the model's answers agree with the predictions.

    threshold: the gap from which on agreement is judged. A sentence whose predicted token has no
    follower agrees when that token has the most attention.
    """
    attended = answered.top == asked.top
    agrees = np.where(asked.label >= 0, answered.output == asked.label, attended)
    sure = asked.ahead(threshold)
    return UnseenAgreement(
        len(asked.top),
        int(asked.tied.sum()),
        threshold,
        int(sure.sum()),
        int((sure & agrees).sum()),
        int((sure & attended).sum()),
    )


def _sentences(words: Any, follows: Ints) -> Sentences:
    """The sentences without labels, for their distinct tokens and queries."""
    try:
        table = np.asarray(words)
    except ValueError:  # lines of several lengths
        table = np.empty(0)
    N = len(follows)
    if table.ndim != 2 or table.dtype.kind not in "iu" or not table.size:
        raise BadTokens("unseen sentences are a table of token numbers (M, L), −1 beyond the end")
    here = table >= 0
    if table.max() >= N or table.min() < -1:
        raise BadTokens(f"a token of an unseen sentence is not within 0…{N - 1}, the vocabulary")
    if not here[:, 0].all() or (here[:, 1:] & ~here[:, :-1]).any():
        raise BadTokens("each unseen sentence starts at the left and has no hole in it")
    one = np.ones(len(table), np.int64)
    return Sentences(
        table.astype(np.int64), one * -1, one, np.arange(len(table)), follows, np.zeros(N, np.int64)
    )


# The ordering of kinds: the first of each pair is to be ahead of the second.
PAIRS = (
    (KINDS[0], KINDS[1]),
    (KINDS[0], KINDS[3]),
    (KINDS[0], KINDS[2]),
    (KINDS[1], KINDS[2]),
    (KINDS[3], KINDS[2]),
)


class KindPairs(NamedTuple):
    """Pairs (a, b) of tokens of which a should be ahead: how many are, tie, or are reversed."""

    strict: int
    tied: int
    reversed: int


def kinds_in_order(
    order: Order, u: Floats, *, accuracy: float = EQUAL
) -> dict[tuple[str, str], KindPairs]:
    """How the column u (N,) orders the four kinds of tokens, for each pair of kinds of PAIRS.

    Optimal ahead of confused and of non-comparable, these ahead of non-optimal: strictly without
    confused tokens. With them only the weak optimizer is sure: non-comparable tokens are at 0,
    optimal ones at or above it, non-optimal ones at or below it; confused tokens may be anywhere.
    """
    u = np.asarray(u, np.float64)
    if u.shape != (order.vocabulary,):
        raise BadTokens(f"the column has shape {u.shape}; it must be ({order.vocabulary},)")
    kinds = np.full(order.vocabulary, KINDS[3], dtype="<U14")
    kinds[order.tokens] = order.kinds
    found = {}
    for first, second in PAIRS:
        a, b = np.flatnonzero(kinds == first), np.flatnonzero(kinds == second)
        ahead = u[a][:, None] - u[b][None, :]
        behind, strict = int((ahead < -accuracy).sum()), int((ahead > accuracy).sum())
        found[first, second] = KindPairs(strict, ahead.size - strict - behind, behind)
    return found


# Rounds of drawing, each as large as what was asked, before it is said that there are too few.
_ROUNDS = 100
# A round that finds less than this share of what is asked is the last: nearly all have been found.
_FEW = 1e-3


def draw_unseen(
    sentences: Sentences, count: int, *, length: int | tuple[int, int], seed: int
) -> Ints:
    """`count` different sentences (count, L) of different tokens whose context is not in the data.

    A context is the set of distinct tokens and the query; sentences differ in their tokens or their
    query, not in the order alone. Queries come as often as in the data, all other tokens alike.
    length: a number of tokens, or the least and the most. −1 beyond the end.
    """
    low, high = (length, length) if isinstance(length, int | np.integer) else length
    N = sentences.vocabulary
    if not (2 <= low <= high <= N and count >= 0):
        raise Unsupported(f"length is {length} and count {count}: not to be had of {N} tokens")
    seen = np.bincount(sentences.queries, sentences.counts, N)
    if not seen.any():
        raise BadTokens("there is no sentence whose query could be drawn")
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
        ends = rng.choice(N, count, p=seen / seen.sum())
        sizes = rng.integers(low, high + 1, count)
        keys = rng.gumbel(size=(count, N))
        keys[np.arange(count), ends] = -np.inf
        drawn = np.argsort(-keys, axis=1, kind="stable").tolist()
        for q, row, size in zip(ends.tolist(), drawn, sizes.tolist(), strict=True):
            front = row[: size - 1]
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
