"""A and B: the best tokens are locally optimal wherever they can be kept."""

from __future__ import annotations

from attsvm.experiments.statements.parts.facts import best_tokens, facts_of
from attsvm.experiments.statements.parts.rationals import exact_scores, exact_solution, tight_tokens
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement
from attsvm.theory.optima import optimality


def premises(one: Instance) -> bool:
    """The best tokens are unique and can be kept."""
    best = best_tokens(one)
    return best is not None and facts_of(one, best) is not None


def violation(one: Instance) -> float:
    """1 where the library says that the best tokens are not globally and locally optimal."""
    best = best_tokens(one)
    found = None if best is None else optimality(one.tokens, best, one["v"])
    if found is None:
        return -1.0
    return -1.0 if found.kind == "global" and found.score_gap > 0 else 1.0


def confirm(one: Instance) -> Confirmation:
    """The tight tokens of the rational solution and their scores."""
    best = best_tokens(one)
    found = None if best is None else exact_solution(one, best)
    if best is None or found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    gamma = exact_scores(one)
    above = [(i, t) for i, t in tight_tokens(one, best, found) if gamma[i][t] >= max(gamma[i])]
    return Confirmation(bool(above), "rationals", f"tight tokens of the best score: {above}")


STATEMENT = Statement(
    "best-is-local",
    title="The best tokens are locally optimal",
    says="Wherever the tokens of highest score are unique and can be kept, every tight token has a "
    "lower score (A and B, by definition; the verdict of attsvm.optimality is hunted).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 4), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    proves="tight tokens and scores in rationals",
)
