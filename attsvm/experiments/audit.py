"""audit_folder(): rows drawn at random from a folder of results, run again and compared.

Every study on file is checked for rows that are not of any of its instances, and its verdict and
numbers are computed again from its table. Of the instances (a point and a seed), a random share is
measured again, and every column is compared within WITHIN, relative to the larger value.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import zip_longest
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.progress import Progress
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.experiments.executors import Engine, Failure, engine_of, map_tasks
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
from attsvm.experiments.table import Columns, as_frame, joined

if TYPE_CHECKING:
    from pandas import DataFrame

SHARE = 0.1
# Two numbers agree within this, relative to the larger one, or when they are this near to zero.
WITHIN, ZERO = 1e-6, 1e-9
# So many differing rows of a study are named; the others are counted.
_NAMED = 5


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
        Share of the instances that is measured again, in (0, 1]; at least one of each study. Rows
        forged in k of N instances are found with probability 1 − C(N − k, m)/C(N, m), m = share·N.
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
    instances = [(audit, one) for audit in audits for one in audit.instances]
    rng = np.random.default_rng(seed)
    count = ceil(share * len(instances))
    for place in sorted(rng.choice(len(instances), count, replace=False)) if count else ():
        instances[place][0].drawn.append(instances[place][1])
    for audit in audits:
        if audit.instances and not audit.drawn:
            audit.drawn.append(audit.instances[int(rng.integers(len(audit.instances)))])
        tell(audit.name, "waiting" if audit.drawn else audit.state)
    chunks = [(k, chunk) for k, audit in enumerate(audits) for chunk in audit.chunks()]
    left = Counter(k for k, _ in chunks)
    with ExitStack() as stack:
        # What several rows share is made once, from nothing on file.
        runs = stack.enter_context(TemporaryDirectory())
        tasks = [(k, replace(chunk, runs=runs)) for k, chunk in chunks]
        for (k, chunk), found in stack.enter_context(
            closing(map_tasks(_measure, tasks, engine_of(engine)))
        ):
            audit = audits[k]
            if isinstance(found, Failure):
                audit.failed.append(f"it cannot be run again: {found.error}")
            else:
                audit.again.append(with_point(audit.plan, chunk, found[0]))
                audit.seconds += found[1]
            left[k] -= 1
            if not left[k]:
                audit.compare()
                tell(audit.name, audit.state)
    return {
        "seed": seed, "share": share, "within": WITHIN, "instances": len(instances),
        "drawn": sum(len(audit.drawn) for audit in audits),
        "seconds": time.perf_counter() - start, "studies": [audit.describe() for audit in audits],
    }  # fmt: skip


def _measure(task: tuple[int, Chunk]) -> tuple[Columns, float]:
    return measure_chunk(task[1])


class _Audit:
    """The audit of one study: its rows on file, which instances are drawn, what differs."""

    def __init__(self, folder: Path, name: str, study_of: Callable[[Record], Study]) -> None:
        self.name, self.seconds = name, 0.0
        self.differences: list[str] = []
        self.instances: list[tuple[Chunk, int]] = []
        self.drawn: list[tuple[Chunk, int]] = []
        self.again: list[Columns] = []
        self.failed: list[str] = []
        record = read_record(folder, name)
        if record is None:
            self.differences.append(f"studies/{name}.json is not there or cannot be read")
        elif "error" not in record:
            try:
                self.plan = study_of(record)
                table = read_table(folder, record)
                self.rows = self._indexed(table)
                self._name(self._check_record(record, table))
                chunks = list(chunks_of(self.plan))
                known = {self._key(c, seed) for c in chunks for seed in (*c.seeds, EXAMPLE)}
                strange = [key for key in self.rows.index if key[:-1] not in known]
                self._name([f"the row {_said(self.rows, key)} is invented" for key in strange])
                self.instances = [(chunk, seed) for chunk in chunks for seed in chunk.seeds]
            except (AttsvmError, LookupError, TypeError, ValueError) as error:
                self.differences.append(f"it cannot be audited: {error}")

    def _indexed(self, table: Columns) -> DataFrame:
        """The rows of a table by point, seed, and number among the rows of their instance.

        The rows of a published example are in every chunk of a point, and kept once.
        """
        frame = as_frame(table)
        frame = frame[(frame["seed"] != EXAMPLE) | ~frame.duplicated()].copy()
        names = [*self.plan.swept, "seed"]
        for name in names:
            frame[name] = [_text(value) for value in frame[name]]
        return frame.set_index(names).set_index(frame.groupby(names).cumcount(), append=True)

    def _check_record(self, record: Record, table: Columns) -> list[str]:
        """What differs between the record and what follows from the table."""
        found, rows = judged(self.plan, self.plan, table), len(table["seed"])
        words = []
        if rows != record["rows"]:
            words.append(f"the table has {rows} rows, the record {record['rows']}")
        if record["verdict"] != found["verdict"] and record["verdict"] in ("holds", "fails"):
            words.append(f"the verdict is {record['verdict']}, by its table {found['verdict']}")
        pairs: Any = zip_longest(record["checks"], found["checks"], fillvalue={})
        for one, other in pairs:
            was, now = (np.array([float(row.get("seen", np.nan))]) for row in (one, other))
            if {**one, "seen": 0} != {**other, "seen": 0} or not _same(was, now):
                words.append(f"the check {one} is {other or 'none'} by its table")
        return words

    def _key(self, chunk: Chunk, seed: int) -> tuple[str, ...]:
        return (*(_text(chunk.point[name]) for name in self.plan.swept), _text(seed))

    def chunks(self) -> list[Chunk]:
        """What is measured again: the drawn seeds of each point, a group at a time."""
        points: dict[Any, list[tuple[Chunk, int]]] = defaultdict(list)
        for chunk, seed in self.drawn:
            points[self._key(chunk, 0)].append((chunk, seed))
        return [
            replace(drawn[0][0], seeds=tuple(seed for _, seed in drawn[k : k + self.plan.group]))
            for drawn in points.values()
            for k in range(0, len(drawn), self.plan.group)
        ]

    def compare(self) -> None:
        """Compare the rows that were measured again with those on file."""
        if self.failed:
            self._name(self.failed)
            return
        mine = {self._key(chunk, s) for chunk, seed in self.drawn for s in (seed, EXAMPLE)}
        old = self.rows[np.array([key[:-1] in mine for key in self.rows.index], dtype=bool)]
        new = self._indexed(joined(self.again))
        words = [f"the row {_said(new, k)} is missing" for k in new.index.difference(old.index)]
        words += [f"the row {_said(old, k)} is invented" for k in old.index.difference(new.index)]
        both = old.index.intersection(new.index)
        for name in new:
            was, now = old.loc[both, name], new.loc[both, name]
            apart = ~_same(was, now, self.plan.tolerances.get(name, 0.0))
            words += [
                f"{name} of {_said(old, k)} is {was[k]} on file, {now[k]} when it is run again"
                for k in both[apart]
            ]
        self._name(words)

    def _name(self, words: list[str]) -> None:
        self.differences += words[:_NAMED]
        if len(words) > _NAMED:
            self.differences.append(f"and {len(words) - _NAMED} more")

    @property
    def state(self) -> str:
        """agrees or differs."""
        return "differs" if self.differences else "agrees"

    def describe(self) -> dict[str, Any]:
        """What was found, as JSON can hold it."""
        return {
            "id": self.name, "agrees": not self.differences, "instances": len(self.instances),
            "drawn": len(self.drawn), "differences": self.differences, "seconds": self.seconds,
        }  # fmt: skip


def _said(rows: DataFrame, key: tuple[Any, ...]) -> str:
    """A row by the names of its point and its seed."""
    return ", ".join(f"{n} = {v}" for n, v in zip(rows.index.names[:-1], key[:-1], strict=True))


def _text(value: Any) -> str:
    """The text of a value, the same whether it comes from a table or from a grid."""
    number = isinstance(value, float | int | np.number) and not isinstance(value, bool)
    return repr(float(value)).removesuffix(".0") if number else str(value)


def _same(was: Any, now: Any, allowed: float = 0.0) -> Any:
    """Whether values agree: texts and truths exactly, numbers within WITHIN, ZERO and allowed."""
    if was.dtype.kind not in "iuf" or now.dtype.kind not in "iuf":
        return np.asarray(was == now, dtype=bool)
    a, b = np.asarray(was, dtype=np.float64), np.asarray(now, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # of infinities
        most = np.maximum(WITHIN * np.maximum(abs(a), abs(b)), max(ZERO, allowed))
        near = np.isfinite(a) & np.isfinite(b) & (abs(a - b) <= most)
    return near | (a == b) | (np.isnan(a) & np.isnan(b))
