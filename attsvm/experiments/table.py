"""Tables of rows: columns by name, as a DataFrame, and in files that keep every digit.

A table is written as CSV: numbers with all their digits, truth as True and False, NaN as an empty
field. The kind of each column is kept beside it (`kinds_of`), so that texts of digits stay texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.files import beside
from attsvm._utils.version import install
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from pandas import DataFrame

Columns = dict[str, Any]  # name: values, one per row
_KINDS = {"b": "truth", "i": "whole", "u": "whole", "f": "number", "U": "text"}
_NONE: dict[str, Any] = {"truth": False, "whole": np.nan, "number": np.nan, "text": ""}
# How the texts of a column are read, to the last digit, and its type.
_READ: dict[str, tuple[Callable[[str], Any], Any]] = {
    "truth": ({"True": True, "False": False}.__getitem__, bool),
    "whole": (int, np.int64),
    "number": (lambda text: float(text) if text else np.nan, np.float64),
    "text": (str, str),
}


def check_columns(found: Any, who: str, count: int) -> Columns:
    """The columns that a measure returned; raise Unsupported where they break the contract.

    found: columns, or a list of parts with columns of their own; a single value stands for every
    row of its part.
    """
    if isinstance(found, list):
        return joined([check_columns({"seed": [], **part}, who, count) for part in found])
    if not isinstance(found, Mapping):
        raise Unsupported(
            f"{who} returns a dict of columns; this is of type {type(found).__name__}"
        )
    columns = {str(name): np.asarray(values) for name, values in found.items()}
    sizes = [column.size for column in columns.values()]
    rows = max(sizes, default=0) if "seed" in columns else count
    for name, column in columns.items():
        if column.dtype.kind not in _KINDS and column.size:
            raise Unsupported(
                f"{who} gives {name} of type {column.dtype}: numbers, texts or truth values"
            )
        if column.shape not in ((), (rows,)):
            raise Unsupported(
                f"{who} gives {name} of shape {column.shape}: one value per instance, {rows} here"
            )
        columns[name] = np.broadcast_to(column, rows)
    return columns


def as_frame(columns: Mapping[str, Any]) -> DataFrame:
    """The columns as a DataFrame."""
    import pandas

    # Texts as Python texts: pandas compares and groups them by value.
    plain = {name: values.astype(object) if values.dtype.kind == "U" else values
             for name, values in columns.items()}  # fmt: skip
    return pandas.DataFrame(plain)


def kinds_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """The kind of each column: truth, whole, number or text."""
    return {name: _KINDS.get(values.dtype.kind, "number") for name, values in columns.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, one after another; NaN, False or "" where a part lacks a column."""
    filled = [part for part in parts if len(next(iter(part.values()), ()))]
    if not filled:
        return parts[0] if parts else {"seed": np.empty(0, dtype=np.int64)}
    kinds = {name: kind for part in filled for name, kind in kinds_of(part).items()}
    rows = [len(next(iter(part.values()))) for part in filled]
    return {
        name: np.concatenate([
            part[name] if name in part else np.full(count, _NONE[kind])
            for part, count in zip(filled, rows, strict=True)
        ])
        for name, kind in kinds.items()
    }  # fmt: skip


def read_csv(file: Path, kinds: Mapping[str, str]) -> Columns:
    """The columns of a CSV file, of these kinds; raise BadTokens where it holds others."""
    import pandas

    try:
        frame = pandas.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise BadTokens(f"{file} cannot be read as a table ({error})") from error
    if list(frame.columns) != list(kinds):
        raise BadTokens(
            f"{file} has the columns {', '.join(map(str, frame.columns))}, not {', '.join(kinds)}"
        )
    out: Columns = {}
    for name, kind in kinds.items():
        read, dtype = _READ[kind]
        try:
            out[name] = np.array([read(text) for text in frame[name]], dtype=dtype)
        except (KeyError, ValueError) as error:
            raise BadTokens(f"{file}: column {name} holds what is no {kind} ({error})") from error
    return out


def check_table(file: Path) -> None:
    """Raise unless a table can be written to the file."""
    if file.is_dir() or not file.parent.is_dir():
        raise BadTokens(f"{file} cannot be written: give the name of a file in a folder")
    if file.suffix not in (".csv", ".parquet"):
        raise Unsupported(f"a table is a .csv or a .parquet file; this is {file.name}")
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise Unsupported(f"pyarrow is not installed: {install('parquet')}, or write a .csv")


def write_table(file: Path, columns: Mapping[str, Any]) -> None:
    """Write a table in one move: csv, or parquet by the file's ending."""
    check_table(file)
    frame = as_frame(columns)
    with beside(file) as target:
        if file.suffix == ".parquet":
            frame.to_parquet(target, index=False)
        else:
            frame.to_csv(target, index=False, lineterminator="\n")
