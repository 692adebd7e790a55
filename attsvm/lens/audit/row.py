"""Row: one thing that an audit compared, made of checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

# Whether something is so, and what is said where it is not.
Check = tuple[bool, str]


class Row(NamedTuple):
    """what: in a few words; figures: how many were compared; doubts: a sentence on each that does
    not agree."""

    what: str
    figures: int
    doubts: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.doubts

    def as_json(self) -> dict[str, Any]:
        """The row as plain entries."""
        return {**self._asdict(), "doubts": list(self.doubts), "agrees": self.agrees}


def row_of(what: str, checks: Iterable[Check]) -> Row:
    """The Row of these checks."""
    made = list(checks)
    return Row(what, len(made), tuple(said for fine, said in made if not fine))
