"""Spec: what a sweep draws, trains and measures, read from a TOML file and checked."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import parse_toml
from attsvm._utils.objects import is_outside
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.sweep.nearest import unknown
from attsvm.experiments.sweep.task import SweepTask, Work, task_name

KEYS = (
    "title", "claim", "family", "measure", "seeds", "first", "group", "fixed", "grid", "random",
    "figure", "quick",
)  # fmt: skip
_QUICK = ("seeds", "first", "group", "fixed", "grid", "random")
_RANGE = ("low", "high", "log", "whole")
FIGURE = (
    "kind", "x", "y", "value", "panels", "lines", "line", "published", "log", "xlabel", "ylabel",
    "vlabel",
)  # fmt: skip
# What may differ between the spec of a folder and one that goes on from it.
_FREE = ("title", "claim", "figure", "seeds", "first", "grid", "random", "fixed")
_MOST = 10**9


@dataclass(frozen=True)
class Spec:
    """A sweep: a family, its measures, the points of a grid or drawn at random, and seeds.

    fixed: parameters with one value. grid: those with several, whose product is swept. random: how
    many points are drawn, their seed, and a range for each parameter drawn; with a grid every point
    of it is taken at each of them. seeds, first: how many instances each point has, and the first
    one's seed. group: how many instances are trained as one stack and kept in one file.
    """

    name: str
    work: Work
    seeds: int
    first: int = 0
    group: int = 100
    fixed: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    random: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    claim: str = ""
    figure: dict[str, Any] = field(default_factory=dict)

    @property
    def swept(self) -> list[str]:
        """The parameters that differ from point to point: the first columns of the table."""
        return [*self.grid, *_ranges(self.random)]

    def points(self) -> Iterator[dict[str, Any]]:
        """The parameters of every point, in the order of the table."""
        for at in _drawn_points(self.random):
            for values in product(*self.grid.values()):
                yield {**self.fixed, **dict(zip(self.grid, values, strict=True)), **at}

    @property
    def count(self) -> int:
        """How many points there are."""
        return int(self.random.get("points", 1)) * math.prod(map(len, self.grid.values()))

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return self.count * self.seeds

    def blocks(self) -> list[tuple[int, ...]]:
        """The seeds of each task of a point: cut at multiples of the group's size.

        So a block that is whole stays the same one when seeds are added on either side.
        """
        last = self.first + self.seeds
        edges = [self.first, *range((self.first // self.group + 1) * self.group, last, self.group)]
        cuts = zip(edges, [*edges[1:], last], strict=True)
        return [tuple(range(begin, end)) for begin, end in cuts]

    def tasks(self, identity: dict[str, Any] | None = None) -> Iterator[SweepTask]:
        """The tasks in the order of the table; identity: of other code than what is here."""
        identity, blocks = identity or self.work.identity, self.blocks()
        for point in self.points():
            for seeds in blocks:
                yield SweepTask(self.work, point, seeds, task_name(identity, point, seeds))

    def as_dict(self) -> dict[str, Any]:
        """The spec as a file holds it."""
        out: dict[str, Any] = {
            "title": self.title,
            "claim": self.claim,
            "family": self.work.family,
            "measure": list(self.work.measures),
            "seeds": self.seeds,
            "first": self.first,
            "group": self.group,
            "fixed": self.fixed,
            "grid": self.grid,
            "random": self.random,
            "figure": self.figure,
        }
        return out

    def lost_in(self, other: Spec) -> str:
        """What this spec has that `other` does not go on with, in words; empty where it has all.

        Seeds and points may be added to; what is measured, and at which other parameters, may not
        change.
        """
        mine, new = self.as_dict(), other.as_dict()
        for key in mine:
            if key not in _FREE and mine[key] != new[key]:
                return f"{key} is {_said(mine[key])} there and {_said(new[key])} here"
        if other.first > self.first or other.first + other.seeds < self.first + self.seeds:
            return (
                f"it has the seeds {self.first} to {self.first + self.seeds - 1}, and this one "
                f"{other.first} to {other.first + other.seeds - 1}"
            )
        kept = {_key(point) for point in other.points()}
        for point in self.points():
            if _key(point) not in kept:
                return _apart(point, other)
        return ""


def _apart(point: dict[str, Any], other: Spec) -> str:
    """Why a point is not among those of another spec."""
    for name in sorted(set(point) | set(other.fixed)):
        there = point.get(name)
        if name in other.fixed and name not in other.swept and other.fixed[name] != there:
            return f"{name} is {_said(there)} there and {_said(other.fixed[name])} here"
        if name in other.grid and there not in other.grid[name]:
            return f"{name} = {_said(there)} is there and not here"
        if name in point and name not in other.fixed and name not in other.swept:
            return f"{name} is {_said(there)} there and not said here"
    return f"it has the point {_said(point)}"


def _said(value: Any) -> str:
    """A value in few words."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _key(point: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, str(value)) for name, value in point.items()))


def _ranges(random: Mapping[str, Any]) -> list[str]:
    return [name for name in random if name not in ("points", "seed")]


