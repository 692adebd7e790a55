"""The ledger: what a claim's work leaves behind, so that it can be checked without the work.

A claim trains and solves through the functions of claims/shared/work.py. Alone they are those of
the library. While a ledger is open they write in it, or read from it:

recording   the record one step before the end of every run is kept beside the result
replaying   nothing is run again: a run ends with one step of its rule from the kept record, and a
            solution is the one on file, certified again. What is not known this way is nan in
            floats and UNKNOWN in whole numbers. Chosen pieces of work are done again in full.

The result of a replay is the one on file wherever it is known, or the file is not of this run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm.certificate import Certificate
from attsvm.claims.claim import Result
from attsvm.errors import AttsvmError

# Names of the ledger's own arrays in a result begin with this.
LEDGER = "ledger."
# A whole number that a replay does not know.
UNKNOWN = np.iinfo(np.int64).min
# How far a replay may be from the file, as a share of the largest entry of a matrix. On the same
# processor they are equal, but for last digits of sums whose order depends on what is summed
# beside. "step": one step, or a number recomputed from kept ones. A search ends near its point.
# Rounding grows in mirror descent, which takes roots of entries near 0, in runs on factors, which
# leave a saddle, and where a rule (sign, spectral) or a head with kinks leaps. Networks
# in 32 bits, of many steps, are equal on the same processor alone; elsewhere about as good.
WITHIN = {
    "step": 1e-7,
    "solve": 1e-7,
    "run": 1e-4,
    "search": 1e-2,
    "mirror": 1e-2,
    "factors": 5e-2,
    "leaps": 5e-2,
    "network": 1e-1,
}
SOLVED = f"{LEDGER}solved"
# A piece of work that can be done again by itself: (its kind in WITHIN, call, instance).
Piece = tuple[str, int, int]


class Doubt(AttsvmError):
    """What is on file cannot have come from the run that the config asks for."""


@dataclass(eq=False)
class Ledger:
    """What was written or read so far.

    saved: the arrays on file in a replay, None while recording. chosen: the pieces that are done
    again in full; None: all of them, where the file has no ledger. arrays: what is recorded.
    pieces: every piece of work met so far. proved: the solutions on file that prove what they are
    there for, (name, place): they need not be those of another solve to the last digit.
    """

    saved: Result | None = None
    chosen: frozenset[Piece] | None = frozenset()
    arrays: Result = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    calls: int = 0
    solved: list[Certificate] = field(default_factory=list)
    places: dict[int, str] = field(default_factory=dict)
    proved: set[tuple[str, int]] = field(default_factory=set)

    def call(self, count: int, kind: str) -> tuple[str, list[int]]:
        """The name of the next call, on `count` instances, and which are done again in full."""
        number = self.calls
        self.calls += 1
        new: list[Piece] = [(kind, number, b) for b in range(count)]
        self.pieces += new
        full = [b for b, piece in enumerate(new) if self.chosen is None or piece in self.chosen]
        return f"{LEDGER}{number}.", full

    def read(self, name: str) -> Any:
        """An array of the ledger on file."""
        if self.saved is None or name not in self.saved:
            raise Doubt(f"the array {name} is not on file")
        return self.saved[name]

    def closed(self) -> Result:
        """The arrays of the ledger, with the place in the result of every solution."""
        places = [self.places.get(id(c), "") for c in self.solved]
        return {**self.arrays, SOLVED: np.array(places, dtype=np.str_)}


# The ledger that is open, if one is.
OPEN: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def opened(ledger: Ledger) -> Iterator[Ledger]:
    """A context in which claims write in this ledger, or read from it."""
    token = OPEN.set(ledger)
    try:
        yield ledger
    finally:
        OPEN.reset(token)
