"""Known to be false. D: the closed form of Proposition 2."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attsvm.experiments.statements.parts.rationals import exact_solution, written
from attsvm.experiments.statements.parts.sentence_orders import (
    LINES,
    SPACE,
    column,
    exact_column,
    kinds,
    sentences_written,
    unconfused,
)
from attsvm.experiments.statements.statement import Confirmation, Instance, Statement


def _formula(one: Instance) -> list[Fraction]:
    """|N|/(|O| + |N|) at optimal, −|O|/(|O| + |N|) at non-optimal tokens, 0 elsewhere."""
    names = kinds(one)
    above, below = names.count("optimal"), names.count("non-optimal")
    entries = {
        "optimal": Fraction(below, above + below),
        "non-optimal": Fraction(-above, above + below),
    }
    return [entries.get(name, Fraction(0)) for name in names]


def violation(one: Instance) -> float:
    """The largest difference between the column and the formula."""
    return float(np.abs(column(one) - [float(x) for x in _formula(one)]).max())


def confirm(one: Instance) -> Confirmation:
    """The column in rationals."""
    found = exact_solution(one, [0] * len(one["X"])) if unconfused(one) else None
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    u, printed = exact_column(found), _formula(one)
    squares = [sum((x * x for x in v), Fraction(0)) for v in (u, printed)]
    return Confirmation(
        u != printed,
        "rationals",
        f"sentences {sentences_written(one)} have the column {written(u)} of squared norm "
        f"{squares[0]}; the formula gives {written(printed)}, {squares[1]}",
        {"column": written(u), "formula": written(printed)},
    )


STATEMENT = Statement(
    "proposition-2",
    title="The closed form of the attention's solution",
    says="Without confused tokens the column of a query has the entries |N|/(|O| + |N|) at its "
    "optimal tokens O, −|O|/(|O| + |N|) at its non-optimal tokens N and 0 elsewhere (D, "
    "Proposition 2; in sets closed under prefixes it holds).",
    kind="false",
    space=SPACE,
    premises=unconfused,
    violation=violation,
    confirm=confirm,
    claims=("D.proposition-2",),
    lines=LINES,
    proves="the column in rationals",
)
