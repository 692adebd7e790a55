"""How the loss changes along W^mm at a point: for Theorem 3, and for the same without premises."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

from attsvm.experiments.statements.parts.descent import descent_along
from attsvm.experiments.statements.parts.digits import DIGITS, SURE, decimals, inner, look_at
from attsvm.experiments.statements.parts.facts import best_tokens, facts_of, point
from attsvm.experiments.statements.parts.rationals import exact_solution, written
from attsvm.experiments.statements.statement import Confirmation, Instance


def rise_along(one: Instance) -> float:
    """⟨∇L, W^mm⟩ at the point, as a share of ‖∇L‖‖W^mm‖: positive where the loss rises."""
    best = best_tokens(one)
    facts = None if best is None else facts_of(one, best)
    return -1.0 if facts is None else -descent_along(one, point(one, "p0"), facts.W)


def confirm_rise(one: Instance) -> Confirmation:
    """The sign of ⟨∇L, W^mm⟩ in sixty digits, W^mm in rationals."""
    best = best_tokens(one)
    found = None if best is None else exact_solution(one, best)
    if found is None:
        return Confirmation(False, "sixty digits", "no exact solution was found")
    W = found.matrix.fractions()
    with localcontext(Context(prec=DIGITS)):
        D = [[Decimal(x.numerator) / Decimal(x.denominator) for x in row] for row in W.tolist()]
        seen = look_at(one, decimals(point(one, "p0")))
        slope = -inner(seen.pull, D)
        scale = max(abs(a) for row in D for a in row)
        return Confirmation(
            slope > SURE * scale,
            "sixty digits",
            f"at p = {written(one['p0'])} the slope of the loss along W^mm = {written(W.ravel())} "
            f"is {float(slope):.6g}",
            {"slope": f"{slope:.30g}", "W^mm": written(W.ravel())},
        )
