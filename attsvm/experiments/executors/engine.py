"""Engine: where tasks are run, as any `concurrent.futures.Executor` that can be opened again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from attsvm._utils.version import install
from attsvm.errors import Unsupported


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
