"""Unseen sentences: what the solution predicts for them, what a trained model does, and where the
theory is silent.

The attention's solution W_kq⋆ gives each distinct token w of a sentence with the query q the logit
E[w]ᵀ W_kq⋆ E[q]. Training drives attention to the token with the largest one, and the prediction is
its follower. Where two tokens share the largest logit the direction alone does not decide.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.choices_twin import attend
from attsvm.next_token.contexts import Contexts
from attsvm.next_token.embedding import orthonormal
from attsvm.next_token.order import Order
from attsvm.next_token.problems import Columns
from attsvm.next_token.sentences import Sentences

# Bins of the predicted gap, in margins, for tables and pictures.
EDGES = (0.0, 0.125, 0.25, 0.5, 1.0, np.inf)
# Logits closer than this tie, unless a certified accuracy is given.
_EQUAL = 1e-9
# Output logits held at once.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class Predicted:
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
class Attended:
    """What a model does with M sentences.

    top (M,): the distinct token with the most attention, all its places together; mass (M,): that
    attention; output (M,): the token with the largest output logit.
    """

    top: Ints
    mass: Floats
    output: Ints


@dataclass(frozen=True, eq=False)
class Agreement:
    """How often a model's output is the predicted one.

    total: sentences; ties: those on which theory is silent; first_ties: some of them in words;
    threshold, judged, agreed: of the sentences with a gap of at least the threshold, how many
    there are and how many the model answers as predicted; attended: on how many of them the
    predicted token has the most attention; edges (k + 1,), counts, agreed_in (k,): the same by
    bins of the gap, ties left out.
    """

    total: int
    ties: int
    first_ties: tuple[str, ...]
    threshold: float
    judged: int
    agreed: int
    attended: int
    edges: Floats
    counts: Ints
    agreed_in: Ints

    @property
    def tied_share(self) -> float:
        """ties/total."""
        return self.ties / self.total if self.total else float("nan")

    @property
    def share(self) -> float:
        """agreed/judged."""
        return self.agreed / self.judged if self.judged else float("nan")


def predicted(
    words: Any, W: Floats, E: Floats, follows: Ints, *, accuracy: float | Floats = _EQUAL
) -> Predicted:
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
    return Predicted(given.words, top, second, high - low, follows[top], within[given.queries])


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


def trained(words: Any, W_ov: Floats, W_kq: Floats, E: Floats) -> Attended:
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
    return Attended(contexts.tokens[rows, best], np.exp(logs[rows, best]), output)


def agreement(
    asked: Predicted,
    answered: Attended,
    *,
    threshold: float = 0.25,
    edges: Sequence[float] = EDGES,
    names: Sequence[str] | None = None,
    listed: int = 10,
) -> Agreement:
    """How the model's answers agree with the predictions.

    threshold: the gap from which on agreement is judged; edges: of the bins [e_k, e_k+1), the last
    one closed; names: the tokens' words; listed: how many ties to tell in words. A sentence whose
    predicted token has no follower agrees when that token has the most attention.
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
    told = tuple(_told(asked, int(s), names) for s in np.flatnonzero(tied)[:listed])
    return Agreement(
        len(tied),
        int(tied.sum()),
        told,
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


def _told(asked: Predicted, s: int, names: Sequence[str] | None) -> str:
    """One sentence in words, with the two tokens that tie."""
    word = [str(k) for k in range(int(asked.words.max()) + 1)] if names is None else names
    text = " ".join(word[w] for w in asked.words[s] if w >= 0)
    return f"{text}: {word[asked.top[s]]} or {word[asked.second[s]]}"
