"""B, Theorem 3: with all margins tight or equal scores the loss falls along W^mm everywhere."""

from __future__ import annotations

from attsvm.experiments.statements.parts.along import confirm_rise, rise_along
from attsvm.experiments.statements.parts.facts import all_tight, best_tokens, equal_others, facts_of
from attsvm.experiments.statements.parts.rationals import exact_solution
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """The best tokens are unique and can be kept; B.1 or B.2."""
    best = best_tokens(one)
    if best is None or facts_of(one, best) is None:
        return False
    return equal_others(one) or all_tight(one)


def confirm(one: Instance) -> Confirmation:
    """B.1 in rationals where B.2 does not hold, and the sign of the slope in sixty digits."""
    if not equal_others(one):
        best = best_tokens(one)
        found = None if best is None else exact_solution(one, best)
        if found is None or not found.tight.all():
            return Confirmation(False, "rationals", "B.1 does not hold exactly")
    return confirm_rise(one)


STATEMENT = Statement(
    "no-stationary-point",
    title="The loss falls along W^mm everywhere",
    says="If every token but the best is tight (B.1) or the others of an input share one score "
    "(B.2), then −⟨∇L(W), W^mm⟩ > 0 at every W: there is no stationary point (v1, Theorem 3).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 3), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",)), Field("p0", ("d",), scale=2.0)),
    ),
    premises=premises,
    violation=rise_along,
    confirm=confirm,
    claims=("B.no-stationary-points",),
    proves="premises in rationals, the slope in sixty digits",
)
