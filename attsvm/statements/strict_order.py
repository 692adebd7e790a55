"""Known to be false. D: kinds of tokens are ordered strictly."""

from __future__ import annotations

from attsvm.statements.parts.sentence_orders import (
    LINES,
    SPACE,
    confirm_fall,
    largest_fall,
    realizable,
)
from attsvm.statements.statement import Confirmation, Instance, Statement


def violation(one: Instance) -> float:
    """By how much a kind below reaches one above; a tie counts, so 1e-6 is added."""
    return largest_fall(one) + 1e-6


def confirm(one: Instance) -> Confirmation:
    """The column in rationals."""
    return confirm_fall(one, ties=True)


STATEMENT = Statement(
    "strict-order",
    title="Kinds of tokens are ordered strictly",
    says="For each query the solution of the attention ranks optimal tokens above confused and "
    "non-comparable ones, and these above non-optimal ones, strictly (D, as recalled).",
    kind="false",
    space=SPACE,
    premises=realizable,
    violation=violation,
    confirm=confirm,
    claims=("D.order-extension-ties",),
    lines=LINES,
    proves="the column in rationals",
)
