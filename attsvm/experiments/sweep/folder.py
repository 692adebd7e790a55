"""The folder of a sweep: its files, read with care and written in one move, by one sweep at a time.

sweep.json         the spec
shards/NAME.npz    the columns of one task; the name tells all that determines them
table.csv          all columns, in the order of the spec; written when nothing is left to do
timings.csv        the seconds that each task took
failures.json      the tasks that were given up, with their errors
lock               there while a sweep runs
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import full, load_arrays, no_space, parse_json, write_arrays, write_json
from attsvm.errors import BadTokens
from attsvm.experiments.sweep.spec import Spec, spec_of
from attsvm.experiments.sweep.task import Columns, Measured, Task

FORMAT = 1
STAMP, SHARDS, TABLE = "sweep.json", "shards", "table.csv"
TIMINGS, FAILURES, LOCK = "timings.csv", "failures.json", "lock"
# The array that names the task a result is of: files may get mixed up.
_OWN = "task"
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A context in which a full disk and a folder that cannot be written to are one sentence."""
    try:
        yield
    except OSError as error:
        if full(error):
            raise no_space(folder) from error
        if error.errno in _REFUSED:
            raise BadTokens(
                f"{folder} cannot be written to ({os.strerror(error.errno or 0)}): what is "
                "finished is kept; give another --out"
            ) from error
        raise


def is_sweep(folder: Path) -> bool:
    """Whether a sweep was begun in this folder."""
    return (folder / STAMP).is_file()


def kept_spec(folder: Path) -> Spec:
    """The spec of a folder; raises BadTokens for a folder that no sweep made."""
    found = _stamp(folder)
    return spec_of(found["spec"], str(found["name"]))


def kept_tasks(folder: Path, spec: Spec) -> Iterator[Task]:
    """The tasks of a folder, named by the code that its results were made with."""
    return spec.tasks(_stamp(folder)["identity"])


def _stamp(folder: Path) -> dict[str, Any]:
    """What the folder says of itself."""
    if not folder.is_dir():
        raise BadTokens(f"there is no folder {folder}; `attsvm sweep SPEC --out {folder}` makes it")
    if not is_sweep(folder):
        raise BadTokens(f"{folder} was not made by `attsvm sweep`: it has no {STAMP}")
    try:
        found = parse_json((folder / STAMP).read_text("utf-8"))
        layout, _, spec, identity = (found[key] for key in ("format", "name", "spec", "identity"))
        if not (isinstance(spec, dict) and isinstance(identity, dict)):
            raise ValueError("spec and identity are tables")
    except (ValueError, KeyError, TypeError) as error:
        raise BadTokens(f"{folder / STAMP} cannot be read ({error}); give another folder") from None
    if layout != FORMAT:
        raise BadTokens(
            f"{folder} was written by another version (layout {layout}, this one reads {FORMAT}); "
            "give another folder"
        )
    return dict(found)


def prepared(folder: Path, spec: Spec) -> None:
    """Make the folder, or check that the spec goes on with what it holds."""
    if is_sweep(folder):
        lost = kept_spec(folder).lost_in(spec)
        if lost:
            raise BadTokens(f"{folder} holds another sweep: {lost}; give another --out")
    elif folder.exists() and not all(map(_begun, folder.iterdir())):
        raise BadTokens(f"{folder} holds other files; give an empty or a new folder")
    (folder / SHARDS).mkdir(parents=True, exist_ok=True)
    for place in (folder, folder / SHARDS):
        for left in place.glob(".attsvm-*.part"):  # of a killed sweep: nobody else writes here
            left.unlink(missing_ok=True)
    about = {"name": spec.name, "spec": spec.as_dict(), "identity": spec.work.identity}
    write_json(folder / STAMP, {"format": FORMAT, **about})


def _begun(file: Path) -> bool:
    """Whether a sweep that was killed before it had a stamp can have left this."""
    empty = file.name == SHARDS and file.is_dir() and not any(file.iterdir())
    return empty or file.name == LOCK or file.match(".attsvm-*.part")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context in which no other sweep works in the folder; the system ends it with the process.

    Raises BadTokens when another one does.
    """
    if folder.exists() and not folder.is_dir():
        raise BadTokens(f"{folder} is a file; give a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / LOCK
        handle = _taken(file, folder)
        os.truncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(handle)


def _taken(file: Path, folder: Path) -> int:
    """The open lock file, locked."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
                raise
            who = file.read_text("utf-8", errors="replace") if file.exists() else ""
            raise BadTokens(
                f"{folder} is in use by another sweep ({who or 'it has just begun'}): wait for it, "
                "or give another --out"
            ) from error
        # One that ended in the meantime has taken its file away: that lock is of no use.
        if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
            return handle
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock an open file, or raise at once where another process has."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def shard_file(folder: Path, task: Task) -> Path:
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


def write_shard(folder: Path, task: Task, measured: Measured) -> None:
    """Keep the result of a task, and the seconds it took beside it."""
    columns: dict[str, Any] = {_OWN: np.str_(task.name), **measured.columns}
    write_arrays(shard_file(folder, task), columns, force=True)
    with (folder / TIMINGS).open("a", encoding="utf-8") as file:
        file.write(f"{task.name},{len(task.seeds)},{measured.seconds:.6f}\n")


def read_shard(folder: Path, task: Task) -> Columns | None:
    """The columns of a task; None where they are not there, broken, or another task's."""
    file = shard_file(folder, task)
    if not file.exists():
        return None
    try:
        columns = load_arrays(file)
    except BadTokens:
        return None
    return columns if str(columns.pop(_OWN, "")) == task.name else None
