"""The two problems of next-token training: the decoder's and the attention's.

    W_ov:   (e_n(x) − e_v)ᵀ W E[x] ≥ 1        for every collocation x and every v ≠ n(x)
    W_kq:   (E[i] − E[j])ᵀ W E[q] ≥ 1         where i is above j in the order of q
            (E[i] − E[j])ᵀ W E[q] = 0         where they are tied, on a common cycle

Both are ordinary Problems. Covering edges are enough: the others follow, with a margin of 2 or
more. Where tokens are orthonormal both fall apart by token or query, the first has the solution
Σ_x (e_n(x) − 1/N) E[x]ᵀ, and each part of the second is a small problem on the order's graph,

    min ½ Σ_c s_c u_c²   s.t.   u_i − u_j ≥ 1 on the edges i → j

(s_c: the number of tied tokens in node c). With a multiplier λ_e ≥ 0 on each edge, s_c u_c is what
flows out of c less what flows in. One edge at a time, λ_e moves until its margin is 1 or λ_e is 0.
Then the edges with λ > 0 are taken as tight: they fix all differences inside each part they join,
and Σ s u = 0 over a part fixes its level, so u is exact and the error of λ enters the gap squared.
Every solution is certified.

Theory: [huang2024nexttoken], with ties [li2024mechanics]; the descent on edges [hsieh2008dual].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, rectangular
from attsvm._utils.compiled import njit
from attsvm._utils.expected import expect, positive
from attsvm._utils.files import finite
from attsvm._utils.result import Result, Summary
from attsvm.certificate import Certificate, certify
from attsvm.errors import BadTokens
from attsvm.next_token.order import Order, check_orders
from attsvm.next_token.sentences import Sentences, check_sentences, embedding_of, orthonormal
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Columns(Result):
    """A solution W that falls apart into columns, each with a certificate of its own.

    pieces: the certificates; times: how many columns each stands for. The squares of the columns'
    norms add up, and so do those of their bounds.
    """

    W: Floats
    pieces: tuple[Certificate, ...]
    times: tuple[int, ...]

    @classmethod
    def whole(cls, found: Certificate) -> Columns:
        """A problem that does not fall apart: one piece."""
        expect(found, Certificate, "found", make="solve(problem) gives one")
        return cls(np.zeros(found.problem.shape) if found.W is None else found.W, (found,), (1,))

    @property
    def lower(self) -> float:
        """No solution has a smaller norm."""
        return self._sum([piece.lower for piece in self.pieces], down=True)

    @property
    def upper(self) -> float:
        """A solution of this norm is at hand; inf without one."""
        return self._sum([piece.upper for piece in self.pieces], down=False)

    @property
    def gap(self) -> float:
        """upper/lower − 1; 0 where nothing is asked for and 0 is the solution."""
        if self.upper == 0:
            return 0.0
        return self.upper / self.lower - 1 if 0 < self.lower < np.inf else np.inf

    @property
    def status(self) -> str:
        """The worst of the pieces': infeasible, stalled, optimal."""
        states = {piece.status for piece in self.pieces}
        return next((s for s in ("infeasible", "stalled") if s in states), "optimal")

    @property
    def message(self) -> str:
        """One sentence on what is proved."""
        bad = next((piece for piece in self.pieces if piece.status != "optimal"), None)
        if bad is not None or self.times == (1,):
            return (bad or self.pieces[0]).message
        return (
            f"optimal: frobenius norm in [{self.lower:.12g}, {self.upper:.12g}], "
            f"gap {self.gap:.1e}, {sum(self.times)} columns"
        )

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain data for JSON."""
        found = {
            "status": self.status,
            "norm": self.pieces[0].norm.name if self.pieces else None,
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "columns": sum(self.times),
            "message": self.message,
        }
        return dict(finite(found))

    def _sum(self, values: list[float], *, down: bool) -> float:
        """√Σ times·value², rounded down or up: a sum of k squares errs by k + 2 units at most."""
        slack = (len(values) + 4) * 2.0**-53
        # In parts of a power of two near the largest: a square may leave the range of floats.
        unit = 2.0 ** (np.frexp(max(values, default=1.0))[1] - 1)
        total = float(np.sqrt(np.dot(self.times, np.square(np.divide(values, unit))))) * unit
        return total * (1 - slack if down else 1 + slack)

    def _card(self) -> Summary:
        facts = {"status": self.status, "lower": self.lower, "upper": self.upper, "gap": self.gap}
        return Summary("Columns", self.message, facts | {"W": str(self.W.shape)}, brief=True)


def decoder_problem(sentences: Sentences, E: Floats) -> Problem:
    """The problem of W_ov (N, d): each token's follower beats every other token."""
    N = sentences.vocabulary
    E = embedding_of(N, E)
    tokens = np.flatnonzero(sentences.follows >= 0)
    if not len(tokens) or N < 2:
        raise BadTokens("the decoder's problem needs a collocation and at least two tokens")
    after = sentences.follows[tokens]
    lo = np.broadcast_to(np.arange(N), (len(tokens), N))
    lo = lo[lo != after[:, None]]
    query = np.repeat(np.arange(len(tokens)), N - 1)
    return Problem(
        np.eye(N),
        E[tokens],
        after[query],
        lo,
        query,
        np.ones(len(lo)),
    )


