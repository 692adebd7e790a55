"""hunt(): goes through the blocks until something is found or the time is up, and shrinks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attsvm.errors import Unsupported
from attsvm.hunting.folder import Folder
from attsvm.hunting.outcome import Found, Hunt
from attsvm.hunting.search import Tally, arrays, confirmed, found_statement, search, search_block
from attsvm.hunting.shrinking import require_hypothesis, shrunk
from attsvm.statements import Confirmation, Statement

# Seconds between two looks at the folder's record.
_SAVE = 2.0
# Seconds that shrinking may take.
SHRINKING = 60.0

Progress = Callable[[float], None]


def hunt(
    statement: str | Statement,
    *,
    seconds: float = 60.0,
    instances: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Hunt:
    """The Hunt for an instance that breaks a statement: what was found, or what was covered.

    statement: a name of `attsvm.statements.STATEMENTS`, an id of a claim, `FILE.py:NAME`, or a
    Statement. seconds, instances: when to stop; a block that has begun is finished. The same seed
    draws the same instances in the same order, however many processes (`jobs`, or an executor) share
    them. out: a folder for the record and, where something is found, the instance as .npz and as
    Python, and a figure; a hunt in a folder that has one goes on where that one stopped.

    >>> from attsvm.hunting import hunt
    >>> found = hunt("every-input-tight", instances=2000).found
    >>> found.instance["X"].shape, found.confirmation.proved
    ((2, 2, 1), True)
    """
    require_hypothesis()
    made = statement if isinstance(statement, Statement) else found_statement(statement)
    if isinstance(statement, Statement):
        from attsvm.statements.statement import check_statement

        check_statement(made, made.name)
    _check(seconds, instances, seed, jobs)
    if (jobs > 1 or executor is not None) and not isinstance(statement, str):
        raise Unsupported("several processes need the statement by its name or as FILE.py:NAME")
    folder = None if out is None else Folder.opened(Path(out), made, str(statement), seed)
    known = Hunt(made.name, seed) if folder is None else folder.hunt
    if known.found is None:
        ask = partial(search, made) if isinstance(statement, Statement) else None
        with _shared(str(statement), seed, jobs, executor, ask) as tallies:
            _go(made, known, tallies(known.blocks), _Limit(seconds, instances, progress), folder)
    if folder is not None:
        folder.write(known, made)
    return known


def _check(seconds: float, instances: int | None, seed: int, jobs: int) -> None:
    if not 0 < seconds < float("inf"):
        raise Unsupported(f"seconds is {seconds}: a hunt needs a positive time")
    if instances is not None and instances < 1:
        raise Unsupported(f"instances is {instances}: it must be at least 1")
    if seed < 0:
        raise Unsupported(f"seed is {seed}: it must not be negative")
    if jobs < 1:
        raise Unsupported(f"jobs is {jobs}: it must be at least 1")


class _Limit:
    """When a hunt is over."""

    def __init__(self, seconds: float, instances: int | None, progress: Progress | None) -> None:
        self.begin = time.monotonic()
        self.seconds, self.instances, self.progress = seconds, instances, progress

    def reached(self, hunt: Hunt) -> bool:
        """Whether the time is up or enough instances were tried; tells the progress."""
        share = (time.monotonic() - self.begin) / self.seconds
        if self.instances is not None:
            share = max(share, hunt.tried / self.instances)
        if self.progress is not None:
            self.progress(min(share, 1.0))
        return share >= 1


def _go(
    statement: Statement,
    hunt: Hunt,
    tallies: Iterator[Tally],
    limit: _Limit,
    folder: Folder | None,
) -> None:
    """Adds block after block to the hunt until something is found or the limit is reached."""
    started, before, saved = time.monotonic(), hunt.seconds, time.monotonic()
    while not limit.reached(hunt):
        tally = next(tallies)
        hunt.add(tally)
        hunt.seconds = before + time.monotonic() - started
        if tally.found is not None:
            hunt.found = _found(statement, tally.found, hunt)
            hunt.seconds = before + time.monotonic() - started
            return
        if folder is not None and time.monotonic() - saved > _SAVE:
            folder.save(hunt)
            saved = time.monotonic()


def _found(statement: Statement, saved: dict[str, object], hunt: Hunt) -> Found:
    """What was found, shrunk, with its exact check."""
    first = arrays(saved)
    least = shrunk(statement, first, seed=hunt.seed, seconds=SHRINKING)
    instance = statement.space.instance(least)
    said = confirmed(statement, least)
    if said is None:
        said = Confirmation(False, "floats alone", "the shrunk instance does not stand")
    return Found(least, first, instance, statement.broken_by(instance), said)


Ask = Callable[[int, int], Tally]


@contextmanager
def _shared(
    reference: str, seed: int, jobs: int, executor: Executor | None, ask: Ask | None
) -> Iterator[Callable[[int], Iterator[Tally]]]:
    """A function from the number of the first block to the tallies from there on, in order."""
    if jobs == 1 and executor is None:
        one = ask or partial(search_block, reference)

        def alone(first: int) -> Iterator[Tally]:
            index = first
            while True:
                yield one(seed, index)
                index += 1

        yield alone
        return
    made = executor
    if made is None:
        from attsvm.hunting.processes import processes

        made = processes(jobs)
    ahead = 2 * max(jobs, 1) + 2

    def together(first: int) -> Iterator[Tally]:
        waiting: list[Future[Tally]] = []
        index = first
        while True:
            while len(waiting) < ahead:
                waiting.append(made.submit(search_block, reference, seed, index))
                index += 1
            yield waiting.pop(0).result()

    try:
        yield together
    finally:
        if executor is None:
            made.shutdown(wait=True, cancel_futures=True)
