"""Facts of an instance in exact numbers: rationals, and sixty digits where there are exponentials.

Entries are floats, so rationals. Arrays hold Fractions or Decimals as objects. A number of sixty
digits comes from fewer than ten thousand sums, products and exponentials, each wrong by less than
one unit of the last digit: beyond 1e-40 of its terms it has its sign.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from attsvm.certificate.exact import ExactSolution, Infeasibility, exact_infeasibility, exact_tight
from attsvm.experiments.statements.parts.floats import Alpha
from attsvm.experiments.statements.statement import Instance, NoProof
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

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


def scores(one: Instance) -> Exact:
    """γ_it = y_i v·x_it (n, T)."""
    return fractions(one.labels)[:, None] * (fractions(one["X"]) @ fractions(one["v"]))


def rows_of(one: Instance, alpha: Alpha) -> Exact:
    """The rows (x_ia − x_it) z_iᵀ of a selection, flat, in the order of its problem."""
    X, z = fractions(one["X"]), fractions(one.tokens.queries)
    places = Problem.of(one.tokens, list(alpha)).rows
    return np.array([np.outer(X[i, a] - X[i, t], z[i]).ravel() for i, a, t in places])


def solution(one: Instance, alpha: Alpha) -> ExactSolution:
    """The Frobenius solution of a selection in rationals; raises NoProof if it is not found."""
    problem = Problem.of(one.tokens, list(alpha))
    found = solve(problem)
    exact = None if found.W is None else exact_tight(problem, found.multipliers)
    if exact is None:
        raise NoProof("no exact solution was found")
    return exact


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
    gamma = decimals(scores(one))
    h = np.array([x @ W @ query for x, query in zip(X, z, strict=True)])
    powers = np.exp(h - h.max(axis=1, keepdims=True))
    s = powers / powers.sum(axis=1, keepdims=True)
    f = (s * gamma).sum(axis=1)
    weights = s * (gamma - f[:, None]) / (1 + np.exp(f))[:, None] / len(X)
    pull = (weights[:, :, None] * X).sum(axis=1).T @ z
    return Look(s, f, logistic(f).sum() / len(X), pull)
