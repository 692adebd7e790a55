"""Counterexamples: the smallest instance that breaks a statement, and the proof that it does.

A hunt goes through blocks of instances, each fixed by the seed and its number, so that it gives the
same however many processes share them. Kinds of blocks take turns:

every   all instances of one size whose entries are small whole numbers, a slice at a time
drawn   instances of any size, entries small whole numbers, then simple fractions, then random
climb   from a drawn instance, single entries changed as long as the violation does not fall

What is found is shrunk. The folder of a hunt holds

attsvm.json     the stamp of a RunFolder
hunt.json       the record: what was tried, covered and found
instance.npz    the instance, as a problem file of attsvm
instance.py     the instance as Python that shows the violation
figure.svg, .png  the instance and the way to it
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count, takewhile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.files import write_arrays, write_json, write_text
from attsvm._utils.objects import is_outside, load_object
from attsvm._utils.progress import Progress
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.experiments.executors import Engine, Failure, engine_of, map_tasks
from attsvm.experiments.statements import (
    Confirmation,
    Instance,
    Space,
    Statement,
    statement_of,
)
from attsvm.experiments.statements.statement import FINEST, LEVELS, check_statement, simplest

Drawn = dict[str, Floats]

# Sizes with more instances than this at a level are not gone through whole.
_EVERY = 60_000
# The levels that are gone through whole.
_WHOLE = ("−1..1", "−2..2", "−3..3")
# Entries that are drawn from a normal distribution and rounded to eighths.
RANDOM = "eighths in −4..4"
_CYCLE = ("every", "drawn", "climb", "every", "drawn", "climb", "drawn")
# Candidates of one block that an exact check does not confirm, before it goes on without checks.
_DOUBTS = 3
# Changes of a climb without a rise before it starts again.
_PATIENCE = 40
# Seconds that shrinking may take.
SHRINKING = 60.0
RECORD = "hunt.json"
# The arrays that a problem file may hold.
_FILE = ("X", "z", "y", "v", "p0", "W0", "penalty")


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True)
class SearchBlock:
    """Block `index` of a hunt: its kind, the level of its entries, and of `every` the slice."""

    index: int
    kind: str
    level: str
    count: int
    sizes: Mapping[str, int] | None = None
    first: int = 0

    @property
    def entries(self) -> tuple[float, ...]:
        """The numbers that entries are drawn from, simplest first."""
        return LEVELS.get(self.level, FINEST)


def slices(statement: Statement) -> list[tuple[dict[str, int], str, int, int]]:
    """(sizes, level, first, count) of all blocks of the kind `every`, the fewest first."""
    space = statement.space
    levels = _WHOLE if any(f.values is None for f in space.fields) else _WHOLE[:1]
    cells = [
        (space.count(sizes, LEVELS[level]), k, level, sizes)
        for k, sizes in enumerate(space.choices)
        for level in levels
    ]
    return [
        (sizes, level, first, min(statement.block, count - first))
        for count, _, level, sizes in sorted(cells, key=lambda c: c[:3])
        if count <= _EVERY
        for first in range(0, count, statement.block)
    ]


def block_at(statement: Statement, index: int) -> SearchBlock:
    """The block of this number."""
    rounds, place = divmod(index, len(_CYCLE))
    kind = _CYCLE[place]
    turn = rounds * _CYCLE.count(kind) + _CYCLE[:place].count(kind)
    if kind == "every":
        listed = slices(statement)
        if turn < len(listed):
            sizes, level, first, count = listed[turn]
            return SearchBlock(index, kind, level, count, sizes, first)
        kind = "drawn"
    names = (*LEVELS, RANDOM)
    return SearchBlock(index, kind, names[turn % len(names)], statement.block)


def draw(space: Space, block: SearchBlock, rng: np.random.Generator) -> Drawn:
    """One drawn instance of a block, of sizes that fit."""
    sizes = space.choices[int(rng.integers(len(space.choices)))]
    out: Drawn = {}
    for f in space.fields:
        shape = f.shape(sizes)
        if block.level == RANDOM and f.values is None:
            normal = np.clip(np.round(8 * rng.standard_normal(shape)) / 8, -4.0, 4.0)
            out[f.name] = f.scale * normal
        else:
            out[f.name] = rng.choice(np.array(f.entries(block.entries)), shape)
    return out


def listed(space: Space, block: SearchBlock) -> Iterator[Drawn]:
    """The instances of a block of the kind `every`, in order."""
    sizes = block.sizes or space.choices[0]
    tables = {f.name: np.array(f.entries(block.entries)) for f in space.fields}
    shapes = {f.name: f.shape(sizes) for f in space.fields}
    lengths = [len(tables[name]) for name, shape in shapes.items() for _ in range(prod(shape))]
    ends = np.cumsum([prod(shape) for shape in shapes.values()])[:-1]
    for number in range(block.first, block.first + block.count):
        digits = np.split(np.array(np.unravel_index(number, lengths, order="F")), ends)
        yield {
            name: tables[name][part].reshape(shape)
            for (name, shape), part in zip(shapes.items(), digits, strict=True)
        }


# ---------------------------------------------------------------- searching


@dataclass
class Tally:
    """What was found in some blocks, in plain values.

    tried: instances looked at; held: those that meet the premises; doubtful: candidates in floats
    that the exact check does not confirm, the first of them `doubt`; best, where: the largest
    violation and its drawn arrays; candidate: the drawn arrays of the first candidate that stands;
    covered: tried by level; largest: the largest size of each letter.
    """

    tried: int = 0
    held: int = 0
    doubtful: int = 0
    best: float = -np.inf
    where: dict[str, Any] | None = None
    doubt: dict[str, Any] | None = None
    candidate: dict[str, Any] | None = None
    covered: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)

    def grow(self, sizes: Mapping[str, int]) -> None:
        """Note sizes that were tried."""
        for letter, size in sizes.items():
            self.largest[letter] = max(self.largest.get(letter, 0), size)


def found_statement(reference: str) -> Statement:
    """The statement of this name, claim or `FILE.py:NAME`, checked. Raises Unsupported."""
    if is_outside(reference):
        return check_statement(load_object(reference, "a statement"), reference)
    return check_statement(statement_of(reference), reference)


def search_block(reference: str | Statement, seed: int, index: int) -> Tally:
    """The tally of one block of a hunt; it ends at the first instance that is found."""
    statement = found_statement(reference) if isinstance(reference, str) else reference
    block, tally = block_at(statement, index), Tally()
    look = _Look(statement, block, tally)
    rng = np.random.default_rng([seed, index])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if block.kind == "climb":
            _climb(statement, block, rng, look)
        elif block.kind == "every":
            _go_through(listed(statement.space, block), look)
        else:
            _go_through((draw(statement.space, block, rng) for _ in range(block.count)), look)
    return tally


def _go_through(instances: Iterator[Drawn], look: _Look) -> None:
    for drawn in instances:
        look(drawn)
        if look.tally.candidate is not None:
            return


class _Look:
    """Looks at instances and keeps the tally."""

    def __init__(self, statement: Statement, block: SearchBlock, tally: Tally) -> None:
        self.statement, self.tally = statement, tally
        self.level = _level_words(statement.space, block.level)

    def __call__(self, drawn: Drawn) -> float | None:
        """The violation of an instance, None where its premises do not hold."""
        tally, statement = self.tally, self.statement
        tally.tried += 1
        tally.covered[self.level] += 1
        tally.grow(statement.space.sizes_of(drawn))
        instance = statement.space.instance(drawn)
        if not statement.holds_premises(instance):
            return None
        tally.held += 1
        value = statement.broken_by(instance)
        if value > tally.best:
            tally.best, tally.where = value, plain(drawn)
        if value > statement.tolerance and tally.candidate is None:
            if statement.confirm is None or (
                tally.doubtful < _DOUBTS and statement.checked(instance).proved
            ):
                tally.candidate = plain(drawn)
            else:
                tally.doubtful += 1
                tally.doubt = tally.doubt or plain(drawn)
        return value


def _level_words(space: Space, level: str) -> str:
    """The entries of a level in words; those of the arrays where all of them have their own."""
    if any(f.values is None for f in space.fields):
        return level if level[0].isalpha() else f"in {level}"
    values = sorted({x for f in space.fields for x in f.values or ()})
    return ", ".join(f"{x:g}".replace("-", "−") for x in values)


def _climb(statement: Statement, block: SearchBlock, rng: np.random.Generator, look: _Look) -> None:
    """Local search: change one entry, or two, and go on from there unless the violation falls."""
    here, value, stuck = None, -np.inf, _PATIENCE
    for _ in range(block.count):
        if look.tally.candidate is not None:
            return
        if here is None or stuck >= _PATIENCE:
            trial = draw(statement.space, block, rng)
            found = look(trial)
            here, value, stuck = (trial, found, 0) if found is not None else (None, -np.inf, 0)
            continue
        trial = _changed(statement, block, here, rng)
        found = look(trial)
        if found is not None and found >= value:
            stuck = stuck + 1 if found == value else 0
            here, value = trial, found
        else:
            stuck += 1


def _changed(
    statement: Statement, block: SearchBlock, drawn: Drawn, rng: np.random.Generator
) -> Drawn:
    """The instance with one or two entries drawn again."""
    out = {name: array.copy() for name, array in drawn.items()}
    fields = {f.name: f for f in statement.space.fields}
    sizes = np.array([a.size for a in out.values()])
    for _ in range(int(rng.integers(1, 3))):
        name = list(out)[int(rng.choice(len(out), p=sizes / sizes.sum()))]
        entries = fields[name].entries(block.entries)
        out[name].flat[int(rng.integers(out[name].size))] = entries[int(rng.integers(len(entries)))]
    return out


def plain(drawn: Mapping[str, Floats]) -> dict[str, Any]:
    """Drawn arrays as lists, which JSON keeps to the last digit."""
    return {name: array.tolist() for name, array in drawn.items()}


def arrays(saved: Mapping[str, Any]) -> Drawn:
    """The arrays of `plain`."""
    return {name: np.array(a, dtype=np.float64) for name, a in saved.items()}


# ---------------------------------------------------------------- the hunt


@dataclass(frozen=True, eq=False)
class FoundInstance:
    """An instance that breaks the statement: shrunk, as it was first met, and its exact check.

    how: what the check rests on. note: what went wrong while it was shrunk, if anything did.
    """

    drawn: Drawn
    first: Drawn
    instance: Instance
    violation: float
    confirmation: Confirmation
    how: str
    note: str = ""

    @staticmethod
    def of(statement: Statement, drawn: Drawn, first: Drawn, note: str = "") -> FoundInstance:
        """What drawn arrays show, by the statement's own functions."""
        one = statement.space.instance(drawn)
        said, how = (
            statement.checked(one),
            statement.proves if statement.confirm else "floats alone",
        )
        return FoundInstance(drawn, first, one, statement.broken_by(one), said, how, note)


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
            how = f"confirmed by {self.found.how}" if said.proved else "not confirmed"
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
                "how": found.how,
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
        _write(place, made, statement if isinstance(statement, str) else made.name, known)
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


