"""Sweeps in TOML: a study without checks, read from a file and checked.

A file has the keys family, measure and seeds, the tables [run] (parameters with one value), [grid],
[random], [figure] and [quick]; or the key study with the id of a study, whose grid, run and seeds
it changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from attsvm._utils.files import parse_toml
from attsvm._utils.objects import is_outside, unknown
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.study import Study, check_parameters, whole

KEYS = (
    "title", "study", "family", "measure", "seeds", "first", "group", "run", "grid", "random",
    "figure", "quick",
)  # fmt: skip
_QUICK = ("seeds", "first", "group", "run", "grid", "random")
_RANGE = ("low", "high", "log", "whole")

_SWEEPS = files("attsvm.experiments").joinpath("sweeps")
# The names of the sweeps that come with the package.
SHIPPED = sorted(
    file.name.removesuffix(".toml") for file in _SWEEPS.iterdir() if file.name.endswith(".toml")
)


def shipped_sweep(name: str) -> Study:
    """The sweep of this name that comes with the package.

    >>> shipped_sweep("separability").family
    'gaussian'
    """
    if name not in SHIPPED:
        raise Unsupported(f"{unknown('sweep', name, SHIPPED)}, a study's id, or a file SPEC.toml")
    return sweep_of(parse_toml(_SWEEPS.joinpath(f"{name}.toml").read_text("utf-8")), name)


def read_sweep(file: Path) -> Study:
    """The sweep of a TOML file, checked."""
    try:
        found = parse_toml(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadTokens(f"{file} does not exist") from error
    except (OSError, ValueError) as error:
        raise BadTokens(f"{file} is no TOML file ({error})") from error
    return sweep_of(found, file.stem, file.parent)


def sweep_of(found: Mapping[str, Any], name: str, folder: Path | None = None) -> Study:
    """The study of these tables, checked; files that they name are looked for in the folder."""
    for key in found:
        if key not in KEYS:
            raise BadTokens(f"{name}: {unknown('key', key, KEYS)}")
    for key, value in _table(found.get("quick", {}), name, "quick").items():
        if key not in _QUICK:
            raise BadTokens(f"{name}, [quick]: {unknown('key', key, _QUICK)}")
        if key in ("run", "grid", "random"):
            _table(value, name, f"quick.{key}")
    changes = {key: _read(key, value, name) for key, value in found.items()
               if key not in ("study", "family", "measure", "quick")}  # fmt: skip
    changes["quick"] = {k: _read(k, v, f"{name}, [quick]", part=True)
                        for k, v in found.get("quick", {}).items()}  # fmt: skip
    if "study" in found:
        study = _changed(found, changes, name)
    else:
        study = _new(found, changes, name, folder)
    sizes = [study, study.at(quick=True)] if study.quick else [study]
    try:
        for size in sizes:
            _check_random(size.random, name)
            check_parameters(size)
        if isinstance(study.figure, Mapping):
            from attsvm.experiments.figures import check_figure

            check_figure(study)
    except BadTokens as error:
        raise BadTokens(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error
    return study


def _new(
    found: Mapping[str, Any], changes: dict[str, Any], name: str, folder: Path | None
) -> Study:
    for key in ("family", "measure", "seeds"):
        if key not in found:
            raise BadTokens(f"{name} has no {key}: it needs family, measure and seeds, or study")
    given = found["measure"]
    measures = [given] if isinstance(given, str) else given
    if not isinstance(measures, list) or not measures or not _texts([found["family"], *measures]):
        raise BadTokens(f"{name}: family is a name, and measure one or several")
    title = changes.pop("title", name)
    return Study(
        id=f"sweep.{name.replace('.', '-').replace(' ', '-')}", title=title, statement=title,
        kind="question", source="measured", family=_placed(found["family"], folder),
        measure=tuple(_placed(one, folder) for one in measures), **changes,
    )  # fmt: skip


def _changed(found: Mapping[str, Any], changes: dict[str, Any], name: str) -> Study:
    from attsvm.experiments.studies import study_of

    for key in ("family", "measure"):
        if key in found:
            raise BadTokens(f"{name} has study and {key}: a study has its own {key}")
    base = study_of(str(found["study"]))
    merged = {key: {**getattr(base, key), **value} if key in ("run", "grid") else value
              for key, value in changes.items()}  # fmt: skip
    fields: dict[str, Any] = {"checks": None, "thresholds": {}, **merged}
    return replace(base, **fields)


def _read(key: str, value: Any, name: str, part: bool = False) -> Any:
    """The value of a key, of the type that a Study needs."""
    if key in ("seeds", "first", "group"):
        return whole(value, f"{name}: {key}", 0 if key == "first" else 1)
    if key == "title":
        return str(value)
    table = _table(value, name, key)
    if key == "grid":
        return {k: _values(v, f"{name}: grid.{k}") for k, v in table.items()}
    if key == "run":
        return {k: _plain(v, f"{name}: run.{k}") for k, v in table.items()}
    if key == "figure":
        return table or None
    return table


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _placed(name: str, folder: Path | None) -> str:
    """A name; of FILE.py:NAME with the whole path, from the folder of the sweep's file."""
    if not is_outside(name):
        return name
    file, _, rest = name.rpartition(":")
    return f"{((folder or Path()) / file).resolve()}:{rest}"


