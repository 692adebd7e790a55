"""map_tasks(): many tasks on an engine; those that fail are tried again, then told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from attsvm.errors import AttsvmError, BadTokens
from attsvm.experiments.executors.engine import Engine

T = TypeVar("T")
R = TypeVar("R")

# So many executors that break one after another, with nothing done in between, are no accident.
_BROKEN = 12


@dataclass(frozen=True)
class Failure(Generic[T]):
    """A task that was given up: its last error, in words and as it was, and how often it was
    tried."""

    task: T
    error: str
    attempts: int
    cause: BaseException = field(repr=False, compare=False)


@dataclass
class _Try(Generic[T]):
    """A task, and how often it has failed so far."""

    task: T
    failed: int = 0


def map_tasks(
    work: Callable[[T], R], tasks: Iterable[T], engine: Engine, *, retries: int = 2
) -> Generator[tuple[T, R | Failure[T]], None, None]:
    """(task, work(task)) of every task, as results come; a Failure for one that fails for good.

    work: a function of a module, with tasks and results that can be pickled. tasks: drawn from as
    there is room, so there may be any number.

    An error in a task costs it one try, and it is tried `retries` times more; errors that attsvm
    raises on purpose come again and are not. When a worker dies, those tasks that were in flight
    are run one at a time, so that the one that kills workers is told from those beside it. Ctrl-C,
    and closing the iterator (`contextlib.closing`), end what runs at once.

    >>> from attsvm.experiments.executors import engine_of
    >>> dict(map_tasks(abs, [-1, 2, -3], engine_of("here")))
    {-1: 1, 2: 2, -3: 3}
    """
    waiting = (_Try(task) for task in tasks)
    again: deque[_Try[T]] = deque()
    suspects: deque[_Try[T]] = deque()
    running: dict[Future[R], _Try[T]] = {}
    executor: Any = None
    breaks = 0

    def following() -> _Try[T] | None:
        """The next task to hand over: a suspect alone, or any while there is room."""
        if suspects:
            return None if running else suspects.popleft()
        if len(running) >= engine.window:
            return None
        return again.popleft() if again else next(waiting, None)

    try:
        while True:
            refused: BaseException | None = None
            while refused is None and (attempt := following()) is not None:
                executor = executor or engine.open()
                try:
                    running[executor.submit(work, attempt.task)] = attempt
                except BrokenExecutor as refusal:
                    refused = refusal
                    suspects.append(attempt)
            if not running and refused is None:
                break
            alone = len(running) == 1 and refused is None
            ended = wait(running, return_when=FIRST_COMPLETED).done if running else set()
            if refused or any(isinstance(_error(f), BrokenExecutor) for f in ended):
                ended = wait(running).done  # the others of a broken executor
            broken = refused
            for future in ended:
                attempt, error = running.pop(future), _error(future)
                if error is None:
                    breaks = 0
                    yield attempt.task, future.result()
                    continue
                killed = isinstance(error, BrokenExecutor)
                broken = error if killed else broken
                # Whoever ran beside others may have had no part in the end of a process.
                attempt.failed += alone or not killed
                # What is raised on purpose says what is wrong; memory may come free again.
                final = isinstance(error, AttsvmError) and not isinstance(error, MemoryError)
                if final or attempt.failed > retries:
                    yield attempt.task, Failure(attempt.task, _words(error), attempt.failed, error)
                else:
                    (suspects if killed else again).append(attempt)
            if broken is not None:
                breaks += 1
                _check_breaks(engine, breaks)
                executor, dead = None, executor
                engine.stop(dead)
    finally:
        for future in running:
            future.cancel()
        if executor is not None:
            engine.stop(executor)


def _check_breaks(engine: Engine, breaks: int) -> None:
    """Raise BadTokens where another executor would be of no use."""
    if engine.once:
        raise BadTokens("the executor is broken, and there is no other: give a new one")
    if breaks > _BROKEN:
        raise BadTokens(
            f"workers of the {engine.name} engine end before they have done anything: what was "
            "finished is kept; is there enough memory?"
        )


def _error(future: Future[Any]) -> BaseException | None:
    """What the task of a finished Future raised, if anything."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _words(error: BaseException) -> str:
    """The error in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, BrokenExecutor):
        return "its process ended, perhaps for lack of memory"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
