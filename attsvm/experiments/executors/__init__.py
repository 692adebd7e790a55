"""Engines, by name: where the tasks of a study or a hunt are run, by `map_tasks`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from attsvm._utils.objects import unknown
from attsvm.errors import Unsupported
from attsvm.experiments.executors.dask import by_dask
from attsvm.experiments.executors.engine import Engine, ExecutorConfig
from attsvm.experiments.executors.local import by_processes, by_this_process
from attsvm.experiments.executors.map_tasks import Failure, map_tasks
from attsvm.experiments.executors.slurm import by_jobs

ENGINES: dict[str, Callable[[ExecutorConfig], Engine]] = {
    "local": by_processes,
    "here": by_this_process,
    "dask": by_dask,
    "slurm": by_jobs,
}

__all__ = ["ENGINES", "Engine", "ExecutorConfig", "Failure", "engine_of", "map_tasks"]


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
