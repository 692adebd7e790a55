"""Work in several processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process

from attsvm.errors import BadTokens
from attsvm.ground.memory import share_with

Watch = Callable[[str, str], None]  # (name, state)

# One thread per process when several run at once.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def in_processes(
    work: Callable[..., str], names: list[str], *, given: tuple[object, ...], jobs: int, tell: Watch
) -> None:
    """Do work(name, *given) for every name in `jobs` processes, and tell what each returned.

    work is a function of a module, which the processes import.
    """
    unset = [name for name in _THREADS if name not in os.environ]
    os.environ |= dict.fromkeys(unset, "1")  # read by the processes when they start
    running: dict[Future[str], str] = {}
    pool = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(jobs,)
    )
    try:
        queue = list(names)
        while queue or running:
            while queue and len(running) < jobs:
                name = queue.pop(0)
                tell(name, "running")
                with _held_interrupts():
                    running[pool.submit(work, name, *given)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                tell(running[future], future.result())
                del running[future]
    except BrokenProcessPool as error:
        raise BadTokens(
            f"a process ended while it ran one of {', '.join(running.values())}, perhaps for lack "
            "of memory: what was finished is kept; run it again with fewer --jobs"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        for name in unset:
            del os.environ[name]


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


def _begin(jobs: int) -> None:
    """Start one of so many processes of the pool, which have the memory in common.

    It ends with an interrupt, and with the process that started it.
    """
    share_with(jobs)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def follow() -> None:
            connection.wait([sentinel])
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
