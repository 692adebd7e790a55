"""audit_folder(): rows drawn at random from a folder of results, run again and compared.

Every study on file is checked for rows that are missing, invented or twice there, and its verdict
and numbers are computed again from its table. Of the instances (a point and a seed), a random share
is measured again, and every column is compared within WITHIN, relative to the larger value.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attsvm._utils.progress import Progress
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.experiments.executors import Engine, Failure, engine_of, run_tasks
from attsvm.experiments.runner import (
    Chunk,
    Record,
    chunks_of,
    judged,
    measure_chunk,
    read_record,
    read_table,
    results_folder,
    with_point,
)
from attsvm.experiments.study import EXAMPLE, Study
from attsvm.experiments.table import Columns

SHARE = 0.1
# Two numbers agree within this, relative to the larger one, or when they are this near to zero.
WITHIN, ZERO = 1e-6, 1e-9
# So many differing rows of a study are named; the others are counted.
_NAMED = 5

Key = tuple[Any, ...]


def audit_folder(
    out: str | Path,
    study_of: Callable[[Record], Study],
    names: Sequence[str] = (),
    *,
    share: float = SHARE,
    seed: int | None = None,
    engine: str | Engine = "here",
    watch: Progress | None = None,
) -> dict[str, Any]:
    """Audit the studies of a folder; nothing in it is changed.

    Parameters
    ----------
    out : path
        Folder of the results.
    study_of : callable
        study_of(record): the study of a record, at the size it was run.
    names : sequence of str
        Ids of the studies; all on file without.
    share : float, default: 0.1
        Share of the instances that is measured again, in (0, 1]; at least one of each study.
    seed : int, optional
        Seed of the draw; chosen and reported without one.
    engine : str or Engine, default: "here"
        Where rows are measured.

    Returns
    -------
    dict
        ``{seed, share, within, instances, drawn, seconds, studies: [{id, agrees, instances, drawn,
        differences, seconds}]}``; differences are sentences that name row and column.
    """
    if not 0 < share <= 1:
        raise Unsupported(f"share is {share:g}: it must be above 0 and at most 1")
    seed = secrets.randbits(32) if seed is None else seed
    folder, start = Path(out), time.perf_counter()
    results_folder(folder).open()
    tell = watch or (lambda name, state: None)
    listed = names or sorted(file.stem for file in (folder / "studies").glob("*.json"))
    if not listed:
        raise BadTokens(f"no study is on file in {folder}: `attsvm reproduce --out {folder}`")
    audits = [_Audit(folder, name, study_of) for name in listed]
    keys = [(k, key) for k, audit in enumerate(audits) for key in audit.keys]
    draw = np.random.default_rng(seed)
    taken = set(draw.choice(len(keys), ceil(share * len(keys)), replace=False)) if keys else set()
    for place, (k, key) in enumerate(keys):
        if place in taken:
            audits[k].drawn.append(key)
    for audit in audits:
        if audit.keys and not audit.drawn:
            audit.drawn.append(audit.keys[int(draw.integers(len(audit.keys)))])
        tell(audit.name, "waiting" if audit.drawn else audit.state)
    tasks = [(k, chunk) for k, audit in enumerate(audits) for chunk in audit.chunks()]
    left = Counter(k for k, _ in tasks)

    def done(task: tuple[int, Chunk], measured: tuple[Columns, float]) -> None:
        audits[task[0]].compare(task[1], *measured)
        close(task)

    def gave_up(failure: Failure[tuple[int, Chunk]]) -> None:
        audits[failure.task[0]].differences.append(f"it cannot be run again: {failure.error}")
        close(failure.task)

    def close(task: tuple[int, Chunk]) -> None:
        left[task[0]] -= 1
        if not left[task[0]]:
            tell(audits[task[0]].name, audits[task[0]].state)

    with TemporaryDirectory() as runs:  # what several rows share is made once, from nothing on file
        alone = [(k, replace(chunk, runs=runs)) for k, chunk in tasks]
        run_tasks(_measure, alone, engine_of(engine), done=done, gave_up=gave_up)
    return {
        "seed": seed, "share": share, "within": WITHIN, "instances": len(keys),
        "drawn": sum(len(audit.drawn) for audit in audits),
        "seconds": time.perf_counter() - start, "studies": [audit.describe() for audit in audits],
    }  # fmt: skip


def _measure(task: tuple[int, Chunk]) -> tuple[Columns, float]:
    return measure_chunk(task[1])


class _Audit:
    """The audit of one study: what its table holds, which instances are drawn, what differs."""

    def __init__(self, folder: Path, name: str, study_of: Callable[[Record], Study]) -> None:
        self.name, self.differences = name, []  # type: tuple[str, list[str]]
        self.keys: list[Key] = []
        self.drawn: list[Key] = []
        self.seconds = 0.0
        record = read_record(folder, name)
        if record is None:
            self.differences.append(f"studies/{name}.json is not there or cannot be read")
            return
        if "error" in record:
            return
        try:
            self.plan = study_of(record)
            self.table = read_table(folder, record)
            self.rows: dict[Key, list[int]] = defaultdict(list)
            for k, key in enumerate(_keys(self.plan, self.table)):
                self.rows[key].append(k)
            self._list_keys(record)
            self._judge(record)
        except AttsvmError as error:
            self.differences.append(str(error))
            self.keys = []

    def _list_keys(self, record: Record) -> None:
        """Note the instances of the study, and rows that are not of any of them."""
        chunks = list(chunks_of(self.plan))
        self.points = {_text(chunk.point[name] for name in self.plan.swept): chunk
                       for chunk in chunks}  # fmt: skip
        wanted = [(*_text(c.point[n] for n in self.plan.swept), seed)
                  for c in chunks for seed in c.seeds]  # fmt: skip
        self.keys = wanted
        self.copies = Counter(_text(c.point[n] for n in self.plan.swept) for c in chunks)
        known = {*wanted, *((*point, EXAMPLE) for point in self.copies)}
        invented = [key for key in self.rows if key not in known]
        self._name([f"the row {self._said(key)} is invented" for key in invented])
        if len(next(iter(self.table.values()), ())) != record["rows"]:
            count = len(next(iter(self.table.values()), ()))
            self.differences.append(f"the table has {count} rows, the record {record['rows']}")

    def _judge(self, record: Record) -> None:
        """Compare the record with what follows from the table."""
        found = judged(self.plan, self.plan, self.table)
        if record["verdict"] != found["verdict"] and record["verdict"] in ("holds", "fails"):
            self.differences.append(
                f"the verdict is {record['verdict']} on file, {found['verdict']} by its table"
            )
        kept, seen = record["checks"], found["checks"]
        if [row["what"] for row in kept] != [row["what"] for row in seen]:
            self.differences.append("its checks are others than those of its table")
            return
        self._name(
            [
                f"{one['what']} is {one['seen']} ({one['asked']}) on file, {other['seen']} "
                f"({other['asked']}) by its table"
                for one, other in zip(kept, seen, strict=True)
                if (one["asked"], one["met"]) != (other["asked"], other["met"])
                or not _same(float(one["seen"]), float(other["seen"]))
            ]
        )

    def chunks(self) -> Iterator[Chunk]:
        """What is measured again: the drawn seeds of each point and chunk."""
        seeds: dict[Key, list[int]] = defaultdict(list)
        for key in self.drawn:
            seeds[key[:-1]].append(key[-1])
        for point, drawn in seeds.items():
            for k in range(0, len(drawn), self.plan.group):
                part = tuple(sorted(drawn)[k : k + self.plan.group])
                yield replace(self.points[point], seeds=part)

    def compare(self, chunk: Chunk, found: Columns, seconds: float) -> None:
        """Compare the rows of a chunk that was measured again with those on file."""
        self.seconds += seconds
        again = with_point(self.plan, chunk, found)
        rows: dict[Key, list[int]] = defaultdict(list)
        for k, key in enumerate(_keys(self.plan, again)):
            rows[key].append(k)
        point = _text(chunk.point[name] for name in self.plan.swept)
        words: list[str] = []
        for seed in (*chunk.seeds, EXAMPLE):
            key = (*point, seed)
            here, there = rows.get(key, []), self.rows.get(key, [])
            if seed == EXAMPLE:
                here = here * self.copies[point]
            if len(here) != len(there):
                what = "missing" if len(there) < len(here) else "there too often"
                words.append(f"the row {self._said(key)} is {what}: {len(there)} on file, "
                             f"{len(here)} when it is run again")  # fmt: skip
                continue
            words += [
                f"{name} of {self._said(key)} is {self.table[name][j]} on file, {again[name][i]} "
                "when it is run again"
                for i, j in zip(here, there, strict=True)
                for name in again
                if not _same(again[name][i], self.table[name][j], self.plan.tolerances.get(name, 0))
            ]
        self._name(words)

    def _name(self, words: list[str]) -> None:
        self.differences += words[:_NAMED]
        if len(words) > _NAMED:
            self.differences.append(f"and {len(words) - _NAMED} more")

    def _said(self, key: Key) -> str:
        """A row by the names of its point and its seed."""
        names = [*self.plan.swept, "seed"]
        return ", ".join(f"{name} = {value}" for name, value in zip(names, key, strict=True))

    @property
    def state(self) -> str:
        """agrees or differs."""
        return "differs" if self.differences else "agrees"

    def describe(self) -> dict[str, Any]:
        """What was found, as JSON can hold it."""
        return {
            "id": self.name, "agrees": not self.differences, "instances": len(self.keys),
            "drawn": len(self.drawn), "differences": self.differences, "seconds": self.seconds,
        }  # fmt: skip


def _keys(plan: Study, table: Mapping[str, Any]) -> Iterator[Key]:
    """The point and seed of each row."""
    if "seed" not in table:
        return iter(())
    swept = [table[name] for name in plan.swept]
    return ((*_text(at), int(seed)) for *at, seed in zip(*swept, table["seed"], strict=True))


def _text(values: Iterable[Any]) -> Key:
    """Values that compare equal whether they come from a table or from a grid."""
    return tuple(
        repr(float(v)) if isinstance(v, float | int | np.number) and not isinstance(v, bool)
        else str(v)
        for v in values
    )  # fmt: skip


def _same(a: Any, b: Any, allowed: float = 0.0) -> bool:
    if isinstance(a, str | np.str_ | bool | np.bool_):
        return bool(a == b)
    a, b = float(a), float(b)
    if np.isnan(a) or np.isnan(b) or np.isinf(a) or np.isinf(b):
        return bool(a == b or (np.isnan(a) and np.isnan(b)))
    return bool(abs(a - b) <= max(WITHIN * max(abs(a), abs(b)), ZERO, allowed))
