"""Digests of saved arrays: whether a file is still the one that a record was written for."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

from attsvm.reproduce.folder import Record, rerun_command

# A record's digests of its arrays are under this name.
DIGESTS = "arrays"


def array_digests(file: Path) -> dict[str, str]:
    """SHA-256 of every array of an .npz file, by name: of its bytes as the archive holds them."""
    with zipfile.ZipFile(file) as archive:
        return {
            name.removesuffix(".npy"): hashlib.sha256(archive.read(name)).hexdigest()
            for name in sorted(archive.namelist())
        }


def misfits(file: Path, record: Record) -> list[str]:
    """What of the arrays on file does not fit the digests in the record, one sentence each.

    A record without digests fits nothing: it says what to do.
    """
    known: Any = record.get(DIGESTS)
    command = rerun_command(record)
    redo = f"run it again (`{command} --again`)"
    if not isinstance(known, dict):
        return [
            f"{file.name} was saved without digests, by an older version: {redo}, or compare it "
            f"with a rerun (`{command} --audit`)"
        ]
    found = array_digests(file)
    names = [name for name in {**known, **found} if known.get(name) != found.get(name)]
    if not names:
        return []
    more = f" and {len(names) - 1} more do not fit their digests" if len(names) > 1 else ""
    verb = "" if more else " does not fit its digest"
    return [
        f"{file.name} was changed after the run: the array {names[0]}{verb}{more} in "
        f"{record['id']}.json; {redo}"
    ]
