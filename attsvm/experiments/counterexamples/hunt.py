"""hunt(): goes through the blocks until something is found or the time is up, and shrinks it.

The folder of a hunt holds

attsvm.json     the stamp of a RunFolder
hunt.json       the record: what was tried, covered and found
instance.npz    the instance, as a problem file of attsvm
instance.py     the instance as Python that shows the violation
figure.svg, .png  the instance and the way to it
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import write_arrays, write_json, write_text
from attsvm._utils.progress import Progress
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.counterexamples.search import (
    RANDOM,
    Drawn,
    Tally,
    arrays,
    found_statement,
    plain,
    search_block,
)
from attsvm.experiments.counterexamples.shrinking import shrink
from attsvm.experiments.executors import Engine, Failure, engine_of, map_tasks
from attsvm.experiments.statements import Confirmation, Instance, Statement
from attsvm.experiments.statements.statement import check_statement

# Seconds that shrinking may take.
SHRINKING = 60.0
RECORD = "hunt.json"
# The arrays that a problem file may hold.
_FILE = ("X", "z", "y", "v", "p0", "W0", "penalty")


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

    @staticmethod
    def of(statement: Statement, drawn: Drawn, first: Drawn, note: str = "") -> FoundInstance:
        """What drawn arrays show, by the statement's own functions."""
        one = statement.space.instance(drawn)
        said = statement.checked(one)
        return FoundInstance(drawn, first, one, statement.broken_by(one), said, note)


