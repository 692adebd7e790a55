"""What an order and its solution decide: how many sentences, and which kinds of tokens.

A sentence of L tokens that ends in the query q has one of N^(L−1) fillings before it. The column
u (N,) of q decides it when one of its distinct tokens x is ahead of every other, u_x − u_y ≥ g.
Of the tokens y that x is so far ahead of, a in number, the fillings that x decides are

    (a + 1)^(L−1) − a^(L−1)    where x ≠ q, which must be one of the a: x occurs at least once,
    (a + 1)^(L−1)              where x = q, which occurs anyway.

Theory: [huang2024nexttoken].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import KINDS, Order

# Entries of a column that are closer than this are equal, unless a certified accuracy is given.
EQUAL = 1e-9
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
    accuracy: float = EQUAL,
) -> Coverage:
    """The Coverage of all sentences of `length` tokens that end in the order's query.

    u (N,): the solution's column; gap: how far the top token must be ahead (always by more than
    `accuracy`, below which entries are equal). up_to: all lengths from 2 to `length`.
    """
    u = _column(order, u)
    if length < 2 and (up_to or length < 1):
        raise Unsupported(f"length is {length}: sentences have 1 token or more, 2 up to a length")
    if not gap >= 0:
        raise Unsupported(f"gap is {gap}: it must be at least 0")
    ahead = u[:, None] - u[None, :]
    decided = (ahead > accuracy) & (ahead >= gap - accuracy)
    lengths = range(2, length + 1) if up_to else (length,)
    total = sum(order.vocabulary ** (L - 1) for L in lengths)
    counts = [_fillings(beats, order.query, lengths) for beats in (decided, _above(order))]
    return Coverage(total, *counts)


def whole_coverage(
    orders: Mapping[int, Order],
    U: Floats,
    length: int,
    *,
    gap: float = 0.0,
    up_to: bool = False,
    accuracy: float = EQUAL,
) -> Coverage:
    """The Coverage of all sentences of `length` tokens, whatever their query.

    U (N, N): the logits of every token (row) before every query (column). A query without an order
    decides what its column does.
    """
    none = np.zeros(0, np.int64)
    N = len(U)
    return sum(
        (
            coverage(
                orders.get(q, Order(q, N, none, none, none, none)),
                U[:, q],
                length,
                gap=gap,
                up_to=up_to,
                accuracy=accuracy,
            )
            for q in range(N)
        ),
        Coverage(0, 0, 0),
    )


@dataclass(frozen=True)
class Pairs:
    """Pairs (a, b) of tokens of which a should be ahead: how many are, tie, or are reversed.

    example: the pair that is reversed the most, None without one.
    """

    strict: int
    tied: int
    reversed: int
    example: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        """All pairs."""
        return self.strict + self.tied + self.reversed


def kinds_in_order(
    order: Order, u: Floats, *, accuracy: float = EQUAL
) -> dict[tuple[str, str], Pairs]:
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
        behind = int((ahead < -accuracy).sum())
        strict = int((ahead > accuracy).sum())
        example = None
        if behind:
            i, j = np.unravel_index(int(ahead.argmin()), ahead.shape)
            example = int(a[i]), int(b[j])
        found[first, second] = Pairs(strict, ahead.size - strict - behind, behind, example)
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
