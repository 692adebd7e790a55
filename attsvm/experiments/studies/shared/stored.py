"""Single training runs of claims on real data, each kept in a file of its own.

A network takes minutes to train, and several claims look at the same ones. A claim names its runs
as `Run`s; a reproduction does them in any order, in several processes, and keeps each result under
the name of its plan and its code. Without an open store a run is done where it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attsvm._utils.files import load_arrays, write_arrays
from attsvm.errors import AttsvmError
from attsvm.experiments.studies.claim import Config, Result

# What a run made has its seconds under this name.
SECONDS = "seconds"


@dataclass(frozen=True)
class TrainingRun:
    """One training run: work(plan) returns its arrays.

    work: a function of a module, which other processes import. plan: what JSON can hold. ready:
    False while the plan still lacks what other runs decide, such as a tuned rate.
    """

    work: Callable[[Config], Result]
    plan: Config
    ready: bool = True

    @property
    def text(self) -> str:
        """The run in one line, the same for the same work on the same plan."""
        plan = json.dumps(self.plan, sort_keys=True)
        return f"{self.work.__module__}.{self.work.__qualname__} {plan}"


@dataclass(frozen=True)
class Store:
    """The folder of the runs that are done, named by plan and code.

    digest(module): a hash of the code that a module's work rests on.
    """

    folder: Path
    digest: Callable[[str], str]
    used: list[Path] = field(default_factory=list)

    def file(self, run: TrainingRun) -> Path:
        """Where the result of this run is, or will be."""
        code = self.digest(run.work.__module__)
        return self.folder / f"{hashlib.sha256(f'{code} {run.text}'.encode()).hexdigest()[:20]}.npz"


# The store that is open, if one is.
OPEN_STORE: ContextVar[Store | None] = ContextVar("store", default=None)


@contextmanager
def storing(store: Store) -> Iterator[Store]:
    """A context in which runs are read from this store, and written to it."""
    token = OPEN_STORE.set(store)
    try:
        yield store
    finally:
        OPEN_STORE.reset(token)


def on_file(run: TrainingRun) -> Result | None:
    """What the run made, where it is in the open store and can be read; else None."""
    store = OPEN_STORE.get()
    if store is None or not run.ready:
        return None
    file = store.file(run)
    if not file.exists():
        return None
    try:
        found = load_arrays(file)
    except AttsvmError:  # broken by something else than a kill: it is done again
        file.unlink(missing_ok=True)
        return None
    if file not in store.used:
        store.used.append(file)
    return found


def done(run: TrainingRun) -> Result:
    """What the run makes: read where it is on file, else done now, and kept where a store is."""
    found = on_file(run)
    if found is not None:
        return found
    began = time.perf_counter()
    made = run.work(run.plan)
    made[SECONDS] = np.array(time.perf_counter() - began)
    store = OPEN_STORE.get()
    if store is not None:
        write_arrays(store.file(run), made, force=True)
        store.used.append(store.file(run))
    return made
