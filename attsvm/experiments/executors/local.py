"""local: processes of this machine, one thread each; here: tasks one by one in this process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

from attsvm._utils.memory import share_with
from attsvm._utils.objects import load_files, loaded_files
from attsvm._utils.parallel import leave_unguarded
from attsvm.experiments.executors.engine import Engine, ExecutorConfig

# One thread per process when several run at once: read by libraries when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def cores(jobs: int) -> int:
    """How many workers are asked for; 0: one per core."""
    return jobs or os.cpu_count() or 1


def by_this_process(asked: ExecutorConfig) -> Engine:
    """The engine of this process alone."""
    return Engine("here", Here, window=1)


def by_processes(asked: ExecutorConfig) -> Engine:
    """The engine of so many processes of this machine."""
    jobs = cores(asked.jobs)
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
