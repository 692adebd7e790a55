"""Engines, by name: where the tasks of a sweep or a hunt are run. `run_tasks` is their door."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from difflib import get_close_matches

from attsvm.errors import Unsupported
from attsvm.experiments.executors.dask import by_dask
from attsvm.experiments.executors.engine import Engine, ExecutorConfig
from attsvm.experiments.executors.here import by_this_process
from attsvm.experiments.executors.local import by_processes
from attsvm.experiments.executors.run_tasks import Failure, run_tasks
from attsvm.experiments.executors.slurm import by_jobs

ENGINES: dict[str, Callable[[ExecutorConfig], Engine]] = {
    "local": by_processes,
    "here": by_this_process,
    "dask": by_dask,
    "slurm": by_jobs,
}

__all__ = ["ENGINES", "Asked", "Engine", "Failure", "engine_of", "run_tasks"]


def engine_of(wanted: str | Engine | Executor, asked: ExecutorConfig | None = None) -> Engine:
    """The engine of this name, or the one round an executor of one's own, which stays open.

    >>> engine_of("here").name
    'here'
    """
    if isinstance(wanted, Engine):
        return wanted
    if isinstance(wanted, Executor):
        return Engine("given", lambda: wanted, window=32, stop=lambda executor: None, once=True)
    if wanted in ENGINES:
        return ENGINES[wanted](asked or ExecutorConfig())
    near = get_close_matches(str(wanted), ENGINES, n=1)
    hint = f"; nearest is {near[0]}" if near else ""
    raise Unsupported(f"unknown engine {wanted!r}: it is one of {', '.join(ENGINES)}{hint}")