def solve_decoder(sentences: Sentences, E: Floats, *, tol: float | None = None) -> Columns:
    """The solution of the decoder's problem: its closed form where tokens are orthonormal.

    All columns are then alike up to the order of tokens, and one certificate serves for all.

    >>> import attsvm
    >>> data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> best = solve_decoder(data, attsvm.embedding_of(3))
    >>> best.W.round(3)
    array([[-0.333, -0.333,  0.667],
           [ 0.667, -0.333, -0.333],
           [-0.333,  0.667, -0.333]])
    """
    E = embedding_of(check_sentences(sentences).vocabulary, E)
    tol = None if tol is None else positive(tol, "tol")
    if not orthonormal(E):
        return Columns.whole(solve(decoder_problem(sentences, E), "frobenius", tol=tol))
    N = sentences.vocabulary
    tokens = np.flatnonzero(sentences.follows >= 0)
    W = np.zeros((N, E.shape[1]))
    W[:, tokens] = -1.0 / N
    W[sentences.follows[tokens], tokens] += 1.0
    one = Problem.from_rows(np.eye(N)[0] - np.eye(N)[1:])  # the follower first
    column = np.eye(N)[:, :1] - 1.0 / N
    piece = certify(one, "frobenius", column, np.full(N - 1, 1.0 / N), tol=tol)
    return Columns(W, (piece,), (len(tokens),))


def attention_problem(orders: Mapping[int, Order], E: Floats) -> Problem:
    """The problem of W_kq (d, d): margins over the covering edges of every order, ties inside
    components."""
    E = _embedding(orders, E)
    hi, lo, tie_hi, tie_lo, margin_query, tie_query = [], [], [], [], [], []
    asked = [order for order in orders.values() if len(order.tokens)]
    for place, order in enumerate(asked):
        above, below = order.covers
        hi.append(order.tokens[above])
        lo.append(order.tokens[below])
        margin_query.append(np.full(len(above), place))
        head, other = _ties(order)
        tie_hi.append(order.tokens[head])
        tie_lo.append(order.tokens[other])
        tie_query.append(np.full(len(head), place))
    m, count = sum(map(len, hi)), sum(map(len, tie_hi))
    if not m and not count:
        raise BadTokens("no token is above another: there is nothing to separate")
    return Problem(
        E,
        E[[order.query for order in asked]],
        _joined(hi),
        _joined(lo),
        _joined(margin_query),
        np.ones(m),
        _joined(tie_hi),
        _joined(tie_lo),
        _joined(tie_query),
        np.zeros(count),
    )


def solve_attention(orders: Mapping[int, Order], E: Floats, *, tol: float | None = None) -> Columns:
    """The solution of the attention's problem, query by query where tokens are orthonormal.

    >>> import attsvm
    >>> from attsvm.next_token import orders
    >>> data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> best = solve_attention(orders(data), attsvm.embedding_of(3))
    >>> best.status, round(float(best.upper), 4)
    ('optimal', 1.0)
    """
    E = _embedding(orders, E)
    tol = None if tol is None else positive(tol, "tol")
    if not orthonormal(E):
        return Columns.whole(solve(attention_problem(orders, E), "frobenius", tol=tol))
    asked = [order for order in orders.values() if len(order.tokens) and len(order.covers[0])]
    found = [_solve_column(order, tol) for order in asked]
    W = np.zeros((E.shape[1],) * 2)
    for order, piece in zip(asked, found, strict=True):
        if piece.W is not None:
            W[order.tokens, order.query] = (piece.W[:, 0] / _roots(order))[order.component]
    return Columns(W, tuple(found), (1,) * len(found))


def _solve_column(order: Order, tol: float | None) -> Certificate:
    """The Certificate of one query's problem, by descent on the graph, or by the general solver
    where that does not reach the tolerance."""
    problem = column_problem(order)
    above, below = order.covers
    size = _roots(order) ** 2
    u, lam = solve_graph(order.component[above], order.component[below], size)
    best = certify(problem, "frobenius", u * np.sqrt(size), lam, tol=tol)
    if best.status != "optimal":
        best = solve(problem, "frobenius", tol=tol)
    return replace(best, problem=replace(problem))  # without the rows formed on the way


def certify_whole(orders: Mapping[int, Order], E: Floats, columns: Columns) -> Certificate:
    """The Certificate of the whole Problem from the columns' solution, ties included."""
    asked = [order for order in orders.values() if len(order.tokens)]
    pieces = iter(columns.pieces)
    multipliers, tie_multipliers = [], []
    for order in asked:
        if len(order.covers[0]):
            piece = next(pieces)
            multipliers.append(np.linalg.norm(columns.W[:, order.query]) * piece.multipliers)
        # A tie carries what its token needs: the combination of all rows is W itself.
        head, _ = _ties(order)
        tie_multipliers.append(-columns.W[order.tokens[head], order.query])
    return certify(
        attention_problem(orders, E),
        "frobenius",
        columns.W,
        _joined(multipliers),
        _joined(tie_multipliers),
    )


