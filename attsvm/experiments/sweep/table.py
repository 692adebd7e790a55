"""The table of a sweep, from its shards one by one: memory does not grow with the sweep."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import beside
from attsvm._utils.version import install
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.sweep.folder import kept_spec, kept_tasks, on_file, read_shard, shard_file
from attsvm.experiments.sweep.spec import Spec
from attsvm.experiments.sweep.task import Columns, SweepTask

# Rows of a parquet file that are written at once.
_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class SweepTable:
    """The columns of a sweep, by name: its swept parameters, the seeds, and what was measured.

    missing: how many instances are not there, because the sweep goes on or tasks failed.
    """

    spec: Spec
    columns: dict[str, Any] = field(repr=False)
    missing: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def to_frame(self) -> Any:
        """The same as a pandas frame; raises Unsupported where pandas is not installed."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise Unsupported(
                f"pandas is not installed: {install('pandas')}, or take `columns`"
            ) from error
        return pandas.DataFrame(self.columns)


def load_table(folder: str | Path) -> SweepTable:
    """The table of a sweep's folder, finished or not."""
    place = Path(folder)
    spec = kept_spec(place)
    parts: dict[str, list[Any]] = {}
    count = 0
    for columns in parts_of(place, spec):
        count += len(columns["seed"])
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    return SweepTable(spec, joined, spec.instances - count)


def parts_of(folder: Path, spec: Spec) -> Iterator[Columns]:
    """The columns of each task that is there, in the order of the spec."""
    names: list[str] = []
    for task, found in _each(folder, spec):
        if found is None:
            continue
        if names and list(found) != names:
            raise BadTokens(
                f"{shard_file(folder, task)} has the columns {', '.join(found)}, and others "
                f"{', '.join(names)}: a measure must give the same ones everywhere"
            )
        names = list(found)
        yield {**_point(task, spec), "seed": np.array(task.seeds), **found}


def broken(folder: Path, spec: Spec) -> list[Path]:
    """The files of results that cannot be read."""
    there = on_file(folder)
    return [
        shard_file(folder, task)
        for task, found in _each(folder, spec)
        if found is None and task.name in there
    ]


def _each(folder: Path, spec: Spec) -> Iterator[tuple[SweepTask, Columns | None]]:
    for task in kept_tasks(folder, spec):
        yield task, read_shard(folder, task)


def _point(task: SweepTask, spec: Spec) -> Columns:
    """The swept parameters of a task, each repeated for its instances."""
    count = len(task.seeds)
    return {name: np.full(count, task.point[name]) for name in spec.swept}


def write_table(folder: Path, spec: Spec, file: Path) -> int:
    """How many instances the table holds that was written, in one move: csv, or parquet."""
    check_table(file, folder)
    write = _write_csv if file.suffix == ".csv" else _write_parquet
    with beside(file) as target:
        return write(parts_of(folder, spec), target)


def check_table(file: Path, folder: Path) -> None:
    """Raises unless a table can be written to the file; the folder of the sweep may not be there
    yet."""
    if file.is_dir() or not (file.parent.is_dir() or file.parent == folder):
        raise BadTokens(f"{file} cannot be written: give the name of a file in a folder")
    if file.suffix not in (".csv", ".parquet"):
        raise Unsupported(f"a table is a .csv or a .parquet file; this is {file.name}")
    if file.suffix == ".parquet":
        _parquet()


def _write_csv(parts: Iterator[Columns], target: Path) -> int:
    count = 0
    with target.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for columns in parts:
            if count == 0:
                writer.writerow(columns)
            writer.writerows(zip(*map(_texts, columns.values()), strict=True))
            count += len(columns["seed"])
    return count


def _texts(column: Any) -> list[Any]:
    """Values as a file shows them: truth as 0 and 1, numbers with all their digits."""
    values = column.astype(int) if column.dtype.kind == "b" else column
    return list(values.tolist())


def _parquet() -> Any:
    """pyarrow with its module for parquet; raises Unsupported where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"pyarrow is not installed: {install('parquet')}, or write a .csv"
        ) from error
    return pyarrow


def _write_parquet(parts: Iterator[Columns], target: Path) -> int:
    pyarrow = _parquet()
    count = held = 0
    waiting: list[Columns] = []
    writer: Any = None

    def flush() -> None:
        nonlocal writer, held
        joined = {name: np.concatenate([p[name] for p in waiting]) for name in waiting[0]}
        table = pyarrow.table(joined)
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(target, table.schema)
        writer.write_table(table)
        waiting.clear()
        held = 0

    for columns in parts:
        waiting.append(columns)
        held += len(columns["seed"])
        count += len(columns["seed"])
        if held >= _ROWS:
            flush()
    if waiting:
        flush()
    if writer is not None:
        writer.close()
    return count
