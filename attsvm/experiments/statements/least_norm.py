"""Conjecture: among the locally optimal selections the best tokens have the least norm."""

from __future__ import annotations

from attsvm.experiments.statements.parts.facts import (
    best_tokens,
    facts_of,
    locally_optimal,
    selections,
)
from attsvm.experiments.statements.parts.rationals import exact_scores, exact_solution, tight_tokens
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """The best tokens are unique and can be kept."""
    best = best_tokens(one)
    return best is not None and facts_of(one, best) is not None


def _shortest(one: Instance) -> tuple[float, tuple[int, ...]]:
    """The least norm of another locally optimal selection, and that selection; inf without."""
    best = best_tokens(one)
    own = () if best is None else tuple(int(t) for t in best)
    found = [(float("inf"), own)]
    for alpha in selections(one):
        facts = None if alpha == own else facts_of(one, alpha)
        if facts is not None and locally_optimal(one, alpha, facts):
            found.append((facts.size, alpha))
    return min(found)


def violation(one: Instance) -> float:
    """1 − (the least norm of another locally optimal selection)/(that of the best tokens)."""
    best = best_tokens(one)
    facts = None if best is None else facts_of(one, best)
    least, _ = _shortest(one)
    if facts is None or least == float("inf"):
        return -10.0
    return max(1 - least / facts.size, -10.0)


def confirm(one: Instance) -> Confirmation:
    """Both squared norms, tight tokens and scores in rationals."""
    best, (_, alpha) = best_tokens(one), _shortest(one)
    if best is None or alpha == tuple(best.tolist()):
        return Confirmation(False, "rationals", "no other selection is locally optimal")
    own, other = exact_solution(one, best), exact_solution(one, alpha)
    if own is None or other is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    gamma = exact_scores(one)
    local = all(gamma[i][alpha[i]] > gamma[i][t] for i, t in tight_tokens(one, alpha, other))
    return Confirmation(
        local and other.square < own.square,
        "rationals",
        f"‖W‖² is {own.square} for the best tokens {[int(t) for t in best]} and {other.square} for "
        f"the locally optimal {list(alpha)}",
        {"best": str(own.square), "other": str(other.square)},
    )


STATEMENT = Statement(
    "least-norm",
    title="The best tokens have the least norm of all local optima",
    says="Among the locally optimal selections that can be kept, the tokens of highest score have "
    "the least ‖W^mm‖.",
    kind="conjecture",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (1, 2)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    lines=(
        "for alpha, o in attsvm.local_optima(attsvm.Tokens(X), v).local:",
        "    print(alpha, o.kind, o.certificate.upper)",
    ),
    proves="squared norms, tight tokens and scores in rationals",
)
