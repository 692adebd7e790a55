"""hunt(): goes through the blocks until something is found or the time is up, and shrinks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import count
from pathlib import Path

from attsvm._utils.progress import Progress
from attsvm.errors import Unsupported
from attsvm.experiments.counterexamples.folder import Folder
from attsvm.experiments.counterexamples.outcome import FoundInstance, Hunt
from attsvm.experiments.counterexamples.search import (
    Tally,
    arrays,
    confirmed,
    found_statement,
    search_block,
    tally_of,
)
from attsvm.experiments.counterexamples.shrinking import require_hypothesis, shrunk
from attsvm.experiments.executors import Engine, engine_of, run_tasks
from attsvm.experiments.executors.run_tasks import Failure
from attsvm.experiments.statements import Confirmation, Statement
from attsvm.experiments.statements.statement import check_statement

# Seconds between two looks at the folder's record.
_SAVE = 2.0
# Seconds that shrinking may take.
SHRINKING = 60.0


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
    require_hypothesis()
    _check(seconds, instances, seed)
    if isinstance(statement, Statement):
        made, name = check_statement(statement, statement.name), statement.name
        work: Callable[[int], Tally] = partial(tally_of, made, seed)
    else:
        made, name = found_statement(statement), statement
        work = partial(search_block, statement, seed)
    folder = None if out is None else Folder.open(Path(out), made, name, seed)
    known = Hunt(made.name, seed) if folder is None else folder.hunt
    if known.found is None:
        _HuntRun(made, known, _Limit(seconds, instances, progress), folder).go(
            work, engine_of(engine)
        )
    if folder is not None:
        folder.write(known, made)
    return known


def _check(seconds: float, instances: int | None, seed: int) -> None:
    if not 0 < seconds < float("inf"):
        raise Unsupported(f"seconds is {seconds}: a hunt needs a positive time")
    if instances is not None and instances < 1:
        raise Unsupported(f"instances is {instances}: it must be at least 1")
    if seed < 0:
        raise Unsupported(f"seed is {seed}: it must not be negative")


class _Limit:
    """When a hunt is over."""

    def __init__(self, seconds: float, instances: int | None, progress: Progress | None) -> None:
        self.begin = time.monotonic()
        self.seconds, self.instances, self.progress = seconds, instances, progress

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begin

    def reached(self, tried: int) -> bool:
        """Whether the time is up or enough instances were tried; tells the progress."""
        share = self.spent / self.seconds
        if self.instances is not None:
            share = max(share, tried / self.instances)
        if self.progress is not None:
            self.progress(min(share, 1.0))
        return share >= 1


class _Enough(Exception):
    """Ends the blocks that are still running: what they would add is not asked for."""


class _HuntRun:
    """Adds block after block to a hunt, in the order of their numbers."""

    def __init__(
        self, statement: Statement, hunt: Hunt, limit: _Limit, folder: Folder | None
    ) -> None:
        self.statement, self.hunt, self.limit, self.folder = statement, hunt, limit, folder
        self.waiting: dict[int, Tally] = {}
        self.before, self.saved = hunt.seconds, time.monotonic()

    def go(self, work: Callable[[int], Tally], engine: Engine) -> None:
        """Until something is found or the limit is reached."""
        try:
            run_tasks(work, self._numbers(), engine, done=self._done, gave_up=self._gave_up)
        except _Enough:
            return

    def _numbers(self) -> Iterator[int]:
        """The numbers of the blocks to search, as long as there is time."""
        for index in count(self.hunt.blocks):
            if self.limit.reached(self.hunt.tried):
                return
            yield index

    def _done(self, index: int, tally: Tally) -> None:
        self.waiting[index] = tally
        while self.hunt.blocks in self.waiting:
            self._add(self.waiting.pop(self.hunt.blocks))
            if self.limit.reached(self.hunt.tried):
                raise _Enough

    def _add(self, tally: Tally) -> None:
        self.hunt.add(tally)
        self.hunt.seconds = self.before + self.limit.spent
        if tally.found is not None:
            self.hunt.found = found_from(self.statement, tally.found, self.hunt.seed)
            self.hunt.seconds = self.before + self.limit.spent
            raise _Enough
        if self.folder is not None and time.monotonic() - self.saved > _SAVE:
            self.folder.save(self.hunt)
            self.saved = time.monotonic()

    def _gave_up(self, failure: Failure[int]) -> None:
        raise Unsupported(failure.error.removeprefix("Unsupported: "))


def found_from(statement: Statement, saved: dict[str, object], seed: int) -> FoundInstance:
    """What was found, shrunk, with its exact check."""
    first = arrays(saved)
    least, note = shrunk(statement, first, seed=seed, seconds=SHRINKING)
    instance = statement.space.instance(least)
    said = confirmed(statement, least)
    if said is None:
        said = Confirmation(False, "floats alone", "the shrunk instance does not stand")
    return FoundInstance(least, first, instance, statement.broken_by(instance), said, note)
