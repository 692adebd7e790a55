"""Labelled text of one's own: a CSV file with the columns text and label."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import check_in
from attsvm.datasets.labelled.parts import ALL, Counts, Labelled, Part, by_hash, taken
from attsvm.datasets.labelled.words import words_of
from attsvm.errors import BadTokens, Unsupported

COLUMNS = ("text", "label")


def text_of_csv(file: str | Path, counts: Counts = ALL, *, words: int = 64) -> Labelled:
    """The texts of a CSV file with their labels, any words or numbers, in three parts by hash.

    The classes are the labels, in order of the alphabet, or of size where all are numbers.
    """
    file = Path(file)
    if words < 1:
        raise Unsupported(f"words is {words}: a text has at least one")
    texts, labels = _read(file)
    names = tuple(sorted(set(labels), key=_rank(labels)))
    if len(names) < 2:
        raise BadTokens(f"{file} has {len(names)} label(s): two or more are needed to tell apart")
    numbers = np.array([names.index(label) for label in labels], dtype=np.int64)
    places = taken(by_hash(texts, numbers, key=lambda t: " ".join(t).encode()), counts, str(file))
    parts = [Part([texts[k][:words] for k in part], numbers[part]) for part in places]
    return Labelled(file.name, "text", names, *parts)


def _rank(labels: list[str]) -> Callable[[str], Any]:
    """What the labels are ordered by."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return str
    return lambda label: (values[label], label)


def _read(file: Path) -> tuple[list[list[str]], list[str]]:
    """The words and the label of each row. Raises BadTokens where a row lacks one of them."""
    check_in(file, "a .csv file with the columns text and label")
    texts: list[list[str]] = []
    labels: list[str] = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            table = csv.DictReader(stream, strict=True)
            lacking = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if lacking:
                raise BadTokens(
                    f"{file} has no column {lacking[0]}: its first line must name text and label"
                )
            for row in table:
                text, label = row["text"], row["label"]
                if text is None or label is None or not label.strip():
                    raise BadTokens(f"{file}, line {table.line_num}: the label is missing")
                found = words_of(text)
                if not found:
                    raise BadTokens(f"{file}, line {table.line_num}: the text has no word")
                texts.append(found)
                labels.append(label.strip())
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokens(f"{file} cannot be read as CSV in UTF-8 ({error})") from error
    if not texts:
        raise BadTokens(f"{file} has no row below its first line")
    return texts, labels
