"""Hunt: how many instances were tried, what they covered, and what was found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm.experiments.counterexamples.plan import RANDOM, Drawn, level_words, slices
from attsvm.experiments.counterexamples.search import Tally, arrays, plain
from attsvm.experiments.statements import Confirmation, Instance, Statement
from attsvm.experiments.statements.statement import LEVELS

# From here on numbers are given as powers of ten.
_MANY = 100_000


@dataclass(frozen=True, eq=False)
class FoundInstance:
    """An instance that breaks the statement: shrunk, as it was first met, and its exact check.

    note: what went wrong while it was shrunk, if anything did.
    """

    drawn: Drawn
    first: Drawn
    instance: Instance
    violation: float
    confirmation: Confirmation
    note: str = ""


@dataclass(eq=False, repr=False)
class Hunt:
    """A hunt so far.

    tried: instances looked at; held: those that meet the premises; doubtful: candidates in floats
    that the exact check did not confirm, the first of them `doubt`. best, where: the largest
    violation and its instance, as drawn. covered: instances by sizes, level and kind of block.
    rises: (tried, best) whenever the best rose. seconds: of all runs together.
    """

    statement: str
    seed: int
    blocks: int = 0
    tried: int = 0
    held: int = 0
    doubtful: int = 0
    best: float = -np.inf
    where: dict[str, Any] | None = None
    doubt: dict[str, Any] | None = None
    covered: Counter[str] = field(default_factory=Counter)
    rises: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    found: FoundInstance | None = None

    def add(self, tally: Tally) -> None:
        """Count one more block."""
        self.blocks += 1
        self.tried += tally.tried
        self.held += tally.held
        self.doubtful += tally.doubtful
        self.doubt = self.doubt or tally.doubt
        self.covered.update(tally.covered)
        if tally.best > self.best:
            self.best, self.where = tally.best, tally.where
            self.rises.append((self.tried, self.best))

    @property
    def status(self) -> str:
        """found (and confirmed), candidate (found in floats alone), or nothing."""
        if self.found is None:
            return "nothing"
        return "found" if self.found.confirmation.proved else "candidate"

    @property
    def message(self) -> str:
        """One sentence on what was found, or on what was covered."""
        if self.found is not None:
            said = self.found.confirmation
            start = "counterexample" if said.proved else "candidate"
            how = f"confirmed by {said.how}" if said.proved else f"not confirmed ({said.how})"
            more = f"; {self.found.note}" if self.found.note else ""
            return f"{start} after {number(self.tried)} instances, {how}: {said.says}{more}"
        more = ""
        if self.doubtful:
            more = f"; {number(self.doubtful)} candidates in floats were not confirmed"
        return (
            f"no counterexample among {number(self.tried)} instances with {self.reach}; the "
            f"premises hold in {number(self.held)} of them{more}"
        )

    @property
    def reach(self) -> str:
        """The largest sizes and the entries that were tried, in words."""
        most: dict[str, int] = {}
        levels: set[str] = set()
        for cell in self.covered:
            sizes, level, _ = cell.split("; ")
            levels.add(level)
            for letter, size in re.findall(r"(\w+) = (\d+)", sizes):
                most[letter] = max(most.get(letter, 0), int(size))
        said = ", ".join(f"{letter} ≤ {size}" for letter, size in most.items())
        if RANDOM in levels:
            return f"{said}, entries multiples of 1/8 in −4..4"
        known = [word for level in LEVELS for word in (f"in {level}", level) if word in levels]
        known = known or sorted(levels)
        return f"{said}, entries {', '.join(known)}"

    def whole(self, statement: Statement) -> list[str]:
        """The sizes and levels of which every instance was tried, in words."""
        out: dict[str, int] = {}
        for sizes, level, _, count in slices(statement):
            said = ", ".join(f"{letter} = {size}" for letter, size in sizes.items())
            cell = f"{said}; {level_words(statement.space, level)}"
            out[cell] = out.get(cell, 0) + count
        return [cell for cell, count in out.items() if self.covered[f"{cell}; every"] >= count]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: what the folder keeps, and what --json prints."""
        found = self.found
        return {
            "status": self.status,
            "statement": self.statement,
            "seed": self.seed,
            "message": self.message,
            "blocks": self.blocks,
            "tried": self.tried,
            "held": self.held,
            "doubtful": self.doubtful,
            "best": None if self.best == -np.inf else self.best,
            "where": self.where,
            "doubt": self.doubt,
            "covered": dict(sorted(self.covered.items())),
            "rises": [list(pair) for pair in self.rises],
            "seconds": round(self.seconds, 3),
            "found": None
            if found is None
            else {
                "violation": found.violation,
                "drawn": plain(found.drawn),
                "first": plain(found.first),
                "instance": plain(dict(found.instance.arrays)),
                "confirmed": found.confirmation.proved,
                "how": found.confirmation.how,
                "says": found.confirmation.says,
                "numbers": dict(found.confirmation.numbers),
                "note": found.note,
            },
        }

    @staticmethod
    def of_dict(saved: dict[str, Any], statement: Statement) -> Hunt:
        """The hunt of `to_dict`."""
        hunt = Hunt(saved["statement"], int(saved["seed"]))
        for name in ("blocks", "tried", "held", "doubtful"):
            setattr(hunt, name, int(saved[name]))
        hunt.where, hunt.doubt = saved["where"], saved["doubt"]
        hunt.seconds = float(saved["seconds"])
        hunt.best = -np.inf if saved["best"] is None else float(saved["best"])
        hunt.covered = Counter(saved["covered"])
        hunt.rises = [(int(a), float(b)) for a, b in saved["rises"]]
        if saved["found"] is not None:
            kept = saved["found"]
            drawn = arrays(kept["drawn"])
            said = Confirmation(kept["confirmed"], kept["how"], kept["says"], kept["numbers"])
            instance = statement.space.instance(drawn)
            first = arrays(kept["first"])
            hunt.found = FoundInstance(
                drawn, first, instance, float(kept["violation"]), said, kept.get("note", "")
            )
        return hunt

    def __repr__(self) -> str:
        return f"Hunt({self.statement}: {self.message})"


def number(n: int) -> str:
    """A count as it is read: 12,345, or 2.1·10⁶ for many.

    >>> number(12345), number(2100000)
    ('12,345', '2.1·10⁶')
    """
    if n < _MANY:
        return f"{n:,}"
    power = len(str(n)) - 1
    raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
    return f"{n / 10**power:.1f}".removesuffix(".0") + f"·10{raised}"