def _drawn_points(random: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The points of a random design; each has its own stream, so that more can be added."""
    if not random:
        yield {}
        return
    for k in range(int(random["points"])):
        out: dict[str, Any] = {}
        for name in _ranges(random):
            about = random[name]
            stream = [int(random.get("seed", 0)), k, zlib.crc32(name.encode())]
            share = float(np.random.default_rng(stream).uniform())
            low, high = float(about["low"]), float(about["high"])
            if about.get("whole"):
                out[name] = int(low + math.floor(share * (high - low + 1)))
            elif about.get("log"):
                out[name] = float(low * (high / low) ** share)
            else:
                out[name] = low + share * (high - low)
        yield out


def read_spec(file: Path, *, quick: bool = False) -> Spec:
    """The spec of a TOML file, checked; quick: with the smaller counts of its table [quick]."""
    try:
        found = parse_toml(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadTokens(f"{file} does not exist") from error
    except ValueError as error:
        raise BadTokens(f"{file} is no TOML file ({error})") from error
    return spec_of(found, file.stem, folder=file.parent, quick=quick)


def spec_of(
    found: Mapping[str, Any], name: str, *, folder: Path | None = None, quick: bool = False
) -> Spec:
    """The spec of these tables, checked; files of one's own are looked for in the folder."""
    for key in found:
        if key not in KEYS:
            raise BadTokens(f"{name}: {unknown('key', key, KEYS)}")
    for key in ("family", "measure", "seeds"):
        if key not in found:
            raise BadTokens(f"{name} has no {key}: it needs family, measure and seeds")
    given = dict(found)
    smaller = given.pop("quick", {})
    if quick:
        if not smaller:
            raise BadTokens(f"{name} has no table [quick]")
        for key, value in _table(smaller, name, "quick").items():
            if key not in _QUICK:
                raise BadTokens(f"{name}, [quick]: {unknown('key', key, _QUICK)}")
            given[key] = {**given.get(key, {}), **value} if isinstance(value, dict) else value
    measures = [given["measure"]] if isinstance(given["measure"], str) else given["measure"]
    if not isinstance(measures, list) or not measures or not _texts([given["family"], *measures]):
        raise BadTokens(f"{name}: family is a name, and measure one or several")
    work = Work(_placed(given["family"], folder), tuple(_placed(m, folder) for m in measures))
    spec = Spec(
        name=name,
        work=work,
        seeds=_whole(given["seeds"], f"{name}: seeds", 1),
        first=_whole(given.get("first", 0), f"{name}: first", 0),
        group=_whole(given.get("group", 100), f"{name}: group", 1),
        fixed=_table(given.get("fixed", {}), name, "fixed"),
        grid={k: _values(v, f"{name}: grid.{k}") for k, v in
              _table(given.get("grid", {}), name, "grid").items()},
        random=_random(_table(given.get("random", {}), name, "random"), name),
        title=str(given.get("title", name)),
        claim=str(given.get("claim", "")),
        figure=_table(given.get("figure", {}), name, "figure"),
    )  # fmt: skip
    _check(spec)
    return spec


def _check(spec: Spec) -> None:
    """Raises unless every parameter is taken by some part, once, and its values are plain."""
    takers = spec.work.known()
    known = sorted({word for words in takers.values() for word in words})
    tables = {"fixed": list(spec.fixed), "grid": list(spec.grid), "random": _ranges(spec.random)}
    seen: dict[str, str] = {}
    for table, words in tables.items():
        for word in words:
            if word not in known:
                raise BadTokens(f"{spec.name}, [{table}]: {unknown('parameter', word, known)}")
            if word in seen:
                raise BadTokens(f"{spec.name}: {word} is in [{seen[word]}] and in [{table}]")
            seen[word] = table
    for word, value in spec.fixed.items():
        _plain(value, f"{spec.name}: fixed.{word}")
    for word in spec.figure:
        if word not in FIGURE:
            raise BadTokens(f"{spec.name}, [figure]: {unknown('key', word, FIGURE)}")
    if spec.instances > _MOST:
        raise BadTokens(f"{spec.name} has {spec.instances} instances: at most {_MOST} are swept")


def _texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _placed(name: str, folder: Path | None) -> str:
    """A name; of FILE.py:NAME with the whole path, from the folder of the spec."""
    if not is_outside(name):
        return name
    file, _, rest = name.rpartition(":")
    return f"{((folder or Path()) / file).resolve()}:{rest}"


def _table(value: Any, name: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadTokens(f"{name}: {key} is a table, [{key}]")
    return dict(value)


def _whole(value: Any, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise BadTokens(f"{what} is {value!r}: it is a whole number from {least} on")
    return value


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
        low, high, step = (
            _whole(value.get(k, 1), f"{what}.{k}", 0) for k in ("from", "to", "step")
        )
        value = list(range(low, high + 1, max(step, 1)))
    if not isinstance(value, list):
        raise BadTokens(f"{what} is {value!r}: it is a list; one value belongs into [fixed]")
    if not value:
        raise BadTokens(f"{what} is empty: a grid without values has no points")
    for entry in value:
        _plain(entry, what)
    if len({str(entry) for entry in value}) < len(value):
        raise BadTokens(f"{what} has a value twice")
    return list(value)


def _random(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A random design, checked."""
    if not value:
        return value
    out: dict[str, Any] = {
        "points": _whole(value.get("points"), f"{name}: random.points", 1),
        "seed": _whole(value.get("seed", 0), f"{name}: random.seed", 0),
    }
    for word in _ranges(value):
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
        out[word] = about
    if len(out) == 2:
        raise Unsupported(
            f"{name}: [random] draws nothing: give a range, such as d = {{low, high}}"
        )
    return out
