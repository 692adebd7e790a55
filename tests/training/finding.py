"""Finding: one figure of the evidence, with what was asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A row of the evidence; met is None where a figure is only shown."""

    what: str
    found: str
    asked: str = "–"
    met: bool | None = None

    def __str__(self) -> str:
        verdict = "–" if self.met is None else "yes" if self.met else "NO"
        return f"| {self.what} | {self.found} | {self.asked} | {verdict} |"


# A part of the evidence: its findings, one by one; with True, on fewer seeds.
Part = Callable[[bool], Iterator[Finding]]


def below(what: str, value: float, most: float) -> Finding:
    """A figure that may be at most this large."""
    return Finding(what, f"{value:.2g}", f"≤ {most:.0e}", bool(value <= most))


def above(what: str, value: float, least: float, digits: int = 4) -> Finding:
    """A figure that must be at least this large."""
    return Finding(what, f"{value:.{digits}f}", f"≥ {least:g}", bool(value >= least))


def equal(what: str, value: object, asked: object) -> Finding:
    """A figure that must be this one."""
    return Finding(what, str(value), str(asked), bool(value == asked))