def _table(value: Any, name: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadTokens(f"{name}: {key} is a table, [{key}]")
    return dict(value)


def _plain(value: Any, what: str) -> Any:
    """A number, text or truth value; raises BadTokens for anything else."""
    if isinstance(value, float) and not math.isfinite(value):
        raise BadTokens(f"{what} is {value}: it must be finite")
    if not isinstance(value, bool | int | float | str):
        raise BadTokens(f"{what} is {value!r}: it is one number, text or truth value")
    return value


def _values(value: Any, what: str) -> list[Any]:
    """The values of a grid: a list, or {from, to, step} in whole numbers."""
    if isinstance(value, dict):
        if not {"from", "to"} <= set(value) <= {"from", "to", "step"}:
            raise BadTokens(f"{what}: a range has from, to and step; this has {', '.join(value)}")
        low, high, step = (whole(value.get(k, 1), f"{what}.{k}", 0) for k in ("from", "to", "step"))
        value = list(range(low, high + 1, max(step, 1)))
    if not isinstance(value, list):
        raise BadTokens(f"{what} is {value!r}: it is a list; one value belongs into [run]")
    if not value:
        raise BadTokens(f"{what} is empty: a grid without values has no points")
    for entry in value:
        _plain(entry, what)
    if len({str(entry) for entry in value}) < len(value):
        raise BadTokens(f"{what} has a value twice")
    return list(value)


def _check_random(value: Mapping[str, Any], name: str) -> None:
    """Raise BadTokens unless this is a random design: points, seed and ranges."""
    if not value:
        return
    whole(value.get("points"), f"{name}: random.points", 1)
    whole(value.get("seed", 0), f"{name}: random.seed", 0)
    ranges = [word for word in value if word not in ("points", "seed")]
    for word in ranges:
        about, what = value[word], f"{name}: random.{word}"
        if not isinstance(about, dict) or not {"low", "high"} <= set(about) <= set(_RANGE):
            raise BadTokens(f"{what} is a range: {{low = …, high = …}}, with log or whole")
        low, high = (_plain(about[key], what) for key in ("low", "high"))
        if isinstance(low, str) or isinstance(high, str) or not low < high:
            raise BadTokens(f"{what}: low must be below high")
        if about.get("log") and low <= 0:
            raise BadTokens(f"{what}: a logarithmic range begins above 0")
        if about.get("whole") and not (float(low).is_integer() and float(high).is_integer()):
            raise BadTokens(f"{what}: a range of whole numbers has whole ends")
    if not ranges:
        raise BadTokens(f"{name}: [random] draws nothing: give a range, such as d = {{low, high}}")
