"""Unseen sentences: random ones, what the solution predicts for them, what a trained model does,
and how many sentences theory decides.

The attention's solution W_kq⋆ gives each distinct token w of a sentence with the query q the logit
E[w]ᵀ W_kq⋆ E[q]. Training drives attention to the token with the largest one, and the prediction is
its follower. Where two tokens share the largest logit the direction alone does not decide.

A sentence of L tokens that ends in the query q has one of N^(L−1) fillings before it. The column
u (N,) of q decides it when one of its distinct tokens x is ahead of every other, u_x − u_y ≥ g.
Of the tokens y that x is so far ahead of, a in number, the fillings that x decides are

    (a + 1)^(L−1) − a^(L−1)    where x ≠ q, which must be one of the a: x occurs at least once,
    (a + 1)^(L−1)              where x = q, which occurs anyway.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.files import finite
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.attention import Contexts, attend
from attsvm.next_token.order import KINDS, Order
from attsvm.next_token.problems import Columns
from attsvm.next_token.sentences import Sentences, orthonormal

# Bins of the predicted gap, in margins, for tables and pictures.
EDGES = (0.0, 0.125, 0.25, 0.5, 1.0, np.inf)
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


@dataclass(frozen=True, eq=False)
class UnseenAgreement:
    """How often a model's output is the predicted one.

    total: sentences; ties: those on which theory is silent; threshold, judged, agreed: of the
    sentences with a gap of at least the threshold, how many there are and how many the model
    answers as predicted; attended: on how many of them the predicted token has the most attention;
    edges (k + 1,), counts, agreed_in (k,): the same by bins of the gap, ties left out.
    """

    total: int
    ties: int
    threshold: float
    judged: int
    agreed: int
    attended: int
    edges: Floats
    counts: Ints
    agreed_in: Ints

    def to_dict(self) -> dict[str, Any]:
        """The agreement as plain data for JSON; wide: sentences with a gap of the threshold."""
        rows = (self.edges[:-1], self.edges[1:], self.counts, self.agreed_in)
        bins = [
            {"from": low, "to": high, "sentences": n, "agreed": agreed}
            for low, high, n, agreed in zip(*(row.tolist() for row in rows), strict=True)
        ]
        return {
            "sentences": self.total,
            "ties": self.ties,
            "gap": self.threshold,
            "wide": self.judged,
            "agreed": self.agreed,
            "attended": self.attended,
            "bins": finite(bins),
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


def agreement(
    asked: Predictions,
    answered: Answers,
    *,
    threshold: float = 0.25,
    edges: Sequence[float] = EDGES,
) -> UnseenAgreement:
    """How the model's answers agree with the predictions.

    threshold: the gap from which on agreement is judged; edges: of the bins [e_k, e_k+1), the last
    one closed. A sentence whose predicted token has no follower agrees when that token has the most
    attention.
    """
    tied = asked.tied
    attended = answered.top == asked.top
    agrees = np.where(asked.label >= 0, answered.output == asked.label, attended)
    sure = asked.ahead(threshold)
    bounds = np.asarray(edges, np.float64)
    gap, off = asked.gap[~tied], asked.accuracy[~tied]
    place = np.clip(np.searchsorted(bounds, gap + off, side="right") - 1, 0, len(bounds) - 2)
    inside = (gap + off >= bounds[0]) & (gap - off <= bounds[-1])
    counts = np.bincount(place[inside], minlength=len(bounds) - 1)
    right = np.bincount(place[inside & agrees[~tied]], minlength=len(bounds) - 1)
    return UnseenAgreement(
        len(tied),
        int(tied.sum()),
        threshold,
        int(sure.sum()),
        int((sure & agrees).sum()),
        int((sure & attended).sum()),
        bounds,
        counts,
        right,
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


@dataclass(frozen=True)
class Coverage:
    """Of `total` sentences, how many the solution decides, and how many the order itself does.

    ordered: those with a token above all the others in the transitive closure; what is decided
    beyond them is the solution's own.
    """

    total: int
    decided: int
    ordered: int

    @property
    def share(self) -> float:
        """decided/total, exact before it is rounded to a float."""
        return float(Fraction(self.decided, self.total)) if self.total else float("nan")

    @property
    def ordered_share(self) -> float:
        """ordered/total."""
        return float(Fraction(self.ordered, self.total)) if self.total else float("nan")

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.total + other.total, self.decided + other.decided, self.ordered + other.ordered
        )


def coverage(
    order: Order,
    u: Floats,
    length: int,
    *,
    gap: float = 0.0,
    up_to: bool = False,
) -> Coverage:
    """The Coverage of all sentences of `length` tokens that end in the order's query.

    u (N,): the solution's column; gap: how far the top token must be ahead (always by more than
    EQUAL, below which entries are equal). up_to: all lengths from 2 to `length`.
    """
    u = _column(order, u)
    if length < 2 and (up_to or length < 1):
        raise Unsupported(f"length is {length}: sentences have 1 token or more, 2 up to a length")
    if not gap >= 0:
        raise Unsupported(f"gap is {gap}: it must be at least 0")
    ahead = u[:, None] - u[None, :]
    decided = (ahead > EQUAL) & (ahead >= gap - EQUAL)
    lengths = range(2, length + 1) if up_to else (length,)
    total = sum(order.vocabulary ** (L - 1) for L in lengths)
    counts = [_fillings(beats, order.query, lengths) for beats in (decided, _above(order))]
    return Coverage(total, *counts)


def whole_coverage(orders: Mapping[int, Order], U: Floats, length: int) -> Coverage:
    """The Coverage of all sentences of `length` tokens, whatever their query.

    U (N, N): the logits of every token (row) before every query (column). A query without an order
    decides what its column does.
    """
    none = np.zeros(0, np.int64)
    N = len(U)
    every = [orders.get(q, Order(q, N, none, none, none, none)) for q in range(N)]
    return sum((coverage(o, U[:, o.query], length) for o in every), Coverage(0, 0, 0))


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
    u = _column(order, u)
    kinds = np.full(order.vocabulary, KINDS[3], dtype="<U14")
    kinds[order.tokens] = order.kinds
    found = {}
    for first, second in PAIRS:
        a, b = np.flatnonzero(kinds == first), np.flatnonzero(kinds == second)
        ahead = u[a][:, None] - u[b][None, :]
        behind, strict = int((ahead < -accuracy).sum()), int((ahead > accuracy).sum())
        found[first, second] = KindPairs(strict, ahead.size - strict - behind, behind)
    return found


def _column(order: Order, u: Floats) -> Floats:
    u = np.asarray(u, np.float64)
    if u.shape != (order.vocabulary,):
        raise BadTokens(f"the column has shape {u.shape}; it must be ({order.vocabulary},)")
    return u


def _above(order: Order) -> Bools:
    """Whether token i is above token j and not tied with it (N, N), over the whole vocabulary."""
    whole = np.zeros((order.vocabulary,) * 2, bool)
    if len(order.tokens):
        whole[np.ix_(order.tokens, order.tokens)] = order.reach & ~order.reach.T
    return whole


def _fillings(beats: Bools, query: int, lengths: Iterable[int]) -> int:
    """How many fillings before the query have a token that beats all the others (N, N)."""
    below = beats.sum(axis=1)
    a = int(below[query])
    # Tokens that beat the query, counted by how many tokens they beat.
    others = np.flatnonzero(beats[:, query] & (np.arange(len(beats)) != query))
    winners = Counter(below[others].tolist())
    return sum(
        (a + 1) ** free + sum(n * ((b + 1) ** free - b**free) for b, n in winners.items())
        for free in (length - 1 for length in lengths)
    )


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
