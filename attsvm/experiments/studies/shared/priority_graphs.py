"""Priority graphs: the data of [li2024mechanics], and certified limits of both parts of a weight.

A sentence is a list of different tokens, its last one the query, and its label one of them; in the
graph of a query an edge leads from a label to each other token of its sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.next_token.infimum import FinitePart, finite_part
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import attention_problem
from attsvm.next_token.sentences import Sentences
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve
from attsvm.theory.measures import correlation

_NONE = np.empty(0, np.int64)


def draw(seed: int, n: int, T: int, K: int, d: int, *, cyclic: bool) -> tuple[Floats, Ints, Ints]:
    """(E (K, d), sentences (n, T), labels (n,)) as the released code draws them, until some graph
    has a cycle, or none has.

    Embeddings are uniform on the sphere, a sentence has T of the K tokens, and its label is a
    random token of all, or, where the sentence lacks that, one of the sentence.
    """
    rng = np.random.default_rng([seed, n, T, K, d])
    while True:
        E = rng.standard_normal((K, d))
        words = np.stack([rng.permutation(K)[:T] for _ in range(n)])
        labels = rng.integers(0, K, n)
        lacking = (words != labels[:, None]).all(axis=1)
        labels[lacking] = words[lacking, rng.integers(0, T, int(lacking.sum()))]
        graphs = orders(sentences_of(words, labels, K))
        if cyclic != all(order.acyclic for order in graphs.values()):
            return E / np.linalg.norm(E, axis=1, keepdims=True), words, labels


def sentences_of(words: Ints, labels: Sequence[int] | Ints, K: int) -> Sentences:
    """The sentences whose label is followed by itself: a token is optimal when it is the label."""
    lines = [[*map(int, line), int(y)] for line, y in zip(words, labels, strict=True)]
    return Sentences.of(lines, vocabulary=K, collocations="copy")


@dataclass(frozen=True, eq=False)
class GraphLimit:
    """What the theorem says of sentences and independent embeddings E (K, d).

    best: the certified solution of the graph problem, None where no edge leads out of a component
    and it is 0; inside: a basis (r, d²) of S_fin, spanned by (e_i − e_j) e_qᵀ over components.
    """

    data: Sentences
    E: Floats

    @cached_property
    def orders(self) -> dict[int, Order]:
        """The graph of each query."""
        return orders(self.data)

    @cached_property
    def problem(self) -> Problem:
        """Margins along the edges between components, ties inside them."""
        return attention_problem(self.orders, self.E)

    @cached_property
    def best(self) -> Certificate | None:
        """The certificate of the graph problem; None where its solution is 0."""
        return solve(self.problem, "frobenius") if self.problem.m else None

    @cached_property
    def odds(self) -> FinitePart:
        """The likeliest log-odds inside components."""
        return finite_part(self.data, self.orders)

    @cached_property
    def finite(self) -> Certificate | None:
        """W_fin: the least W with these log-odds, certified; None without a cycle."""
        p = self.problem
        if not p.ties:
            return None
        query = np.array([order.query for order in self.orders.values() if len(order.tokens)])
        at = query[p.tie_query]
        c = self.odds.W[p.tie_hi, at] - self.odds.W[p.tie_lo, at]
        error = 1e-12 * np.maximum(np.abs(c), 1.0)
        ties = replace(p, hi=_NONE, lo=_NONE, query=_NONE, b=np.empty(0), c=c, c_error=error)
        return solve(ties, "frobenius")

    @cached_property
    def inside(self) -> Floats:
        """An orthonormal basis of S_fin, (r, d²)."""
        p = self.problem
        rows = np.einsum("ld,le->lde", p.tie_differences(), p.queries[p.tie_query])
        _, s, V = np.linalg.svd(rows.reshape(p.ties, self.E.shape[1] ** 2), full_matrices=False)
        return V[s > 1e-10 * s.max(initial=1.0)]

    def part(self, W: Floats) -> Floats:
        """The part of W (d, d) in S_fin."""
        return (self.inside.T @ (self.inside @ W.ravel())).reshape(W.shape)

    def found(self, W: Floats) -> dict[str, float]:
        """Correlation of W, and of W outside S_fin, with the solution of the graph problem, and the
        distance of its part in S_fin from W_fin."""
        part = self.part(W)
        fin = self.finite.W if self.finite is not None and self.finite.W is not None else 0 * W
        alone = self.best is None or self.best.W is None
        return {
            "correlation": np.nan if alone else float(correlation(W, self.best)),
            "outside": np.nan if alone else float(correlation(W - part, self.best)),
            "finite": float(np.linalg.norm(part - fin)),
        }

    @property
    def gap(self) -> float:
        """The largest certified gap of both parts."""
        return max([0.0, *(float(c.gap) for c in self._solved())])

    def _solved(self) -> Iterator[Certificate]:
        yield from (c for c in (self.best, self.finite) if c is not None)

    @cached_property
    def smoothness(self) -> float:
        """L = mean over sentences of max ‖e_i − e_j‖²‖e_q‖²/4: the loss is smooth with it.

        The Hessian of −log softmax is the covariance of the keys under the attention, times that
        of the query, and a variance is at most a quarter of the width squared.
        """
        each = []
        for line in self.data.words:
            X = self.E[line[line >= 0]]
            apart = ((X[:, None] - X[None]) ** 2).sum(axis=2).max()
            each.append(apart * (X[-1] @ X[-1]) / 4)
        return float(self.data.weights @ np.array(each))
