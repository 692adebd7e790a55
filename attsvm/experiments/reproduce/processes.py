"""Work in several processes that end with the one that started them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import partial

from attsvm._utils.progress import Progress
from attsvm.errors import BadTokens
from attsvm.experiments.executors import ExecutorConfig, Failure, engine_of, run_tasks


def in_processes(
    work: Callable[..., str],
    names: list[str],
    *,
    given: tuple[object, ...],
    jobs: int,
    tell: Progress,
) -> None:
    """Do work(name, *given) for every name in `jobs` processes, and tell what each returned.

    work is a function of a module, which the processes import. What it raises is raised here. Where
    a process dies, those that were at work are done again one at a time.
    """
    engine = replace(engine_of("local", ExecutorConfig(jobs=jobs)), window=jobs)

    def gave_up(failure: Failure[str]) -> None:
        if not isinstance(failure.cause, BrokenExecutor):
            raise failure.cause
        raise BadTokens(
            f"a process ended while it ran {failure.task}, perhaps for lack of memory: what was "
            "finished is kept; run it again with fewer --jobs"
        ) from failure.cause

    run_tasks(
        partial(_with, work, given),
        names,
        engine,
        done=tell,
        started=lambda name: tell(name, "running"),
        gave_up=gave_up,
        retries=0,
    )


def _with(work: Callable[..., str], given: tuple[object, ...], name: str) -> str:
    return work(name, *given)
