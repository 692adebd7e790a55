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
from contextlib import closing
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
    """What differs between the rows of a folder and their rerun; nothing in it is changed.

    study_of: the study of a record, at the size it was run. names: of the studies; all on file
    without. share: of the instances, in (0, 1]; at least one of each study is measured again. Rows
    forged in k of N instances are found with probability 1 − C(N − k, m)/C(N, m), m = share·N.
    seed: of the draw; chosen without one.

    Returns ``{seed, share, within, instances, drawn, seconds, studies: [{id, agrees, instances,
    drawn, differences, seconds}]}``; differences are sentences that name row and column.
    """
    if not 0 < share <= 1:
        raise Unsupported(f"share is {share:g}: it must be above 0 and at most 1")
    folder, start = Path(out), time.perf_counter()
    results_folder(folder).open()
    listed = names or sorted(file.stem for file in (folder / "studies").glob("*.json"))
    if not listed:
        raise BadTokens(f"no study is on file in {folder}: `attsvm reproduce --out {folder}`")
    tell = watch or (lambda name, state: None)
    seed = secrets.randbits(32) if seed is None else seed
    rng, audits = np.random.default_rng(seed), [_Audit(folder, name, study_of) for name in listed]
    instances = [(audit, one) for audit in audits for one in audit.instances]
    for place in rng.permutation(len(instances))[: ceil(share * len(instances))]:
        instances[place][0].drawn.append(instances[place][1])
    for audit in audits:
        if audit.instances and not audit.drawn:
            audit.drawn.append(audit.instances[rng.integers(len(audit.instances))])
        tell(audit.name, "waiting" if audit.drawn else audit.state)
    # What several rows share is made once, from nothing on file.
    with TemporaryDirectory() as runs:
        tasks = [(k, chunk) for k, audit in enumerate(audits) for chunk in audit.chunks(runs)]
        left = Counter(k for k, _ in tasks)
        with closing(map_tasks(_measure, tasks, engine_of(engine))) as results:
            for (k, chunk), found in results:
                audits[k].found.append((chunk, found))
                left[k] -= 1
                if not left[k]:
                    audits[k].compare()
                    tell(audits[k].name, audits[k].state)
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
        self.name, self.differences = name, list[str]()
        self.instances, self.drawn = list[tuple[Chunk, int]](), list[tuple[Chunk, int]]()
        self.found = list[tuple[Chunk, Any]]()
        record = read_record(folder, name)
        if record is None:
            self.differences.append(f"studies/{name}.json is not there or cannot be read")
        elif "error" not in record:
            try:
                self.plan, table = study_of(record), read_table(folder, record)
                self.rows = self._indexed(table)
                self._name(
                    _differences(record, judged(self.plan, self.plan, table), len(table["seed"]))
                )
                chunks = list(chunks_of(self.plan))
                self.instances = [(chunk, seed) for chunk in chunks for seed in chunk.seeds]
                strange = self.rows[~self._is_of(self.instances)]
                self._name([f"the row {_said(strange, key)} is invented" for key in strange.index])
            except (AttsvmError, LookupError, TypeError, ValueError) as error:
                self.instances = []
                self.differences.append(f"it cannot be audited: {error}")

    def _indexed(self, table: Columns) -> DataFrame:
        """The rows of a table by point, seed, and number among the rows of their instance.

        The rows of a published example are in every chunk of a point, and kept once.
        """
        frame = as_frame(table)
        frame = frame[(frame["seed"] != EXAMPLE) | ~frame.duplicated()].copy()
        names = [*self.plan.swept, "seed"]
        for name in names:
            frame[name] = frame[name].map(_text)
        return frame.set_index(names).set_index(frame.groupby(names).cumcount(), append=True)

    def _is_of(self, pairs: list[tuple[Chunk, int]]) -> Any:
        """Whether each row on file is of one of these instances, or of the example at its point."""
        keys = {
            (*(_text(chunk.point[name]) for name in self.plan.swept), _text(one))
            for chunk, seed in pairs
            for one in (seed, EXAMPLE)
        }
        return np.array([key[:-1] in keys for key in self.rows.index], dtype=bool)

    def chunks(self, runs: str) -> list[Chunk]:
        """What is measured again: the drawn seeds of each point, a group at a time."""
        points: dict[str, list[tuple[Chunk, int]]] = defaultdict(list)
        for chunk, seed in self.drawn:
            points[repr(chunk.point)].append((chunk, seed))
        return [
            replace(
                drawn[0][0], seeds=tuple(s for _, s in drawn[k : k + self.plan.group]), runs=runs
            )
            for drawn in points.values()
            for k in range(0, len(drawn), self.plan.group)
        ]

    def compare(self) -> None:
        """Compare the rows that were measured again with those on file."""
        failed = [found.error for _, found in self.found if isinstance(found, Failure)]
        if failed:
            self._name([f"it cannot be run again: {error}" for error in failed])
            return
        old = self.rows[self._is_of(self.drawn)]
        new = self._indexed(joined([with_point(self.plan, c, f[0]) for c, f in self.found]))
        words = [f"the row {_said(new, k)} is missing" for k in new.index.difference(old.index)]
        words += [f"the row {_said(old, k)} is invented" for k in old.index.difference(new.index)]
        both = old.index.intersection(new.index)
        for name in new:
            was, now = old.loc[both, name], new.loc[both, name]
            words += [
                f"{name} of {_said(old, k)} is {was[k]} on file, {now[k]} when it is run again"
                for k in both[~_same(was, now, self.plan.tolerances.get(name, 0.0))]
            ]
        self._name(words)

    def _name(self, words: list[str]) -> None:
        more = [f"and {len(words) - _NAMED} more"] if len(words) > _NAMED else []
        self.differences += words[:_NAMED] + more

    @property
    def state(self) -> str:
        """agrees or differs."""
        return "differs" if self.differences else "agrees"

    def describe(self) -> dict[str, Any]:
        """What was found, as JSON can hold it."""
        seconds = [found[1] for _, found in self.found if not isinstance(found, Failure)]
        return {
            "id": self.name, "agrees": not self.differences, "instances": len(self.instances),
            "drawn": len(self.drawn), "differences": self.differences, "seconds": sum(seconds),
        }  # fmt: skip


def _differences(record: Record, found: Record, rows: int) -> list[str]:
    """What differs between a record and what follows from its table, numbers to seven digits."""
    pairs: list[tuple[str, Any, Any]] = [("number of rows", record["rows"], rows)]
    if record["verdict"] in ("holds", "fails"):
        pairs.append(("verdict", record["verdict"], found["verdict"]))
    checks = [
        [{**c, "seen": f"{float(c['seen']):.7g}"} for c in r["checks"]] for r in (record, found)
    ]
    pairs += [("check", was, now) for was, now in zip_longest(*checks)]
    return [f"the {what} is {was}, by its table {now}" for what, was, now in pairs if was != now]


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
    return np.isclose(a, b, rtol=WITHIN, atol=max(ZERO, allowed), equal_nan=True)
