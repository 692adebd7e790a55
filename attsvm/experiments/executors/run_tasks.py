"""run_tasks(): many tasks on an engine; those that fail are tried again, then told of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class _Try(Generic[T]):
    """A task, and how often it has failed so far."""

    task: T
    failed: int = 0


def run_tasks(
    work: Callable[[T], R],
    tasks: Iterable[T],
    engine: Engine,
    *,
    done: Callable[[T, R], None],
    started: Callable[[T], None] | None = None,
    gave_up: Callable[[Failure[T]], None] | None = None,
    retries: int = 2,
) -> list[Failure[T]]:
    """The tasks that failed for good; of every other one, done(task, work(task)) was called here.

    work: a function of a module, with tasks and results that can be pickled. tasks: drawn from as
    there is room, so there may be any number. Results come in any order, and nothing of them is
    kept. started(task) is called when a task is handed over, gave_up(failure) when one is given up.

    An error in a task costs it one try, and it is tried `retries` times more; errors that attsvm
    raises on purpose come again and are not. When a worker dies, those tasks that were in flight
    are run one at a time, so that the one that kills workers is told from those beside it. An
    error in `done`, and Ctrl-C, end what runs at once and are raised.

    >>> from attsvm.experiments.executors import engine_of
    >>> seen = {}
    >>> run_tasks(abs, [-1, 2, -3], engine_of("here"), done=seen.__setitem__)
    []
    >>> seen
    {-1: 1, 2: 2, -3: 3}
    """
    hand = _Hand(work, engine, started)
    waiting = (_Try(task) for task in tasks)
    again: deque[_Try[T]] = deque()
    suspects: deque[_Try[T]] = deque()
    failures: list[Failure[T]] = []

    def judge(attempt: _Try[T], error: BaseException, *, guilty: bool = True) -> None:
        now = replace(attempt, failed=attempt.failed + guilty)
        # What is raised on purpose says what is wrong with the task; memory may come free again.
        final = isinstance(error, AttsvmError) and not isinstance(error, MemoryError)
        if not final and now.failed <= retries:
            (suspects if isinstance(error, BrokenExecutor) else again).append(now)
            return
        failures.append(Failure(now.task, _words(error), now.failed, error))
        if gave_up is not None:
            gave_up(failures[-1])

    try:
        while True:
            for attempt in _next(hand, waiting, again, suspects):
                hand.give(attempt)
            if not hand.running and not hand.refused:
                break
            lone = len(hand.running) + len(hand.refused) == 1
            for attempt, future in hand.finished():
                error = hand.refusal if future is None else _error(future)
                if future is not None and error is None:
                    hand.breaks = 0
                    done(attempt.task, future.result())
                elif error is not None:
                    # Whoever was refused, or ran beside others, may have had no part in it.
                    ran_alone = lone and future is not None
                    judge(attempt, error, guilty=ran_alone or not isinstance(error, BrokenExecutor))
            hand.mend()
    except BaseException:
        hand.end(at_once=True)
        raise
    hand.end(at_once=False)
    return failures


def _next(
    hand: _Hand[T, R],
    waiting: Iterator[_Try[T]],
    again: deque[_Try[T]],
    suspects: deque[_Try[T]],
) -> Iterator[_Try[T]]:
    """The tasks to hand over now: a suspect alone, or as many as there is room for."""
    if suspects:
        if not hand.running:
            yield suspects.popleft()
        return
    while len(hand.running) < hand.engine.window and not hand.refused:
        if again:
            yield again.popleft()
            continue
        following = next(waiting, None)
        if following is None:
            return
        yield following


class _Hand(Generic[T, R]):
    """The executor that is open, and what it runs."""

    def __init__(
        self, work: Callable[[T], R], engine: Engine, started: Callable[[T], None] | None
    ) -> None:
        self.work, self.engine, self.started = work, engine, started
        self.executor: Any = None
        self.running: dict[Future[R], _Try[T]] = {}
        self.refused: list[_Try[T]] = []
        self.refusal: BaseException | None = None
        self.broken, self.breaks = False, 0

    def give(self, attempt: _Try[T]) -> None:
        """Hand a task over; one that a broken executor refuses is kept."""
        if self.executor is None:
            self.executor = self.engine.open()
        if self.started is not None:
            self.started(attempt.task)
        try:
            self.running[self.executor.submit(self.work, attempt.task)] = attempt
        except BrokenExecutor as error:
            self.refused.append(attempt)
            self.refusal, self.broken = error, True

    def finished(self) -> list[tuple[_Try[T], Future[R] | None]]:
        """What has ended, or was refused (None), with the others of a broken executor."""
        out: list[tuple[_Try[T], Future[R] | None]] = [(a, None) for a in self.refused]
        self.refused.clear()
        if not self.running:
            return out
        ended, _ = wait(self.running, return_when=FIRST_COMPLETED)
        if self.broken or any(isinstance(_error(future), BrokenExecutor) for future in ended):
            self.broken = True
            ended, _ = wait(self.running)
        return out + [(self.running.pop(future), future) for future in ended]

    def mend(self) -> None:
        """Let go of an executor that is broken; the next task opens another."""
        if not self.broken:
            return
        self.breaks += 1
        self.broken, self.refusal = False, None
        if self.engine.once:
            raise BadTokens("the executor is broken, and there is no other: give a new one")
        if self.breaks > _BROKEN:
            raise BadTokens(
                f"workers of the {self.engine.name} engine end before they have done anything: "
                "what was finished is kept; is there enough memory?"
            )
        executor, self.executor = self.executor, None
        self.engine.stop(executor)

    def end(self, *, at_once: bool) -> None:
        """Close the executor, if one is open."""
        executor, self.executor = self.executor, None
        if executor is None or self.engine.once:
            for future in self.running:
                future.cancel()
        elif at_once:
            self.engine.stop(executor)
        else:
            executor.shutdown()


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
