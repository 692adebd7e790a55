"""Sweeps in TOML: a study without checks, read from a file and checked.

A file has the keys family, measure and seeds, the tables [run] (parameters with one value), [grid],
[figure] and [quick]; or the key study with the id of a study, whose grid, run and seeds it changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from attsvm._utils.files import parse_toml, read_toml
from attsvm._utils.objects import is_outside, unknown
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.study import QUICK, Study, check_study, whole

_QUICK = tuple(key for key in QUICK if key != "thresholds")
KEYS = ("title", "study", "family", "measure", *_QUICK, "figure", "quick")

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
    return sweep_of(read_toml(file), file.stem, file.parent)


def sweep_of(found: Mapping[str, Any], name: str, folder: Path | None = None) -> Study:
    """The study of these tables, checked; files that they name are looked for in the folder."""
    try:
        study = _read_study(found, name, folder or Path())
    except BadTokens as error:
        raise BadTokens(f"{name}: {error}") from error
    check_study(study)
    return study


def _read_study(found: Mapping[str, Any], name: str, folder: Path) -> Study:
    changes = _read_keys(found, KEYS)
    changes["quick"] = _read_keys(changes.get("quick", {}), _QUICK)
    if "study" in found:
        return _changed(changes)
    for key in ("family", "measure", "seeds"):
        if key not in found:
            raise BadTokens(f"it has no {key}: it needs family, measure and seeds, or study")
    given = changes.pop("measure")
    texts = [changes.pop("family"), *(given if isinstance(given, list) else [given])]
    if len(texts) < 2 or not all(isinstance(text, str) and text for text in texts):
        raise BadTokens("family is a name, and measure one or several")
    family, *measures = (_placed(text, folder) for text in texts)
    title = str(changes.pop("title", name))
    return Study(
        id=f"sweep.{name.replace('.', '-').replace(' ', '-')}", title=title, statement=title,
        kind="question", source="measured", family=family, measure=tuple(measures), **changes,
    )  # fmt: skip


def _changed(changes: dict[str, Any]) -> Study:
    """A study of the package with another grid, run or number of seeds, and without checks."""
    from attsvm.experiments.studies import study_of

    base = study_of(str(changes.pop("study")))
    for key in ("family", "measure"):
        if key in changes:
            raise BadTokens(f"it has study and {key}: a study has its own {key}")
    for key in ("run", "grid"):
        changes[key] = {**getattr(base, key), **changes.get(key, {})}
    return replace(base, checks=None, thresholds={}, **changes)


def _read_keys(found: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The values of these keys, of the types that a Study needs."""
    out = dict(found)
    for key, value in out.items():
        if key not in known:
            raise BadTokens(unknown("key", key, known))
        if key in ("seeds", "first", "group"):
            whole(value, key, 0 if key == "first" else 1)
        elif key in ("run", "grid", "figure", "quick") and not isinstance(value, dict):
            raise BadTokens(f"{key} is a table, [{key}]")
    if "grid" in out:
        out["grid"] = {k: _values(v, f"grid.{k}") for k, v in out["grid"].items()}
    for name, value in out.get("run", {}).items():
        _check_plain(value, f"run.{name}")
    return out


def _placed(name: str, folder: Path) -> str:
    """A name; of FILE.py:NAME with the whole path, from the folder of the sweep's file."""
    file, _, rest = name.rpartition(":")
    return f"{(folder / file).resolve()}:{rest}" if is_outside(name) else name


def _check_plain(value: Any, what: str) -> None:
    """Raise BadTokens unless this is a finite number, a text or a truth value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise BadTokens(f"{what} is {value}: it must be finite")
    if not isinstance(value, bool | int | float | str):
        raise BadTokens(f"{what} is {value!r}: it is one number, text or truth value")


def _values(value: Any, what: str) -> list[Any]:
    """The values of a grid: a list, or {from, to, step} in whole numbers."""
    if isinstance(value, dict):
        if not {"from", "to"} <= set(value) <= {"from", "to", "step"}:
            raise BadTokens(f"{what}: a range has from, to and step; this has {', '.join(value)}")
        low, high, step = (whole(value.get(k, 1), f"{what}.{k}", 0) for k in ("from", "to", "step"))
        value = list(range(low, high + 1, max(step, 1)))
    if not isinstance(value, list):
        raise BadTokens(f"{what} is {value!r}: it is a list; one value belongs into [run]")
    for entry in value:
        _check_plain(entry, what)
    if len({str(entry) for entry in value}) < len(value):
        raise BadTokens(f"{what} has a value twice")
    return value
