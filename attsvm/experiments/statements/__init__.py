"""The statements that can be hunted, by name: `equal-scores` is statements/equal_scores.py."""

from __future__ import annotations

from difflib import get_close_matches

from attsvm.errors import Unsupported
from attsvm.experiments.statements import (
    best_is_local,
    equal_scores,
    equal_scores_one_input,
    every_input_tight,
    factored_sign,
    falls_along_solution,
    first_gradient,
    least_norm,
    local_cone,
    loss_infimum,
    loss_level,
    low_rank,
    monotone_correlation,
    no_stationary_point,
    nuclear_rank,
    nuclear_unique,
    order_signs,
    over_parameterized,
    power_unique,
    proposition_2,
    separability,
    simplex_projection,
    smooth_gradient,
    strict_order,
    weak_duality,
    weak_order,
)
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement

__all__ = [
    "STATEMENTS",
    "Confirmation",
    "Field",
    "Instance",
    "Space",
    "Statement",
    "statement_of",
]

STATEMENTS: dict[str, Statement] = {
    # Proved: a hunt that finds something has found a fault, of the proof or of this library.
    "separability": separability.STATEMENT,
    "low-rank": low_rank.STATEMENT,
    "loss-infimum": loss_infimum.STATEMENT,
    "smooth-gradient": smooth_gradient.STATEMENT,
    "no-stationary-point": no_stationary_point.STATEMENT,
    "loss-level": loss_level.STATEMENT,
    "equal-scores-one-input": equal_scores_one_input.STATEMENT,
    "local-cone": local_cone.STATEMENT,
    "simplex-projection": simplex_projection.STATEMENT,
    "best-is-local": best_is_local.STATEMENT,
    "power-unique": power_unique.STATEMENT,
    "order-signs": order_signs.STATEMENT,
    "strict-order": strict_order.STATEMENT,
    "weak-duality": weak_duality.STATEMENT,
    # Known to be false, and one that is planted.
    "equal-scores": equal_scores.STATEMENT,
    "proposition-2": proposition_2.STATEMENT,
    "weak-order": weak_order.STATEMENT,
    "falls-along-solution": falls_along_solution.STATEMENT,
    "every-input-tight": every_input_tight.STATEMENT,
    # Conjectures, of the papers and of ours.
    "over-parameterized": over_parameterized.STATEMENT,
    "first-gradient": first_gradient.STATEMENT,
    "nuclear-unique": nuclear_unique.STATEMENT,
    "nuclear-rank": nuclear_rank.STATEMENT,
    "least-norm": least_norm.STATEMENT,
    "factored-sign": factored_sign.STATEMENT,
    "monotone-correlation": monotone_correlation.STATEMENT,
}


def statement_of(name: str) -> Statement:
    """The statement of this name, or the one that this claim states.

    >>> statement_of("B.low-rank").name
    'low-rank'
    """
    if name in STATEMENTS:
        return STATEMENTS[name]
    stated = [s for s in STATEMENTS.values() if name in s.claims]
    if len(stated) == 1:
        return stated[0]
    if stated:
        raise Unsupported(
            f"claim {name} has several statements to hunt: {', '.join(s.name for s in stated)}"
        )
    from attsvm.experiments.studies import studies

    listed = ", ".join(STATEMENTS)
    if name in studies():
        raise Unsupported(f"claim {name} cannot be hunted; these statements can: {listed}")
    near = get_close_matches(name, STATEMENTS, n=3, cutoff=0.4)
    hint = f"nearest are {', '.join(near)}" if near else f"known are {listed}"
    raise Unsupported(f"unknown statement {name!r}: {hint}")
