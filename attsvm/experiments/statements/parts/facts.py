"""Facts of an instance in floats, for the search: scores, best tokens, solutions, tight rows.

Entries are multiples of 1/8, so scores are exact in floats; a slack is taken as zero below 1e-9.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.certificate import Certificate
from attsvm.experiments.statements.statement import Instance
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

TIGHT = 1e-9


class Facts(NamedTuple):
    """A separable selection: its least-norm W, its norm, and which tokens (n, T) are tight."""

    W: Floats
    size: float
    tight: Bools
    certificate: Certificate


def scores(one: Instance) -> Floats:
    """γ_it = y_i v·x_it (n, T)."""
    labels = one.arrays.get("y", np.ones(len(one["X"])))
    return np.asarray(labels[:, None] * (one["X"] @ one["v"]))


def best_tokens(one: Instance) -> Ints | None:
    """The tokens of highest score (n,), None where two share it."""

    def make() -> Ints | None:
        found = scores(one)
        top = found.max(axis=1, keepdims=True)
        return None if ((found == top).sum(axis=1) > 1).any() else found.argmax(axis=1)

    best: Ints | None = one.recall("best", make)
    return best


def facts_of(one: Instance, alpha: Iterable[int]) -> Facts | None:
    """The Frobenius solution of a selection, None where no W separates it."""
    key = tuple(int(a) for a in alpha)

    def make() -> Facts | None:
        found = solve(Problem.of(one.tokens, list(key)))
        if found.W is None:
            return None
        W = np.asarray(found.W)
        tight = np.zeros(one["X"].shape[:2], dtype=bool)
        slack = found.problem.margins(W) - 1
        rows = found.problem.rows[slack < TIGHT]
        tight[rows[:, 0], rows[:, 2]] = True
        return Facts(W, float(np.linalg.norm(W)), tight, found)

    facts: Facts | None = one.recall(("facts", key), make)
    return facts


def selections(one: Instance) -> list[tuple[int, ...]]:
    """Every selection of one token per input."""
    n, T, _ = one["X"].shape
    return list(product(range(T), repeat=n))


def locally_optimal(one: Instance, alpha: tuple[int, ...], facts: Facts) -> bool:
    """Whether every tight token of the selection has a lower score than the kept one."""
    found = scores(one)
    kept = found[np.arange(len(found)), list(alpha)][:, None]
    return not (facts.tight & (found >= kept)).any()


def equal_others(one: Instance) -> bool:
    """Premise B.2: the tokens of an input but its best share one score."""
    order = np.sort(scores(one), axis=1)
    return bool((order[:, 0] == order[:, -2]).all() and (order[:, -2] < order[:, -1]).all())


def all_tight(one: Instance) -> bool:
    """Premise B.1, in floats: every token but the best has margin 1 at W^mm."""
    best = best_tokens(one)
    facts = None if best is None else facts_of(one, best)
    if facts is None:
        return False
    n, T, _ = one["X"].shape
    return int(facts.tight.sum()) == n * (T - 1)


def logits(one: Instance, W: Floats) -> Floats:
    """x_itᵀ W z_i (n, T), for W (d, dq)."""
    return np.asarray(np.einsum("ntd,de,ne->nt", one["X"], W, one.tokens.queries))


def point(one: Instance, name: str = "W0") -> Floats:
    """A point of the instance as a matrix (d, dq); a prompt (d,) becomes a column."""
    W = one[name]
    return W[:, None] if W.ndim == 1 else W
