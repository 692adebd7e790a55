"""Records: one JSON-lines file a run, under the day it began, never written to again.

A run writes line by line beside its file, under a name that ends in `.part`, and renames it when
it is complete: what has its final name is whole, and no run touches the file of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from attsvm.errors import BadTokens


class Record:
    """A record being written; `path` is the name it takes when it is complete."""

    def __init__(self, path: Path, stream: IO[str]) -> None:
        """A record that goes to this stream."""
        self.path = path
        self._stream = stream

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Write one line: its kind ('run', 'measurement' or 'row') and what it says."""
        line = json.dumps({"kind": kind, **content}, allow_nan=False, ensure_ascii=False)
        self._stream.write(line + "\n")
        self._stream.flush()


@contextmanager
def recording(out: Path, moment: datetime) -> Iterator[Record]:
    """A record under out/DATE/TIME.jsonl, renamed to that name when the block ends well."""
    folder = out / f"{moment:%Y-%m-%d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, stream = _claim(folder, f"{moment:%H%M%S}")
    except OSError as error:
        raise BadTokens(f"no result can be written under {out}: {error.strerror}") from error
    with stream:
        yield Record(path, stream)
    Path(stream.name).rename(path)


def _claim(folder: Path, stem: str) -> tuple[Path, IO[str]]:
    """A free name in the folder and the file beside it, opened so that no other run takes both."""
    count = 1
    while True:
        path = folder / (f"{stem}.jsonl" if count == 1 else f"{stem}-{count}.jsonl")
        part = path.with_suffix(".jsonl.part")
        count += 1
        if path.exists():
            continue
        try:
            return path, part.open("x", encoding="utf-8")
        except FileExistsError:
            continue
