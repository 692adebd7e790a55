"""Contexts: the arrays of a set of sentences, ready for the kernels of next-token training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.embedding import orthonormal
from attsvm.next_token.sentences import Sentences


@dataclass(frozen=True, eq=False)
class Contexts:
    """S sentences with at most K distinct tokens over a vocabulary of N tokens in d dimensions.

    tokens (S, K), −1 beyond the end; log_counts (S, K): log of how often each occurs, −inf beyond;
    queries, labels (S,); weights (S,), summing to 1; follows (N,); slot (S, K): the number of each
    token's follower among the sentence's followers, −1 without one; known (S,): how many followers
    the sentence has; right (S, K): whether the follower is the label. E (N, d); `plain`: E is the
    identity.
    """

    tokens: Ints
    log_counts: Floats
    queries: Ints
    labels: Ints
    weights: Floats
    follows: Ints
    slot: Ints
    known: Ints
    right: Bools
    E: Floats
    plain: bool

    @classmethod
    def of(cls, sentences: Sentences, E: Floats, *, weights: Floats | None = None) -> Contexts:
        """The contexts of these sentences, weighted by how often they occur unless given."""
        if not sentences.size:
            raise BadTokens("there is no sentence of three or more tokens to train attention on")
        tokens, counts = sentences.distinct
        there = tokens >= 0
        with np.errstate(divide="ignore"):
            log_counts = np.log(counts)
        after = np.where(there, sentences.follows[tokens], -1)
        slot, known = _slots(after)
        return cls(
            tokens,
            log_counts,
            sentences.queries,
            sentences.labels,
            sentences.weights if weights is None else weights,
            sentences.follows,
            slot,
            known,
            there & (after == sentences.labels[:, None]),
            E,
            orthonormal(E) and E.shape[0] == E.shape[1],
        )

    @property
    def vocabulary(self) -> int:
        """The number of tokens N."""
        return len(self.follows)

    def logits(self, W: Floats) -> Floats:
        """E[w]ᵀ W E[q] + log count of every token of every sentence (S, K), −inf beyond the end."""
        U = W if self.plain else self.E @ W @ self.E.T
        return U[self.tokens, self.queries[:, None]] + self.log_counts

    def combine(self, coefficients: Floats) -> Floats:
        """Σ coefficient · E[w] E[q]ᵀ over sentences and tokens (d, d)."""
        N = self.vocabulary
        there = self.tokens >= 0
        flat = (self.tokens * N + self.queries[:, None])[there]
        C = np.asarray(np.bincount(flat, coefficients[there], N * N), np.float64).reshape(N, N)
        return C if self.plain else self.E.T @ C @ self.E


def _slots(after: Ints) -> tuple[Ints, Ints]:
    """(slot (S, K), known (S,)): equal followers of one sentence share a number, from 0 on."""
    S, K = after.shape
    slot = np.full((S, K), -1, np.int64)
    known = np.zeros(S, np.int64)
    for k in range(K):
        mine = np.full(S, -1, np.int64)
        for j in range(k):
            mine = np.where((mine < 0) & (after[:, j] == after[:, k]), slot[:, j], mine)
        fresh = (mine < 0) & (after[:, k] >= 0)
        slot[:, k] = np.where(after[:, k] < 0, -1, np.where(fresh, known, mine))
        known += fresh
    return slot, known
