"""Statements about max-margin solutions: when there is one, its rank, tight tokens and norm."""

from __future__ import annotations

import numpy as np

from attsvm.experiments.statements import facts
from attsvm.experiments.statements.facts import written
from attsvm.experiments.statements.statement import (
    Confirmation,
    Instance,
    NoProof,
    Space,
    Statement,
    V,
    X,
    Z,
)
from attsvm.problem.problem import Problem
from attsvm.theory.optima import optimality

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
    return -1 / facts.facts_of(one, alpha).size if facts.separable(one, alpha) else 1.0


def _confirm_inseparable(one: Instance) -> Confirmation:
    """Rational multipliers that no W survives; the ranks of the premise in rationals."""
    X, z = facts.fractions(one["X"]), facts.fractions(one["z"])
    if facts.rank_of(z) < len(X) or any(facts.rank_of(x[0] - x[1:]) < len(x) - 1 for x in X):
        raise NoProof("the tokens are not in general position")
    found = facts.infeasible(Problem.of(one.tokens, list(one.first)))
    return Confirmation(
        True,
        f"the multipliers {written(found.multipliers.fractions())} prove that no W keeps the first "
        "tokens",
    )


# ---------------------------------------------------------------- rank


def _outside_span(one: Instance) -> float:
    """The part of W outside the span of the queries, as a share of ‖W‖, over 1e-6."""
    found, z = facts.facts_of(one, one.first), one["z"]
    outside = found.W - found.W @ np.linalg.pinv(z) @ z
    return float(np.linalg.norm(outside)) / found.size - 1e-6


def _confirm_outside_span(one: Instance) -> Confirmation:
    """The rational solution, and the rank of its rows together with the queries."""
    W = facts.exact_solution(one, one.first).matrix.fractions()
    z = facts.fractions(one["z"])
    spans, together, rank = facts.rank_of(z), facts.rank_of([*z, *W]), facts.rank_of(W)
    return Confirmation(
        together > spans or rank > len(z),
        f"the exact solution has rank {rank} with {len(z)} inputs; queries span {spans} "
        f"dimensions, {together} with its rows",
    )


# ---------------------------------------------------------------- tight tokens


def _loosest_input(one: Instance) -> float:
    """The largest, over inputs, of the least slack of their tokens at W^mm."""
    found = facts.facts_of(one, one.first)
    slack = found.certificate.problem.margins(found.W) - 1
    return float(slack.reshape(len(one["X"]), -1).min(axis=1).max())


def _confirm_loose(one: Instance) -> Confirmation:
    """The margins of the rational solution."""
    alpha = one.first
    W = facts.exact_solution(one, alpha).matrix.fractions().ravel()
    margins = facts.rows_of(one, alpha) @ W
    loose = np.flatnonzero((margins.reshape(len(alpha), -1) > 1).all(axis=1))
    which = loose[0] if len(loose) else "–"
    return Confirmation(
        len(loose) > 0,
        f"W^mm = {written(W)} has the margins {written(margins)}: no token of input {which} is "
        "tight",
    )


# ---------------------------------------------------------------- local optimality


def _is_not_global(one: Instance) -> float:
    """1 where the library says that the best tokens are not globally and locally optimal."""
    found = optimality(one.tokens, list(one.best), one["v"])
    return -1.0 if found.kind == "global" and found.score_gap > 0 else 1.0


def _confirm_not_global(one: Instance) -> Confirmation:
    """The tight tokens of the rational solution and their scores."""
    best, gamma = one.best, facts.exact_scores(one)
    tight = facts.tight_tokens(one, best, facts.exact_solution(one, best))
    above = [(i, t) for i, t in tight if gamma[i, t] >= max(gamma[i])]
    return Confirmation(bool(above), f"tight tokens of the best score: {above}")


def _shortest(one: Instance) -> tuple[float, facts.Alpha]:
    """The least norm of another locally optimal selection, and that selection; inf without."""
    best = one.best
    found = [(float("inf"), best)]
    for alpha in facts.selections(one):
        if alpha != best and facts.separable(one, alpha) and facts.locally_optimal(one, alpha):
            found.append((facts.facts_of(one, alpha).size, alpha))
    return min(found)


def _shorter(one: Instance) -> float:
    """1 − (the least norm of another locally optimal selection)/(that of the best tokens)."""
    return max(1 - _shortest(one)[0] / facts.facts_of(one, one.best).size, -10.0)


