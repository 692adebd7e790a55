"""Statements about max-margin solutions: when there is one, its rank, tight tokens and norm."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts import exact, floats
from attsvm.experiments.statements.parts.exact import RATIONALS, written
from attsvm.experiments.statements.statement import (
    Confirmation,
    Field,
    Instance,
    NoProof,
    Space,
    Statement,
    V,
    X,
    Z,
)
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve

# ---------------------------------------------------------------- separability


def _general_position(one: Instance) -> bool:
    """The queries are independent, and so are the key differences of each input."""
    X, z = one["X"], one["z"]
    if np.linalg.matrix_rank(z) < len(X):
        return False
    return all(np.linalg.matrix_rank(x[0] - x[1:]) == len(x) - 1 for x in X)


def _inseparable(one: Instance) -> float:
    """1 where no W keeps the first tokens, else minus their largest margin at ‖W‖ = 1."""
    alpha = one.first
    return -1 / floats.facts_of(one, alpha).size if floats.separable(one, alpha) else 1.0


def _confirm_inseparable(one: Instance) -> Confirmation:
    """Rational multipliers that no W survives; the ranks of the premise in rationals."""
    X, z = exact.fractions(one["X"]), exact.fractions(one["z"])
    if exact.rank_of(z) < len(X) or any(exact.rank_of(x[0] - x[1:]) < len(x) - 1 for x in X):
        raise NoProof("the tokens are not in general position")
    found = exact.infeasible(Problem.of(one.tokens, list(one.first)))
    return Confirmation(
        True,
        RATIONALS,
        f"the multipliers {written(found.multipliers.fractions())} prove that no W keeps the first "
        "tokens",
    )


# ---------------------------------------------------------------- rank


def _outside_span(one: Instance) -> float:
    """The part of W outside the span of the queries, as a share of ‖W‖, over 1e-6."""
    facts, z = floats.facts_of(one, one.first), one["z"]
    outside = facts.W - facts.W @ np.linalg.pinv(z) @ z
    return float(np.linalg.norm(outside)) / facts.size - 1e-6


def _confirm_outside_span(one: Instance) -> Confirmation:
    """The rational solution, and the rank of its rows together with the queries."""
    W = exact.solution(one, one.first).matrix.fractions()
    z = exact.fractions(one["z"])
    spans, together, rank = exact.rank_of(z), exact.rank_of([*z, *W]), exact.rank_of(W)
    return Confirmation(
        together > spans or rank > len(z),
        RATIONALS,
        f"the exact solution has rank {rank} with {len(z)} inputs; queries span {spans} "
        f"dimensions, {together} with its rows",
    )


# ---------------------------------------------------------------- local optimality


def _shortest(one: Instance) -> tuple[float, floats.Alpha]:
    """The least norm of another locally optimal selection, and that selection; inf without."""
    best = one.best
    found = [(float("inf"), best)]
    for alpha in floats.selections(one):
        if alpha != best and floats.separable(one, alpha) and floats.locally_optimal(one, alpha):
            found.append((floats.facts_of(one, alpha).size, alpha))
    return min(found)


def _shorter(one: Instance) -> float:
    """1 − (the least norm of another locally optimal selection)/(that of the best tokens)."""
    return max(1 - _shortest(one)[0] / floats.facts_of(one, one.best).size, -10.0)


def _confirm_shorter(one: Instance) -> Confirmation:
    """Both squared norms, tight tokens and scores in rationals."""
    best, (_, alpha) = one.best, _shortest(one)
    if alpha == best:
        raise NoProof("no other selection is locally optimal")
    own, other = exact.solution(one, best), exact.solution(one, alpha)
    gamma = exact.scores(one)
    local = all(gamma[i, alpha[i]] > gamma[i, t] for i, t in exact.tight_tokens(one, alpha, other))
    return Confirmation(
        local and other.square < own.square,
        RATIONALS,
        f"‖W‖² is {own.square} for the best tokens {list(best)} and {other.square} for the locally "
        f"optimal {list(alpha)}",
    )


def _two_queries(one: Instance) -> bool:
    """Two independent queries, and some W keeps the first tokens."""
    return bool(np.linalg.matrix_rank(one["z"]) == 2) and floats.keeps_first(one)


def _signed(one: Instance, sign: float) -> Problem:
    """The vectors u with Δ_k·u ≥ 1 in the first input and sign·Δ_k·u ≥ 1 in the second.

    u wᵀ keeps the first tokens of both inputs exactly if ±u is such a vector for one sign: the
    queries are independent, so that w·z_1 and w·z_2 may be any two numbers.
    """
    X = one["X"]
    rows: Floats = np.concatenate([X[0, 0] - X[0, 1:], sign * (X[1, 0] - X[1, 1:])])
    return Problem.from_rows(rows, np.ones((len(rows), 1)))


def _above_rank_one(one: Instance) -> float:
    """1 where no matrix of rank one keeps the first tokens, else minus its largest margin."""
    found = [solve(_signed(one, sign)) for sign in (1.0, -1.0)]
    return max((-1 / float(c.upper) for c in found if c.W is not None), default=1.0)


def _confirm_above_rank_one(one: Instance) -> Confirmation:
    """A rational W that keeps the tokens, and rational proofs that none of rank one does."""
    found = exact.solution(one, one.first)
    said = [
        written(exact.infeasible(_signed(one, sign)).multipliers.fractions())
        for sign in (1.0, -1.0)
    ]
    return Confirmation(
        exact.rank_of(exact.fractions(one["z"])) == 2,
        RATIONALS,
        f"{written(found.matrix.fractions())} keeps the first tokens and no matrix of rank one "
        f"does: multipliers {said[0]} and {said[1]} forbid both signs",
    )


STATEMENTS = (
    Statement(
        "separability",
        title="d ≥ max(T − 1, n) separates",
        says="If d ≥ max(T − 1, n), the queries are independent and the key differences of each "
        "input are, some W keeps the first token of every input (v1, Theorems 1 and 8; 'almost "
        "every dataset' read as these two independences, which almost every dataset has).",
        kind="theorem",
        space=Space(
            {"n": (1, 3), "T": (2, 4), "d": (1, 4)},
            (X, Z),
            fits=lambda s: s["d"] >= max(s["T"] - 1, s["n"]),
        ),
        premises=_general_position,
        violation=_inseparable,
        confirm=_confirm_inseparable,
        claims=("B.separability-against-dimension",),
        proves="a rational Farkas vector",
    ),
    Statement(
        "low-rank",
        title="The solution has rank at most n",
        says="W^mm has its rows in the span of the queries, and so rank at most n (v1, Lemma 1, "
        "Frobenius norm).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (2, 4)}, (X, Z)),
        premises=floats.keeps_first,
        violation=_outside_span,
        confirm=_confirm_outside_span,
        claims=("B.low-rank",),
        proves="ranks of the rational solution",
    ),
    Statement(
        "least-norm",
        title="The best tokens have the least norm of all local optima",
        says="Among the locally optimal selections that can be kept, the tokens of highest score "
        "have the least ‖W^mm‖.",
        kind="conjecture",
        space=Space({"n": (1, 2), "T": (2, 3), "d": (1, 2)}, (X, V)),
        premises=floats.keeps_best,
        violation=_shorter,
        confirm=_confirm_shorter,
        proves="squared norms, tight tokens and scores in rationals",
    ),
    Statement(
        "nuclear-rank",
        title="A nuclear solution has rank r with r(r + 1)/2 ≤ n",
        says="The nuclear problem of n inputs has a solution of rank r with r(r + 1)/2 ≤ n; hunted "
        "at n = 2, where it says rank one. (With the number of rows in place of n it is a "
        "theorem.)",
        kind="conjecture",
        space=Space({"T": (2, 4), "d": (1, 3)}, (Field("X", (2, "T", "d")), Field("z", (2, 2)))),
        premises=_two_queries,
        violation=_above_rank_one,
        confirm=_confirm_above_rank_one,
        proves="rational Farkas vectors against both signs of a rank-one matrix",
    ),
)
