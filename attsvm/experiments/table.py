"""Tables of rows: columns by name, as a DataFrame, and in files that keep every digit.

A table is written as CSV: numbers with all their digits, truth as True and False, NaN as an empty
field. The kind of each column is kept beside it (`kinds_of`), so that texts of digits stay texts.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def check_columns(found: Any, who: str, count: int) -> Columns:
    """The columns that a measure returned; raise Unsupported where they break the contract."""
    if not isinstance(found, Mapping):
        raise Unsupported(
            f"{who} returns a dict of columns; this is of type {type(found).__name__}"
        )
    out: Columns = {}
    rows = len(found["seed"]) if "seed" in found else count
    for name, values in found.items():
        column = np.asarray(values)
        if column.dtype.kind not in _KINDS and not (column.size == 0):
            raise Unsupported(
                f"{who} gives {name} of type {column.dtype}: numbers, texts or truth values"
            )
        if column.shape != (rows,):
            raise Unsupported(
                f"{who} gives {name} of shape {column.shape}: one value per instance, {rows} here"
            )
        out[str(name)] = column
    return out


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


def joined(parts: list[Columns], who: str) -> Columns:
    """The rows of all parts, one after another; each has the same columns."""
    filled = [part for part in parts if len(next(iter(part.values()), ()))]
    if not filled:
        return parts[0] if parts else {}
    names = list(filled[0])
    for part in filled:
        if list(part) != names:
            raise BadTokens(
                f"{who} has the columns {', '.join(part)} in some chunks and {', '.join(names)} "
                "in others: a measure gives the same ones everywhere"
            )
    return {name: np.concatenate([part[name] for part in filled]) for name in names}


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
        try:
            out[name] = _column(frame[name].to_numpy(dtype=str), kind)
        except ValueError as error:
            raise BadTokens(f"{file}: column {name} holds what is no {kind} ({error})") from error
    return out


def _column(texts: Any, kind: str) -> Any:
    if kind == "truth":
        if not np.isin(texts, ("True", "False")).all():
            raise ValueError("True and False are")
        return texts == "True"
    if kind == "whole":
        return np.array([int(text) for text in texts], dtype=np.int64)
    if kind == "number":
        return np.array([float(text) if text else np.nan for text in texts])
    return texts


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
