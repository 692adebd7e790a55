"""Derived: signs of the column: optimal not below 0, non-comparable 0, non-optimal not above."""

from __future__ import annotations

from attsvm.experiments.statements.parts.rationals import exact_solution, written
from attsvm.experiments.statements.parts.sentence_orders import (
    LINES,
    SPACE,
    column,
    exact_column,
    kinds,
    realizable,
)
from attsvm.experiments.statements.statement import Confirmation, Instance, Statement

_SIGN = {"optimal": -1, "non-optimal": 1}


def violation(one: Instance) -> float:
    """The most by which an entry has the wrong sign for its kind."""
    found = [-1.0]
    for name, u in zip(kinds(one), column(one), strict=True):
        if name == "non-comparable":
            found.append(abs(float(u)))
        elif name in _SIGN:
            found.append(_SIGN[name] * float(u))
    return max(found)


def confirm(one: Instance) -> Confirmation:
    """The column in rationals."""
    found = exact_solution(one, [0] * len(one["X"])) if realizable(one) else None
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    u = exact_column(found)
    wrong = [
        t
        for t, name in enumerate(kinds(one))
        if (name == "non-comparable" and u[t] != 0) or _SIGN.get(name, 0) * u[t] > 0
    ]
    return Confirmation(
        bool(wrong), "rationals", f"the column is {written(u)}; wrong signs at {wrong}"
    )


STATEMENT = Statement(
    "order-signs",
    title="Signs of kinds",
    says="With confused tokens or without, optimal tokens are at or above 0, non-comparable ones "
    "at 0, non-optimal ones at or below 0 in the column of their query (derived from the "
    "optimality conditions).",
    kind="theorem",
    space=SPACE,
    premises=realizable,
    violation=violation,
    confirm=confirm,
    claims=("D.confused-tokens",),
    lines=LINES,
    proves="the column in rationals",
)