@dataclass(repr=False)
class Hunt(Tally):
    """A hunt so far: the tally of its blocks, and what was found.

    rises: (tried, best) whenever the best rose. seconds: of the search.
    """

    statement: str = ""
    seed: int = 0
    blocks: int = 0
    rises: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    found: FoundInstance | None = None

    def add(self, block: Tally) -> None:
        """Count one more block."""
        self.blocks += 1
        self.tried += block.tried
        self.held += block.held
        self.doubtful += block.doubtful
        self.doubt = self.doubt or block.doubt
        self.candidate = block.candidate
        self.covered.update(block.covered)
        self.grow(block.largest)
        if block.best > self.best:
            self.best, self.where = block.best, block.where
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
            return f"{start} after {self.tried:,} instances, {how}: {said.says}{more}"
        more = ""
        if self.doubtful:
            more = f"; {self.doubtful:,} candidates in floats were not confirmed"
        sizes = ", ".join(f"{letter} ≤ {size}" for letter, size in self.largest.items())
        entries = "multiples of 1/8 in −4..4" if RANDOM in self.covered else ", ".join(self.covered)
        return (
            f"no counterexample among {self.tried:,} instances with {sizes}, entries {entries}; "
            f"the premises hold in {self.held:,} of them{more}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: what the folder keeps, and what --json prints."""
        found = self.found
        kept = [f.name for f in fields(Hunt) if f.name not in ("candidate", "found")]
        return {
            "status": self.status,
            "message": self.message,
            **{name: getattr(self, name) for name in kept},
            "best": None if self.best == -np.inf else self.best,
            "covered": dict(self.covered),
            "rises": [list(pair) for pair in self.rises],
            "seconds": round(self.seconds, 3),
            "found": None
            if found is None
            else {
                "violation": found.violation,
                "drawn": plain(found.drawn),
                "first": plain(found.first),
                "instance": plain(found.instance.arrays),
                "confirmed": found.confirmation.proved,
                "how": found.confirmation.how,
                "says": found.confirmation.says,
                "note": found.note,
            },
        }

    def __repr__(self) -> str:
        return f"Hunt({self.statement}: {self.message})"


def hunt(
    statement: str | Statement,
    *,
    seconds: float = 60.0,
    instances: int | None = None,
    seed: int = 0,
    engine: str | Engine | Executor = "here",
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Hunt:
    """The Hunt for an instance that breaks a statement: what was found, or what was covered.

    statement: a name of `attsvm.experiments.statements.STATEMENTS`, an id of a claim,
    `FILE.py:NAME`, or a Statement. seconds, instances: when to stop; a block that has begun is
    finished. The same seed draws the same instances in the same order on every engine: a name, an
    Engine or an executor. out: a new folder for the record and, where something is found, the
    instance as .npz and as Python, and a figure.

    >>> from attsvm.experiments.counterexamples import hunt
    >>> found = hunt("least-norm", instances=2000).found
    >>> found.instance["X"].shape, found.confirmation.proved
    ((2, 2, 2), True)
    """
    if not 0 < seconds < float("inf"):
        raise Unsupported(f"seconds is {seconds}: a hunt needs a positive time")
    if instances is not None and instances < 1:
        raise Unsupported(f"instances is {instances}: it must be at least 1")
    if seed < 0:
        raise Unsupported(f"seed is {seed}: it must not be negative")
    if isinstance(statement, Statement):
        made = check_statement(statement, statement.name)
    else:
        made = found_statement(statement)
    place = None if out is None else Path(out)
    if place is not None:
        if (place / RECORD).exists():
            raise BadTokens(f"{place} has a hunt already: give another folder")
        RunFolder(place, "hunt").create()
    known = Hunt(statement=made.name, seed=seed)
    begin = time.monotonic()

    def reached() -> bool:
        """Whether the time is up or enough instances were tried; tells the progress."""
        share = (time.monotonic() - begin) / seconds
        if instances is not None:
            share = max(share, known.tried / instances)
        if progress is not None:
            progress(min(share, 1.0))
        return share >= 1

    def save() -> None:
        if place is not None:
            write_json(place / RECORD, {"version": __version__, **known.to_dict()})

    try:
        _search(known, partial(search_block, statement, seed), engine_of(engine), reached)
        if known.candidate is not None:
            first = arrays(known.candidate)
            stopped = "it is not shrunk, because the hunt was ended"
            known.found = FoundInstance.of(made, first, first, stopped)
            save()
            known.found = found_from(made, first)
    finally:
        save()
    if place is not None:
        _write(place, statement if isinstance(statement, str) else made.name, known)
    return known


def _search(
    known: Hunt, work: Callable[[int], Tally], engine: Engine, reached: Callable[[], bool]
) -> None:
    """Add block after block, in the order of their numbers."""
    begin, waiting = time.monotonic(), dict[int, Tally]()
    numbers = takewhile(lambda index: not reached(), count())
    with closing(map_tasks(work, numbers, engine)) as results:
        for index, tally in results:
            if isinstance(tally, Failure):
                found = [t.candidate for t in waiting.values() if t.candidate is not None]
                if not found:
                    raise Unsupported(tally.error.removeprefix("Unsupported: "))
                known.candidate = found[0]  # of a later block: it is not lost
                return
            waiting[index] = tally
            while known.blocks in waiting:
                known.add(waiting.pop(known.blocks))
                known.seconds = time.monotonic() - begin
                if known.candidate is not None or reached():
                    return


def found_from(statement: Statement, first: Drawn) -> FoundInstance:
    """What was found, shrunk, with its exact check."""
    least, note = shrink(statement, first, seconds=SHRINKING)
    return FoundInstance.of(statement, least, first, note)


# ---------------------------------------------------------------- the folder


def _write(place: Path, reference: str, known: Hunt) -> None:
    """Write what was found as arrays and as Python."""
    if known.found is not None:
        shown = dict(known.found.instance.arrays)
        write_arrays(place / "instance.npz", _problem_file(shown), force=True)
        write_text(place / "instance.py", _script(reference, shown))


def _problem_file(found: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the instance that a problem file may hold; without v the first are kept."""
    out: dict[str, Any] = {name: found[name] for name in _FILE if name in found}
    if "penalty" in out:
        out["penalty"] = np.float64(out["penalty"][0])
    if "X" in out and "v" not in out:
        out["alpha"] = np.zeros(len(out["X"]), dtype=np.int64)
    return out


def _script(reference: str, found: dict[str, Any]) -> str:
    """Python that makes the instance and shows the violation."""
    return f"""\
import numpy as np
from attsvm.experiments.counterexamples import found_statement
from attsvm.experiments.statements import Instance

arrays = {json.dumps(plain(found))}
one = Instance({{name: np.array(values) for name, values in arrays.items()}})
statement = found_statement({reference!r})
print(statement.says, statement.violation(one), statement.checked(one).says, sep="\\n")
"""