def column_problem(order: Order) -> Problem:
    """The problem of one query, one unknown x_c = √size_c · u_c for each component c of tokens.

    x_i/√size_i − x_j/√size_j ≥ 1 over the covering edges; ‖x‖ is the norm of the column.
    """
    root = _roots(order)
    above, below = order.covers
    C, m = len(root), len(above)
    keys = _units(1 << (C - 1).bit_length())[:C, :C] if order.acyclic else np.diag(1 / root)
    return Problem(
        keys,
        np.ones((1, 1)),
        order.component[above],
        order.component[below],
        np.zeros(m, np.int64),
        np.ones(m),
    )


def _embedding(orders: Mapping[int, Order], E: Floats) -> Floats:
    """E (N, d) as an array; raises BadTokens unless each token of the orders has a row."""
    every = check_orders(orders).values()
    return embedding_of(next((o.vocabulary for o in every), (*rectangular(E, "E").shape, 1)[0]), E)


@lru_cache(maxsize=16)
def _units(n: int) -> Floats:
    """The unit vectors of n dimensions, shared by all problems that need them."""
    return np.eye(n)


def _roots(order: Order) -> Floats:
    """√(number of tokens) of each component."""
    return np.sqrt(np.bincount(order.component))


def _ties(order: Order) -> tuple[Ints, Ints]:
    """(first, other): for each token that is not the first of its component, both places."""
    first = order.first[order.component]
    other = np.flatnonzero(first != np.arange(len(first)))
    return first[other], other


def _joined(parts: list[Ints] | list[Floats]) -> Ints:
    """The parts one after the other."""
    return np.concatenate(parts) if parts else _NONE


# Passes over the edges in one go, and goes before another solver is asked.
PASSES, GOES = 400, 12
# A pass in which no multiplier moves by more than this is the last.
SETTLED = 1e-9


@njit()
def descend(hi: Ints, lo: Ints, size: Floats, lam: Floats, u: Floats, passes: int) -> float:
    """The largest move of the last pass over the edges; lam (e,) and u (C,) change in place."""
    worst = 0.0
    for _ in range(passes):
        worst = 0.0
        for e in range(len(hi)):
            i, j = hi[e], lo[e]
            short = 1.0 - (u[i] - u[j])
            if short <= 0.0 and lam[e] == 0.0:
                continue
            move = max(short / (1.0 / size[i] + 1.0 / size[j]), -lam[e])
            worst = max(worst, abs(move))
            lam[e] += move
            u[i] += move / size[i]
            u[j] -= move / size[j]
        if worst <= SETTLED:
            break
    return worst


@njit()
def levels(hi: Ints, lo: Ints, size: Floats, lam: Floats) -> Floats:
    """u (C,) with u_i − u_j = 1 on the edges with λ > 0 and Σ s u = 0 over each part they join.

    Where tight edges close a ring they agree at the solution; the first way round is taken.
    """
    C = len(size)
    u = np.zeros(C)
    part = np.full(C, -1)
    degree = np.zeros(C + 1, np.int64)
    for e in range(len(hi)):
        if lam[e] > 0.0:
            degree[hi[e] + 1] += 1
            degree[lo[e] + 1] += 1
    start = np.cumsum(degree)
    fill = start.copy()
    edges = np.empty(start[C], np.int64)
    for e in range(len(hi)):
        if lam[e] > 0.0:
            edges[fill[hi[e]]] = e
            fill[hi[e]] += 1
            edges[fill[lo[e]]] = e
            fill[lo[e]] += 1
    queue = np.empty(C, np.int64)
    for root in range(C):
        if part[root] >= 0:
            continue
        part[root] = root
        queue[0] = root
        count, at = 1, 0
        weight = total = 0.0
        while at < count:
            c = queue[at]
            at += 1
            weight += size[c]
            total += size[c] * u[c]
            for k in range(start[c], start[c + 1]):
                e = edges[k]
                other = lo[e] if hi[e] == c else hi[e]
                if part[other] < 0:
                    part[other] = root
                    u[other] = u[c] - 1.0 if hi[e] == c else u[c] + 1.0
                    queue[count] = other
                    count += 1
        for at in range(count):
            u[queue[at]] -= total / weight
    return u


def solve_graph(hi: Ints, lo: Ints, size: Floats) -> tuple[Floats, Floats]:
    """(u (C,), λ (e,)), not certified: hi, lo (e,) the edges between C nodes, size (C,)."""
    lam, u = np.zeros(len(hi)), np.zeros(len(size))
    for _ in range(GOES):
        if descend(hi, lo, size, lam, u, PASSES) <= SETTLED:
            break
    return levels(hi, lo, size, lam), lam
