"""kept(): training runs of minutes, each kept in a file that several studies share.

While a chunk is measured, `kept(work, plan)` reads the run of this plan from the folder of the
results, or does it and keeps it there. Elsewhere it does it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from attsvm._utils.files import load_arrays, write_arrays
from attsvm.errors import AttsvmError

Arrays = dict[str, Any]

_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def keeping(folder: str) -> Iterator[None]:
    """A context in which runs are read from this folder and written to it; "" keeps nothing."""
    token = _FOLDER.set(Path(folder) if folder else None)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def kept(work: Callable[[dict[str, Any]], Arrays], plan: dict[str, Any]) -> Arrays:
    """The arrays of work(plan): read where they are on file, else made and kept.

    plan: what JSON can hold; it, the code of the package, and the versions of NumPy and torch name
    the file.
    """
    from attsvm.experiments.runner import package_hash, versions_of

    folder = _FOLDER.get()
    if folder is None:
        return work(plan)
    code = [package_hash(), work.__module__, work.__qualname__, versions_of("numpy", "torch")]
    text = json.dumps([*code, plan], sort_keys=True)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.npz"
    if file.exists():
        try:
            return load_arrays(file)
        except AttsvmError:  # broken by something else than a kill: it is made again
            file.unlink(missing_ok=True)
    made = work(plan)
    folder.mkdir(exist_ok=True)
    write_arrays(file, made, force=True)
    return made
