"""map_tasks(): many tasks on an engine: this process, processes of this machine, dask or Slurm.

An engine opens a `concurrent.futures.Executor`: a process pool, the one of a dask scheduler, or
threads that wait for submitit's jobs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Generic, TypeVar

from attsvm._utils.memory import share_with
from attsvm._utils.objects import load_files, loaded_files, unknown
from attsvm._utils.parallel import GUARD, leave_unguarded
from attsvm._utils.version import install
from attsvm.errors import AttsvmError, BadTokens, Unsupported


def let_go(executor: Executor) -> None:
    """End an executor without waiting for what it runs."""
    executor.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Engine:
    """How an executor is opened, how many tasks it is handed at once, and how it is ended.

    open: makes a new executor; it is called again when workers died and took the executor with
    them, unless `once` says that there is no other. window: tasks in flight. stop: ends an executor
    at once, whatever it runs.
    """

    name: str
    open: Callable[[], Executor]
    window: int
    stop: Callable[[Executor], None] = let_go
    once: bool = False


@dataclass(frozen=True)
class ExecutorConfig:
    """What an engine is asked for.

    jobs: workers, 0 for one per core. address: of a dask scheduler. folder: for the files of an
    engine that needs some. options: settings of the engine's own, as texts.
    """

    jobs: int = 0
    address: str | None = None
    folder: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def extra(module: str, name: str) -> Any:
    """The module of an optional package; raises Unsupported, with the command, where it is not."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Unsupported(f"{module} is not installed: {install(name)}") from error


# ---------------------------------------------------------------- tasks

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


def map_tasks(
    work: Callable[[T], R], tasks: Iterable[T], engine: Engine, *, retries: int = 2
) -> Generator[tuple[T, R | Failure[T]], None, None]:
    """(task, work(task)) of every task, as results come; a Failure for one that fails for good.

    work: a function of a module, with tasks and results that can be pickled. tasks: any iterable,
    read only as fast as tasks are handed over.

    An error in a task costs it one try, and it is tried `retries` times more; errors that attsvm
    raises on purpose come again and are not. When a worker dies, those tasks that were in flight
    are run one at a time, which shows the one that kills workers. Ctrl-C,
    and closing the iterator (`contextlib.closing`), end what runs at once.

    >>> from attsvm.experiments.executors import engine_of
    >>> dict(map_tasks(abs, [-1, 2, -3], engine_of("here")))
    {-1: 1, 2: 2, -3: 3}
    """
    waiting = ((task, 0) for task in tasks)
    again: deque[tuple[T, int]] = deque()
    suspects: deque[tuple[T, int]] = deque()
    running: dict[Future[R], tuple[T, int]] = {}
    executor: Any = None
    breaks = 0

    def following() -> tuple[T, int] | None:
        """The next task and how often it failed: a suspect only when none runs."""
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
                    running[executor.submit(work, attempt[0])] = attempt
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
                (task, failed), error = running.pop(future), _error(future)
                if error is None:
                    breaks = 0
                    yield task, future.result()
                    continue
                killed = isinstance(error, BrokenExecutor)
                broken = error if killed else broken
                # Whoever ran beside others may have had no part in the end of a process.
                failed += alone or not killed
                # What is raised on purpose says what is wrong; memory may come free again.
                final = isinstance(error, AttsvmError) and not isinstance(error, MemoryError)
                if final or failed > retries:
                    yield task, Failure(task, _words(error), failed, error)
                else:
                    (suspects if killed else again).append((task, failed))
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
            f"finished is kept; is there enough memory? Or {GUARD}"
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
        return f"its process ended: is there enough memory? Or {GUARD}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ---------------------------------------------------------------- this machine

# One thread per process when several run at once: read by libraries when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def by_processes(asked: ExecutorConfig) -> Engine:
    """The engine of so many processes of this machine, one per core without a number."""
    jobs = asked.jobs or os.cpu_count() or 1
    # One task waits for each worker, so that none is idle while its result is written.
    return Engine("local", lambda: Processes(jobs), window=2 * jobs, stop=_stop)


class Here(Executor):
    """An executor that does a task when it is handed one."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A Future that has its result already."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # handed on to whoever asks for the result
            future.set_exception(error)
        return future


class Processes(ProcessPoolExecutor):
    """A pool of fresh processes with one thread each, which know the user's own files.

    Compiled kernels come from the cache that all processes share.
    """

    def __init__(self, jobs: int) -> None:
        leave_unguarded()
        given = (jobs, loaded_files())
        super().__init__(jobs, get_context("spawn"), initializer=_begin, initargs=given)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The Future of fn(*args, **kwargs); a process may start here, with one thread."""
        with one_thread_each(), _held_interrupts():
            return super().submit(fn, *args, **kwargs)