def shrink(statement: Statement, drawn: Drawn, *, seconds: float) -> tuple[Drawn, str]:
    """(an instance that no single change makes simpler, a note).

    Inputs, tokens and dimensions are taken away one by one, then entries are replaced by simpler
    numbers.

    An instance stands if its premises hold, its violation is positive and, where there is an exact
    check, that confirms it. After so many seconds, and at an interrupt, the last one that stands is
    kept. Instances on which the statement itself fails are left out; the note tells of the first.
    """
    best, note, end = drawn, "", time.monotonic() + seconds
    trials = _simpler(statement.space, best)
    try:
        while (trial := next(trials, None)) is not None and time.monotonic() < end:
            try:
                stands = _breaks(statement, trial)
            except Exception as error:  # whatever the statement of a user raises
                said = " ".join(str(error).split()) or type(error).__name__
                note = note or f"while shrinking, instances were left out because {said}"
                continue
            if stands:
                best, trials = trial, _simpler(statement.space, trial)
    except KeyboardInterrupt:
        note = "shrinking was interrupted: this is the smallest instance so far"
    return best, note


def _breaks(statement: Statement, drawn: Drawn) -> bool:
    """Whether an instance breaks the statement: by the exact check, where there is one."""
    one = statement.space.instance(drawn)
    if not statement.holds_premises(one) or not statement.broken_by(one) > statement.tolerance:
        return False
    return statement.confirm is None or statement.checked(one).proved


