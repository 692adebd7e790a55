"""The folder of a sweep: its files, read with care and written in one move.

attsvm.json        the stamp of a RunFolder: the spec, and the code of its results
shards/NAME.npz    the columns of one task; the name tells all that determines them
table.csv          all columns, in the order of the spec; written when nothing is left to do
timings.csv        the seconds that each task took
failures.json      the tasks that were given up, with their errors
lock               there while a sweep runs: one at a time
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import load_arrays, write_arrays
from attsvm._utils.run_folder import RunFolder
from attsvm.errors import BadTokens
from attsvm.experiments.sweep.spec import Spec, spec_of
from attsvm.experiments.sweep.task import Columns, MeasuredTask, SweepTask

KIND, SHARDS, TABLE = "sweep", "shards", "table.csv"
TIMINGS, FAILURES = "timings.csv", "failures.json"
# The array that names the task a result is of: files may get mixed up.
_OWN = "task"


def is_sweep(folder: Path) -> bool:
    """Whether results were begun in this folder."""
    return RunFolder(folder, KIND).exists


def kept_spec(folder: Path) -> Spec:
    """The spec of a folder; raises BadTokens for a folder that no sweep made."""
    found = _stamp(folder)
    return spec_of(found["spec"], found["name"])


def kept_tasks(folder: Path, spec: Spec) -> Iterator[SweepTask]:
    """The tasks of a folder, named by the code that its results were made with."""
    return spec.tasks(_stamp(folder)["identity"])


def _stamp(folder: Path) -> dict[str, Any]:
    return RunFolder(folder, KIND).open(name=str, spec=dict, identity=dict)


def create_folder(folder: Path, spec: Spec) -> None:
    """Make the folder, or check that the spec goes on with what it holds."""
    if is_sweep(folder):
        lost = kept_spec(folder).lost_in(spec)
        if lost:
            raise BadTokens(f"{folder} holds another sweep: {lost}; give another --out")
    RunFolder(folder, KIND).create(
        SHARDS, name=spec.name, spec=spec.as_dict(), identity=spec.work.identity
    )


def shard_file(folder: Path, task: SweepTask) -> Path:
    """Where the result of a task is."""
    return folder / SHARDS / f"{task.name}.npz"


def on_file(folder: Path) -> set[str]:
    """The names of the results that are there; an empty file is none."""
    if not (folder / SHARDS).is_dir():
        return set()
    with os.scandir(folder / SHARDS) as entries:
        return {
            entry.name.removesuffix(".npz")
            for entry in entries
            if entry.name.endswith(".npz") and entry.stat().st_size
        }


def write_shard(folder: Path, task: SweepTask, measured: MeasuredTask) -> None:
    """Keep the result of a task, and the seconds it took beside it."""
    columns: dict[str, Any] = {_OWN: np.str_(task.name), **measured.columns}
    write_arrays(shard_file(folder, task), columns, force=True)
    with (folder / TIMINGS).open("a", encoding="utf-8") as file:
        file.write(f"{task.name},{len(task.seeds)},{measured.seconds:.6f}\n")


def read_shard(folder: Path, task: SweepTask) -> Columns | None:
    """The columns of a task; None where they are not there, broken, or another task's."""
    file = shard_file(folder, task)
    if not file.exists():
        return None
    try:
        columns = load_arrays(file)
    except BadTokens:
        return None
    return columns if str(columns.pop(_OWN, "")) == task.name else None