def _stop(executor: Executor) -> None:
    """End the pool and its processes, in the middle of their tasks."""
    workers = dict(getattr(executor, "_processes", None) or {})
    # The pool's own thread may have collected an exit code that it has not stored yet.
    manager = getattr(executor, "_executor_manager_thread", None)
    executor.shutdown(wait=False, cancel_futures=True)
    for process in workers.values():
        process.terminate()
    for process in workers.values():
        process.join()
    if manager is not None:
        manager.join(timeout=5)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """A context in which processes that start have one thread, unless the user says otherwise."""
    unset = [name for name in THREADS if name not in os.environ]
    os.environ |= dict.fromkeys(unset, "1")
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


@contextmanager
def _held_interrupts() -> Iterator[None]:
    """A context in which interrupts wait, for the processes that start in it as well."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(jobs: int, files: list[Path]) -> None:
    """Start one of so many processes of the pool, which have the memory in common.

    It ends with an interrupt, and with the process that started it.
    """
    share_with(jobs)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if parent := parent_process():
        threading.Thread(target=_follow, args=[parent.sentinel], daemon=True).start()
    load_files(files)


def _follow(sentinel: int) -> None:
    """End this process as soon as the one that started it ends."""
    connection.wait([sentinel])
    os._exit(1)


# ---------------------------------------------------------------- dask and Slurm

# Seconds in which a scheduler has to answer.
PATIENCE = 10.0


def by_dask(asked: ExecutorConfig) -> Engine:
    """The engine of the scheduler at an address.

    Its workers need this package, and the user's own files at the same paths; one that dies is
    replaced by the others.
    """
    distributed = extra("distributed", "dask")
    where = asked.address
    if where is None:
        raise Unsupported("the dask engine needs --address, the URL of its scheduler")
    clients: list[Any] = []

    def opened() -> Executor:
        try:
            client = distributed.Client(where, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadTokens(
                f"no dask scheduler answers at {where} within {PATIENCE:g} s: start one with "
                "`dask scheduler`, or use --engine local"
            ) from error
        clients.append(client)
        executor: Executor = client.get_executor(pure=False)
        return executor

    def stop(executor: Executor) -> None:
        executor.shutdown(wait=False)
        clients.pop().close()

    return Engine("dask", opened, window=2 * max(asked.jobs or os.cpu_count() or 1, 4), stop=stop)


# Jobs in flight where none are asked for.
_JOBS = 64
# What a job asks for unless the options say otherwise.
_USUAL: dict[str, Any] = {"timeout_min": 60, "cpus_per_task": 1, "name": "attsvm"}


def by_jobs(asked: ExecutorConfig) -> Engine:
    """The engine of a Slurm cluster; its folder must be one that the nodes see.

    options: what submitit takes, such as slurm_partition or timeout_min; cluster=local runs the
    jobs on this machine instead.
    """
    submitit = extra("submitit", "slurm")
    folder = asked.folder
    if folder is None:
        raise BadTokens("the slurm engine needs a folder for its job files")
    options = {name: int(text) if text.lstrip("-").isdigit() else text
               for name, text in asked.options.items()}  # fmt: skip
    where = str(options.pop("cluster", "slurm"))
    jobs = asked.jobs or _JOBS

    def opened() -> Executor:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            sender = submitit.AutoExecutor(folder=folder, cluster=where)
            sender.update_parameters(**{**_USUAL, **options})
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise BadTokens(f"no job can be sent to {where}: {error}") from error
        return Jobs(sender, jobs)

    return Engine("slurm", opened, window=jobs)


class Jobs(ThreadPoolExecutor):
    """An executor whose threads each wait for one of submitit's jobs."""

    def __init__(self, sender: Any, jobs: int) -> None:
        super().__init__(jobs)
        self.sender = sender
        self.sent: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The Future of fn(*args, **kwargs) in a job of its own."""
        with one_thread_each():
            job = self.sender.submit(fn, *args, **kwargs)
        self.sent.append(job)
        return super().submit(job.result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the jobs that are left."""
        for job in self.sent:
            if not job.done():
                job.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)


# ---------------------------------------------------------------- by name

ENGINES: dict[str, Callable[[ExecutorConfig], Engine]] = {
    "local": by_processes,
    "here": lambda asked: Engine("here", Here, window=1),
    "dask": by_dask,
    "slurm": by_jobs,
}


def engine_of(wanted: str | Engine | Executor, asked: ExecutorConfig | None = None) -> Engine:
    """The engine of this name, or the one round an executor given by the user, which stays open.

    >>> engine_of("here").name
    'here'
    """
    if isinstance(wanted, Engine):
        return wanted
    if isinstance(wanted, Executor):
        return Engine("given", lambda: wanted, window=32, stop=lambda executor: None, once=True)
    if wanted not in ENGINES:
        raise Unsupported(unknown("engine", wanted, ENGINES))
    config = asked or ExecutorConfig()
    if config.address is not None and wanted != "dask":
        raise Unsupported(f"--address is of the dask engine: leave it out with --engine {wanted}")
    if config.options and wanted != "slurm":
        raise Unsupported(
            f"the {wanted} engine takes no options; this is {next(iter(config.options))!r}"
        )
    return ENGINES[wanted](config)
