"""hunt(): goes through the blocks until something is found or the time is up, and shrinks it.

The folder of a hunt holds

attsvm.json     the stamp of a RunFolder
hunt.json       the record: what was tried, covered and found; a hunt goes on from it
instance.npz    the instance, as a problem file of attsvm
instance.py     the instance as Python that shows the violation
figure.svg, .png  the instance and the way to it
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import parse_json, write_arrays, write_json, write_text
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

# Seconds between two writes of the record, and seconds that shrinking may take.
_SAVE, SHRINKING = 2.0, 60.0
RECORD = "hunt.json"
# What reading a damaged record raises.
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
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

    rises: (tried, best) whenever the best rose. seconds: of all runs together.
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
        return {
            "status": self.status,
            "message": self.message,
            **{name: getattr(self, name) for name in _kept()},
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

    @staticmethod
    def of_dict(saved: dict[str, Any], statement: Statement) -> Hunt:
        """The hunt of `to_dict`."""
        hunt = Hunt(**{name: saved[name] for name in _kept()})
        hunt.blocks, hunt.tried, hunt.held, hunt.doubtful = (
            int(saved[name]) for name in ("blocks", "tried", "held", "doubtful")
        )
        hunt.best = -np.inf if saved["best"] is None else float(saved["best"])
        hunt.covered, hunt.largest = Counter(saved["covered"]), dict(saved["largest"])
        hunt.rises = [(int(a), float(b)) for a, b in saved["rises"]]
        if (kept := saved["found"]) is not None:
            drawn = arrays(kept["drawn"])
            hunt.found = FoundInstance(
                drawn,
                arrays(kept["first"]),
                statement.space.instance(drawn),
                float(kept["violation"]),
                Confirmation(kept["confirmed"], kept["how"], kept["says"]),
                kept["note"],
            )
        return hunt

    def __repr__(self) -> str:
        return f"Hunt({self.statement}: {self.message})"


def _kept() -> list[str]:
    """The fields of a hunt that its record keeps as they are."""
    return [f.name for f in fields(Hunt) if f.name not in ("candidate", "found")]


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
    Engine or an executor. out: a folder for the record and, where something is found, the instance
    as .npz and as Python, and a figure; a hunt in a folder that has one goes on where that one
    stopped.

    >>> from attsvm.experiments.counterexamples import hunt
    >>> found = hunt("every-input-tight", instances=2000).found
    >>> found.instance["X"].shape, found.confirmation.proved
    ((2, 2, 1), True)
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
    known = Hunt(statement=made.name, seed=seed)
    if place is not None:
        known = _open(place, made, known)
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
            _save(place, made, known)

    if known.found is None:
        work = partial(search_block, statement, seed)
        _search(known, work, engine_of(engine), reached, save)
        if known.candidate is not None:
            first = arrays(known.candidate)
            stopped = "it is not shrunk, because the hunt was ended"
            known.found = FoundInstance.of(made, first, first, stopped)
            save()
            known.found = found_from(made, first)
    if place is not None:
        _write(place, made, statement if isinstance(statement, str) else made.name, known)
    return known


def _search(
    known: Hunt,
    work: Callable[[int], Tally],
    engine: Engine,
    reached: Callable[[], bool],
    save: Callable[[], None],
) -> None:
    """Add block after block, in the order of their numbers; whatever ends it, what is known is
    saved."""
    begin = saved = time.monotonic()
    before, waiting = known.seconds, dict[int, Tally]()

    def numbers() -> Iterator[int]:
        for index in count(known.blocks):
            if reached():
                return
            yield index

    try:
        with closing(map_tasks(work, numbers(), engine)) as results:
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
                    known.seconds = before + time.monotonic() - begin
                    if known.candidate is not None or reached():
                        return
                if time.monotonic() - saved > _SAVE:
                    saved = time.monotonic()
                    save()
    finally:
        save()


def found_from(statement: Statement, first: Drawn) -> FoundInstance:
    """What was found, shrunk, with its exact check."""
    least, note = shrink(statement, first, seconds=SHRINKING)
    return FoundInstance.of(statement, least, first, note)


# ---------------------------------------------------------------- the folder


def _open(place: Path, statement: Statement, new: Hunt) -> Hunt:
    """The hunt in a folder, or a new one. Raises BadTokens for one with something else in it."""
    record = place / RECORD
    RunFolder(place, "hunt").create()
    if not record.exists():
        return new
    try:
        saved = parse_json(record.read_text(encoding="utf-8"))
        for what, here, there in (
            ("statement", statement.name, saved["statement"]),
            ("seed", new.seed, saved["seed"]),
            ("text or space of the statement", _digest(statement), saved["digest"]),
            ("version of attsvm", __version__, saved["version"]),
        ):
            if here != there:
                raise BadTokens(
                    f"{place} has a hunt with another {what} ({there}, not {here}): give another "
                    "folder"
                )
        return Hunt.of_dict(saved, statement)
    except _BROKEN as error:
        if isinstance(error, BadTokens):
            raise
        raise BadTokens(
            f"{record} is no record of a hunt ({type(error).__name__}): remove it, or give another "
            "folder"
        ) from error


def _digest(statement: Statement) -> str:
    """What draws the instances: the sizes, the arrays, the length of a block, and the words."""
    said = repr((statement.says, statement.space.sizes, statement.space.fields, statement.block))
    return sha256(said.encode()).hexdigest()[:16]


def _save(place: Path, statement: Statement, known: Hunt) -> None:
    """Write the record in one move."""
    about = {"version": __version__, "digest": _digest(statement)}
    write_json(place / RECORD, {**about, **known.to_dict()})


def _write(place: Path, statement: Statement, reference: str, known: Hunt) -> None:
    """Write the record, and what was found as arrays, as Python and as a picture."""
    from attsvm.plotting.studies import draw_hunt

    shown: dict[str, Any] = {}
    if known.found is not None:
        shown = dict(known.found.instance.arrays)
        write_arrays(place / "instance.npz", _problem_file(shown), force=True)
        write_text(place / "instance.py", _script(reference, shown))
    for kind in ("svg", "png"):
        draw_hunt(place / f"figure.{kind}", shown, known.rises, title=statement.title)
    _save(place, statement, known)


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
