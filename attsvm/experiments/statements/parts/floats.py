"""Facts of an instance in floats, for the search: scores, best tokens, solutions, tight rows.

Entries are multiples of 1/8, so scores are exact in floats; a slack is taken as zero below 1e-9.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.experiments.statements.statement import Instance, NoProof
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

TIGHT = 1e-9
# One token of each input.
Alpha = tuple[int, ...]


class Facts(NamedTuple):
    """A separable selection: its least-norm W, its norm, and which tokens (n, T) are tight."""

    W: Floats
    size: float
    tight: Bools
    certificate: Certificate


def has_unique_best(one: Instance) -> bool:
    """Whether no two tokens of an input share its highest score."""
    found = one.scores
    return bool(((found == found.max(axis=1, keepdims=True)).sum(axis=1) == 1).all())


@lru_cache(maxsize=256)
def _facts(one: Instance, alpha: Alpha) -> Facts | None:
    found = solve(Problem.of(one.tokens, list(alpha)))
    if found.W is None:
        return None
    W = np.asarray(found.W)
    tight = np.zeros(one["X"].shape[:2], dtype=bool)
    rows = found.problem.rows[found.problem.margins(W) - 1 < TIGHT]
    tight[rows[:, 0], rows[:, 2]] = True
    return Facts(W, float(np.linalg.norm(W)), tight, found)


def separable(one: Instance, alpha: Alpha) -> bool:
    """Whether some W keeps these tokens."""
    return _facts(one, alpha) is not None


def facts_of(one: Instance, alpha: Alpha) -> Facts:
    """The Frobenius solution of a selection; raises NoProof where no W separates it."""
    found = _facts(one, alpha)
    if found is None:
        raise NoProof(f"no W keeps the tokens {list(alpha)}")
    return found


def keeps_first(one: Instance) -> bool:
    """Premise: some W keeps the first token of every input."""
    return separable(one, one.first)


def keeps_best(one: Instance) -> bool:
    """Premise: the best tokens are unique, and some W keeps them."""
    return has_unique_best(one) and separable(one, one.best)


def selections(one: Instance) -> list[Alpha]:
    """Every selection of one token per input."""
    n, T, _ = one["X"].shape
    return list(product(range(T), repeat=n))


def locally_optimal(one: Instance, alpha: Alpha) -> bool:
    """Whether every tight token of a separable selection has a lower score than the kept one."""
    found = one.scores
    kept = found[np.arange(len(found)), list(alpha)][:, None]
    return not (facts_of(one, alpha).tight & (found >= kept)).any()


def equal_others(one: Instance) -> bool:
    """Premise B.2: the tokens of an input but its best share one score."""
    order = np.sort(one.scores, axis=1)
    return bool((order[:, 0] == order[:, -2]).all() and (order[:, -2] < order[:, -1]).all())


def all_tight(one: Instance) -> bool:
    """Premise B.1, in floats: every token but the best has margin 1 at W^mm."""
    n, T, _ = one["X"].shape
    return keeps_best(one) and int(facts_of(one, one.best).tight.sum()) == n * (T - 1)


def theorem_3(one: Instance) -> bool:
    """Premise: the best tokens are unique and can be kept; B.1 or B.2."""
    return keeps_best(one) and (equal_others(one) or all_tight(one))


def logits(one: Instance, W: Floats) -> Floats:
    """x_itᵀ W z_i (n, T), for W (d, dq)."""
    return np.asarray(np.einsum("ntd,de,ne->nt", one["X"], W, one.tokens.queries))


def lead(one: Instance, alpha: Alpha, h: Floats) -> float:
    """The least difference of the value of a selected token to another one of its input."""
    kept = h[np.arange(len(h)), list(alpha)][:, None]
    others = np.ones(h.shape, dtype=bool)
    others[np.arange(len(h)), list(alpha)] = False
    return float((kept - h)[others].min())


def cosine(A: Floats, B: Floats) -> float:
    """⟨A, B⟩/(‖A‖‖B‖), 0 where one is zero."""
    size = float(np.linalg.norm(A) * np.linalg.norm(B))
    return float((A * B).sum()) / size if size > 0 else 0.0
