"""Columns of the attention's solution in exact arithmetic, and sets whose columns are examined."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.certificate.exact import exact_tight
from attsvm.datasets.sentences import closed, unconfused
from attsvm.experiments.studies.shared.sentence_runs import TOKENS
from attsvm.next_token.order import KINDS, Order, orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.realizable import realizability
from attsvm.next_token.sentences import Sentences

# The tokens of each sentence, its query last, and its optimal token.
Given = list[tuple[list[int], int]]


def small_set(N: int, given: Given) -> Sentences:
    """The sentences over N tokens in which x is followed by x + 1, and the last by the first."""
    lines = [[x, (x + 1) % N] for x in range(N)]
    return Sentences.of(lines + [[*words, (best + 1) % N] for words, best in given], vocabulary=N)


def star_set(data: str, seed: int) -> Sentences:
    """A set without confused tokens: "unconfused", or "closed" under prefixes."""
    if data == "closed":
        drawn = closed(TOKENS, 6, seed=seed)
    else:
        drawn = unconfused(TOKENS, (2, 5), 68, seed)
    return Sentences.of(drawn, vocabulary=TOKENS)


class ExactColumns:
    """The certified solution of one set, with each column in fractions.

    U: the exact column (N,) by query, without those of which none was found; busy: the tokens on a
    constraint with a multiplier above 0, by query; off: how far the solution's columns are from the
    exact ones, nan when one was not found; premises: what realizability finds of the set.
    """

    def __init__(self, sentences: Sentences) -> None:
        self.orders = orders(sentences)
        self.premises = realizability(sentences, self.orders)
        self.found = solve_attention(self.orders, np.eye(sentences.vocabulary))
        self.U: dict[int, list[Fraction]] = {}
        self.busy: dict[int, set[int]] = {}
        self.off = 0.0
        asked = [order for order in self.orders.values() if len(order.covers[0])]
        for order, piece in zip(asked, self.found.pieces, strict=True):
            u, busy = _exact(order, piece)
            if not u:
                self.off = float("nan")
                continue
            self.U[order.query], self.busy[order.query] = u, busy
            column = self.found.W[:, order.query]
            self.off = max(self.off, float(np.abs(column - [float(v) for v in u]).max()))

    def tokens(self, query: int, kind: str) -> list[int]:
        """The tokens of this kind before the query."""
        order = self.orders[query]
        return [x for x in range(order.vocabulary) if order.kind(x) == kind]

    def entries(self, kind: str) -> list[Fraction]:
        """The exact entries of all tokens of this kind."""
        return [u[x] for q, u in self.U.items() for x in self.tokens(q, kind)]

    def facts(self) -> dict[str, float]:
        """Numbers of the set and its solution; stray: entries of non-comparable tokens not 0."""
        stray = sum(
            int((np.delete(self.found.W[:, q], order.tokens) != 0).sum())
            for q, order in self.orders.items()
        )
        return {
            "inside": not self.premises.outside, "closed": self.premises.closed,
            "columns": len(self.U), "stray": stray, "off": self.off, "gap": self.found.gap,
        }  # fmt: skip

    def wrong_signs(self, W: Floats) -> int:
        """Entries of W that are not > 0 (optimal), = 0 (non-comparable), < 0 (non-optimal)."""
        sign = {KINDS[0]: 1, KINDS[2]: -1, KINDS[3]: 0}
        return sum(
            int((np.sign(W[self.tokens(q, kind), q]) != wanted).sum())
            for q in self.orders
            for kind, wanted in sign.items()
        )


def _exact(order: Order, piece: Certificate) -> tuple[list[Fraction], set[int]]:
    """(the exact column (N,), the tokens on a constraint with a multiplier above 0)."""
    solved = exact_tight(piece.problem, piece.multipliers)
    if solved is None or piece.W is None:
        return [], set()
    u = [Fraction(0)] * order.vocabulary
    x, below = solved.matrix, solved.matrix.denominator
    for place, token in enumerate(order.tokens.tolist()):
        u[token] = Fraction(int(x.numerators[order.component[place], 0]), int(below))
    used = np.asarray(solved.multipliers.numerators > 0, bool)
    hi, lo = order.covers
    return u, set(order.tokens[np.concatenate([hi[used], lo[used]])].tolist())
