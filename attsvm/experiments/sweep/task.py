"""Task: one group of one point of a sweep, and the name of its result."""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy

from attsvm._utils.compiled import timed
from attsvm._utils.objects import is_outside, load_object
from attsvm._utils.parallel import one_thread
from attsvm.errors import ConvergenceWarning, Unsupported
from attsvm.experiments.code_digest import code_digest
from attsvm.experiments.sweep.families import FAMILIES
from attsvm.experiments.sweep.group import RUN, Drawn, Group
from attsvm.experiments.sweep.measures import MEASURES

Columns = dict[str, Any]  # name: (B,) numbers or texts
# Of results computed with other versions of these the last digits may differ.
VERSIONS = {"numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__}


@dataclass(frozen=True)
class Work:
    """What is drawn and what is measured: names, or FILE.py:NAME with the whole path."""

    family: str
    measures: tuple[str, ...]

    def known(self) -> dict[str, list[str]]:
        """The parameters that each part takes: family, measures and run."""
        out = {self.family: list(_parameters(family_of(self.family)))}
        out |= {name: list(_parameters(measure_of(name))) for name in self.measures}
        return {**out, "run": list(RUN)}

    @property
    def identity(self) -> dict[str, Any]:
        """What of it determines a result: names without folders, and the code behind them."""
        parts = [family_of(self.family), *map(measure_of, self.measures)]
        modules = ["attsvm.experiments.sweep.group", *(part.__module__ for part in parts)]
        return {
            "family": _short(self.family),
            "measures": [_short(name) for name in self.measures],
            "code": [code_digest(module) for module in modules],
            "versions": VERSIONS,
        }


@dataclass(frozen=True)
class SweepTask:
    """Some seeds at one point: what is done in one go, and kept in one file.

    point: the parameters by name. name: that of the file, from all that determines the result.
    """

    work: Work
    point: dict[str, Any]
    seeds: tuple[int, ...]
    name: str


def task_name(identity: dict[str, Any], point: dict[str, Any], seeds: tuple[int, ...]) -> str:
    """Twenty-four hex digits that name a result."""
    whole = {**identity, "point": point, "seeds": list(seeds)}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class MeasuredTask:
    """The columns of a task, and the seconds it took without compiling."""

    columns: Columns
    seconds: float


def measure_task(task: SweepTask) -> MeasuredTask:
    """What the task's measures find on its group."""
    with timed() as took, one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a certificate says how far it got
        columns = _columns(task)
    return MeasuredTask(columns, took.run.wall)


def drawn_at(work: Work, point: dict[str, Any], seeds: tuple[int, ...]) -> Drawn:
    """The instances of these seeds at a point."""
    family = family_of(work.family)
    made = family(list(seeds), **_part(point, _parameters(family)))
    if not isinstance(made, Drawn):
        raise Unsupported(
            f"the family {_short(work.family)} returns a Drawn; this is of type "
            f"{type(made).__name__}"
        )
    return made


def _columns(task: SweepTask) -> Columns:
    drawn = drawn_at(task.work, task.point, task.seeds)
    group = Group(task.seeds, drawn, _part(task.point, RUN))
    out: Columns = {}
    for name in task.work.measures:
        measure = measure_of(name)
        found = measure(group, **_part(task.point, _parameters(measure)))
        if not isinstance(found, dict):
            raise Unsupported(f"the measure {_short(name)} returns a dict of columns")
        for key, values in found.items():
            column = np.asarray(values)
            if column.shape != (len(group),) or column.dtype.kind not in "biufU":
                raise Unsupported(
                    f"the measure {_short(name)} gives {key} of shape {column.shape} and type "
                    f"{column.dtype}: it takes one number or text per instance, {len(group)} here"
                )
            if key in out or key in ("seed", "task", *task.point):
                raise Unsupported(f"the column {key} is taken: let {_short(name)} rename it")
            out[str(key)] = column
    return out


def _part(point: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name in names}


def family_of(name: str) -> Callable[..., Any]:
    """The family of this name, or of FILE.py:NAME."""
    return _found(name, "family", FAMILIES)


def measure_of(name: str) -> Callable[..., Any]:
    """The measure of this name, or of FILE.py:NAME."""
    return _found(name, "measure", MEASURES)


def _found(name: str, what: str, listed: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    if name in listed:
        return listed[name]
    if is_outside(name):
        found = load_object(name, f"a {what}")
        if not callable(found):
            raise Unsupported(f"{_short(name)} is no function: a {what} is one")
        return found
    from attsvm.experiments.sweep.nearest import unknown

    raise Unsupported(f"{unknown(what, name, listed)}, or FILE.py:NAME")


@cache
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of all parameters but the first."""
    return tuple(inspect.signature(function).parameters)[1:]


def _short(name: str) -> str:
    """A name without the folder of its file."""
    return Path(name).name if is_outside(name) else name
