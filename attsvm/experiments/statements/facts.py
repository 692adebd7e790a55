"""Facts of an instance, in floats for the search and in exact numbers for proofs.

Entries are multiples of 1/8, so scores are exact in floats; a slack is taken as zero below 1e-9.
Exact arrays hold Fractions, or Decimals of sixty digits where there are exponentials, as objects. A
number of sixty digits comes from fewer than ten thousand sums, products and exponentials, each
wrong by less than one unit of the last digit: beyond 1e-40 of its terms it has its sign.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.certificate.exact import ExactSolution, Infeasibility, exact_infeasibility, exact_tight
from attsvm.experiments.statements.statement import Instance, NoProof
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

# ---------------------------------------------------------------- floats

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


# ---------------------------------------------------------------- exact numbers

SURE = Decimal("1e-40")
_PRECISION = 60

# An array of Fractions or of Decimals.
Exact = Any


def fractions(values: Any) -> Exact:
    """The entries of an array as Fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, dtype=np.float64))


def decimals(values: Any) -> Exact:
    """Fractions or floats as Decimals of the present precision."""

    def decimal(value: Any) -> Decimal:
        exact = Fraction(value)
        return Decimal(exact.numerator) / Decimal(exact.denominator)

    return np.vectorize(decimal, otypes=[object])(values)


def precision(digits: int = _PRECISION) -> Any:
    """A context of Decimals with so many digits."""
    return localcontext(Context(prec=digits))


def exact_scores(one: Instance) -> Exact:
    """γ_it = y_i v·x_it (n, T)."""
    return fractions(one.labels)[:, None] * (fractions(one["X"]) @ fractions(one["v"]))


def rows_of(one: Instance, alpha: Alpha) -> Exact:
    """The rows (x_ia − x_it) z_iᵀ of a selection, flat, in the order of its problem."""
    X, z = fractions(one["X"]), fractions(one.tokens.queries)
    places = Problem.of(one.tokens, list(alpha)).rows
    return np.array([np.outer(X[i, a] - X[i, t], z[i]).ravel() for i, a, t in places])


def exact_solution(one: Instance, alpha: Alpha) -> ExactSolution:
    """The Frobenius solution of a selection in rationals; raises NoProof if it is not found."""
    problem = Problem.of(one.tokens, list(alpha))
    found = solve(problem)
    made = None if found.W is None else exact_tight(problem, found.multipliers)
    if made is None:
        raise NoProof("no exact solution was found")
    return made


def infeasible(problem: Problem) -> Infeasibility:
    """A rational proof that a problem has no solution; raises NoProof where there is none."""
    found = solve(problem)
    proof = None
    if found.W is None:
        proof = exact_infeasibility(problem, found.multipliers, found.tie_multipliers)
    if proof is None:
        raise NoProof("no exact proof that the rows are infeasible")
    return proof


def tight_tokens(one: Instance, alpha: Alpha, found: ExactSolution) -> set[tuple[int, int]]:
    """(input, token) of every margin of a selection that is exactly 1."""
    rows = Problem.of(one.tokens, list(alpha)).rows
    return {(int(i), int(t)) for i, _, t in rows[found.tight]}


def rank_of(matrix: Any) -> int:
    """The rank of a rational matrix, by elimination.

    >>> rank_of([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]])
    1
    """
    rest = np.array(matrix, dtype=object)
    rank = 0
    for column in range(rest.shape[1]):
        pivots = np.flatnonzero(rest[rank:, column]) + rank
        if not len(pivots):
            continue
        rest[[rank, pivots[0]]] = rest[[pivots[0], rank]]
        factors = rest[rank + 1 :, column] / rest[rank, column]
        rest[rank + 1 :] -= np.outer(factors, rest[rank])
        rank += 1
    return rank


def written(values: Any) -> str:
    """Rationals as text: (3/2, −1, 0); a matrix row by row."""
    array = np.asarray(values, dtype=object)
    if array.ndim > 1:
        return "[" + ", ".join(written(row) for row in array) + "]"
    return "(" + ", ".join(str(Fraction(x)).replace("-", "−") for x in array.tolist()) + ")"


class Look(NamedTuple):
    """At one W, of the logistic loss: attention (n, T), head's values (n,), loss, −∇L (d, dq)."""

    attention: Exact
    values: Exact
    loss: Decimal
    pull: Exact


def logistic(values: Exact) -> Exact:
    """log(1 + e^−f) of an array of Decimals."""
    return np.vectorize(lambda f: (1 + (-f).exp()).ln(), otypes=[object])(values)


def look_at(one: Instance, W: Exact) -> Look:
    """Attention, head's values, mean logistic loss and its negative gradient, in Decimals."""
    X, z = decimals(one["X"]), decimals(one.tokens.queries)
    gamma = decimals(exact_scores(one))
    h = np.array([x @ W @ query for x, query in zip(X, z, strict=True)])
    powers = np.exp(h - h.max(axis=1, keepdims=True))
    s = powers / powers.sum(axis=1, keepdims=True)
    f = (s * gamma).sum(axis=1)
    weights = s * (gamma - f[:, None]) / (1 + np.exp(f))[:, None] / len(X)
    pull = (weights[:, :, None] * X).sum(axis=1).T @ z
    return Look(s, f, logistic(f).sum() / len(X), pull)