def _simpler(space: Space, drawn: Drawn) -> Iterator[Drawn]:
    """Every instance with one input, token or dimension less, then with one simpler entry."""
    sizes = space.sizes_of(drawn)
    for letter, size in sizes.items():
        if {**sizes, letter: size - 1} in space.choices:
            for k in range(size):
                yield {f.name: _without(drawn[f.name], f.axes, letter, k) for f in space.fields}
    for f in space.fields:
        table = f.values or simplest({*f.entries(FINEST), *drawn[f.name].ravel().tolist()})
        for place in np.ndindex(drawn[f.name].shape):
            for value in table[: table.index(float(drawn[f.name][place]))]:
                changed = drawn[f.name].copy()
                changed[place] = value
                yield {**drawn, f.name: changed}


def _without(array: Floats, axes: tuple[str | int, ...], letter: str, k: int) -> Floats:
    """The array without index k of every axis of this letter."""
    for place, axis in enumerate(axes):
        if axis == letter:
            array = np.delete(array, k, axis=place)
    return array


def found_from(statement: Statement, first: Drawn) -> FoundInstance:
    """What was found, shrunk, with its exact check."""
    least, note = shrink(statement, first, seconds=SHRINKING)
    return FoundInstance.of(statement, least, first, note)


# ---------------------------------------------------------------- the folder


def _write(place: Path, statement: Statement, reference: str, known: Hunt) -> None:
    """Write what was found as arrays, as Python and as a picture."""
    from attsvm.plotting.studies import draw_hunt

    shown: dict[str, Any] = {}
    if known.found is not None:
        shown = dict(known.found.instance.arrays)
        write_arrays(place / "instance.npz", _problem_file(shown), force=True)
        write_text(place / "instance.py", _script(reference, shown))
    for kind in ("svg", "png"):
        draw_hunt(place / f"figure.{kind}", shown, known.rises, title=statement.name)


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