def _confirm_shorter(one: Instance) -> Confirmation:
    """Both squared norms, tight tokens and scores in rationals."""
    best, (_, alpha) = one.best, _shortest(one)
    if alpha == best:
        raise NoProof("no other selection is locally optimal")
    own, other = facts.exact_solution(one, best), facts.exact_solution(one, alpha)
    gamma = facts.exact_scores(one)
    local = all(gamma[i, alpha[i]] > gamma[i, t] for i, t in facts.tight_tokens(one, alpha, other))
    return Confirmation(
        local and other.square < own.square,
        f"‖W‖² is {own.square} for the best tokens {list(best)} and {other.square} for the locally "
        f"optimal {list(alpha)}",
    )


def _cone_is_defined(one: Instance) -> bool:
    """The first tokens can be kept, scores are distinct, and each input has a tight token.

    Also a token of lower score in every input that has one of higher score: without it the cone
    of v1 is not defined there.
    """
    found = one.scores
    if not facts.keeps_first(one) or any(len(set(row)) < len(row) for row in found.tolist()):
        return False
    low = (found < found[:, :1]).any(axis=1)
    return bool(facts.facts_of(one, one.first).tight.any(axis=1).all() and low.all())


def _depth(one: Instance) -> float:
    """The largest ε of a cone that W^mm lies in, times ‖W^mm‖."""
    W, least = facts.facts_of(one, one.first).W, np.inf
    for h, g in zip(facts.logits(one, W), one.scores, strict=True):
        low, high = h[g < g[0]], h[g > g[0]]
        if len(high):
            least = min(least, float(low.max() - high.max()))
    return least


def _cone_disagrees(one: Instance) -> float:
    """How far the cone and local optimality disagree."""
    local, depth = facts.locally_optimal(one, one.first), _depth(one)
    if not np.isfinite(depth):
        return -1.0 if local else 1.0
    return -depth + 1e-9 if local else depth - 1e-9


def _confirm_cone(one: Instance) -> Confirmation:
    """Tight tokens and logits of the rational solution."""
    alpha = one.first
    found = facts.exact_solution(one, alpha)
    gamma, tight = facts.exact_scores(one), facts.tight_tokens(one, alpha, found)
    local = all(gamma[i, 0] > gamma[i, t] for i, t in tight)
    W, inside = found.matrix.fractions(), True
    pairs = zip(facts.fractions(one["X"]), facts.fractions(one.tokens.queries), gamma, strict=True)
    for x, z, g in pairs:
        h = x @ W @ z
        low, high = h[g < g[0]], h[g > g[0]]
        inside = inside and (not len(high) or (len(low) > 0 and max(low) > max(high)))
    covered = {i for i, _ in tight} == set(range(len(alpha)))
    return Confirmation(
        covered and inside != local,
        f"locally optimal: {local}; W^mm in a cone: {inside}",
    )


STATEMENTS = (
    Statement(
        "separability",
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
        says="W^mm has its rows in the span of the queries, and so rank at most n (v1, Lemma 1, "
        "Frobenius norm).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (2, 4)}, (X, Z)),
        premises=facts.keeps_first,
        violation=_outside_span,
        confirm=_confirm_outside_span,
        claims=("B.low-rank",),
        proves="ranks of the rational solution",
    ),
    Statement(
        "local-cone",
        says="Where each input has a tight token and one of lower score, a selection is locally "
        "optimal exactly if W^mm puts in each input a token of lower score before all of higher "
        "score (v1, Lemma 5).",
        kind="theorem",
        space=Space({"n": (1, 2), "T": (2, 4), "d": (1, 3)}, (X, V)),
        premises=_cone_is_defined,
        violation=_cone_disagrees,
        confirm=_confirm_cone,
        claims=("B.local-path",),
        proves="the rational solution, its tight tokens and logits",
    ),
    Statement(
        "best-is-local",
        says="Wherever the tokens of highest score are unique and can be kept, every tight token "
        "has a lower score (A and B, by definition; the verdict of attsvm.optimality is hunted).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 4), "d": (1, 3)}, (X, V)),
        premises=facts.keeps_best,
        violation=_is_not_global,
        confirm=_confirm_not_global,
        proves="tight tokens and scores in rationals",
    ),
    Statement(
        "every-input-tight",
        says="At W^mm every input has a token whose margin is 1 (planted for tests; false).",
        kind="planted",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (1, 3)}, (X,)),
        premises=facts.keeps_first,
        violation=_loosest_input,
        confirm=_confirm_loose,
        proves="the rational solution and its margins",
    ),
    Statement(
        "least-norm",
        says="Among the locally optimal selections that can be kept, the tokens of highest score "
        "have the least ‖W^mm‖.",
        kind="conjecture",
        space=Space({"n": (1, 2), "T": (2, 3), "d": (1, 2)}, (X, V)),
        premises=facts.keeps_best,
        violation=_shorter,
        confirm=_confirm_shorter,
        proves="squared norms, tight tokens and scores in rationals",
    ),
)
