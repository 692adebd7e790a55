"""The statements that can be hunted, by name; each module lists some about one subject."""

from __future__ import annotations

from difflib import get_close_matches
from typing import get_args

from attsvm.errors import Unsupported
from attsvm.experiments.statements import descent, losses, nuclear, orders, solutions
from attsvm.experiments.statements.statement import (
    Confirmation,
    Field,
    Instance,
    Kind,
    Space,
    Statement,
)

__all__ = [
    "STATEMENTS",
    "Confirmation",
    "Field",
    "Instance",
    "Space",
    "Statement",
    "statement_of",
]

# Those that are proved come first: a hunt that breaks one has found a fault, of the proof or of
# this library. Then those that are false, and conjectures.
STATEMENTS: dict[str, Statement] = {
    statement.name: statement
    for kind in get_args(Kind)
    for module in (solutions, losses, descent, nuclear, orders)
    for statement in module.STATEMENTS
    if statement.kind == kind
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
