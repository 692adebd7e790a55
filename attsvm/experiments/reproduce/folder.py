"""The folder that a page is drawn from: its files, read with care and written in one move.

attsvm.json          the stamp of a RunFolder
claims/ID.npz        what was measured
claims/ID.json       the record: config, verdict, numbers; written last, so it vouches for all
runs/NAME.npz        a training run of claims on real data, named by its plan and code
claims/ID.motion.json  the moving picture, where there is one
figures/ID.svg, .png the pictures
results.json         every record
report.html          the page
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attsvm._utils.files import Say, parse_json, write_json, writing_to
from attsvm._utils.run_folder import RunFolder
from attsvm.errors import BadTokens

KIND = "reproduction"
PAGE = "report.html"
RESULTS = "results.json"
# How the names of a claim's pictures end.
PICTURES = (".svg", ".png")
# A record of a claim from outside the package has the file it was read from under this name.
OUTSIDE = "from"
# What a killed run left half-written is removed when it is older than this, in seconds.
STALE = 3600.0

Record = dict[str, Any]

# What every record must hold to be shown.
_NEEDED = {"id", "paper", "title", "verdict", "config"}


def create_folder(folder: Path) -> Path:
    """The folder, made or resumed: one with anything else in it is refused."""
    return RunFolder(folder, KIND).create("claims", "figures", "runs", stale=STALE)


def open_folder(folder: Path) -> Path:
    """The folder, left as it is: one that no reproduction made is refused."""
    RunFolder(folder, KIND).open()
    return folder


def read_record(file: Path, say: Say) -> Record | None:
    """The record in this file; None when there is none. A broken one is kept aside and named."""
    if not file.exists():
        return None
    try:
        record = parse_json(file.read_text("utf-8"))
    except ValueError:
        record = None
    if _whole(record):
        return dict(record)
    set_aside(file, say)
    return None


def gather(folder: Path, ids: Iterable[str], say: Say) -> list[Record]:
    """The records on file in the order of the ids, then those of claims from outside the package.

    results.json is written from them.
    """
    first = list(ids)
    listed = sorted(file.stem for file in (folder / "claims").glob("*.json") if _is_record(file))
    others = [name for name in listed if name not in first]
    found = [read_record(folder / "claims" / f"{name}.json", say) for name in (*first, *others)]
    records = [r for r in found if r is not None and (r["id"] in first or OUTSIDE in r)]
    with writing_to(folder):
        write_json(folder / RESULTS, records)
    return records


def read_results(folder: Path) -> list[Record]:
    """The records of results.json."""
    file = folder / RESULTS
    if not file.exists():
        raise BadTokens(f"{folder} has no {RESULTS}; `attsvm reproduce --out {folder}` writes it")
    try:
        records = parse_json(file.read_text("utf-8"))
    except ValueError as error:
        raise BadTokens(f"{file} cannot be read ({error}); `attsvm report` rewrites it") from error
    if not isinstance(records, list) or not all(map(_whole, records)):
        raise BadTokens(f"{file} is not a list of records; `attsvm report` rewrites it")
    return records


def rerun_command(record: Record) -> str:
    """The command that runs the claim of a record."""
    source = f" --from {record[OUTSIDE]}" if OUTSIDE in record else ""
    return f"attsvm reproduce {record['id']}{source}"


def proof_words(record: Record) -> str:
    """How surely the solutions that the claim uses are proved."""
    gap = record.get("gap")
    if not isinstance(gap, int | float) or not math.isfinite(gap):
        return "not certified"
    return f"certified gap at most {gap:.1e}" if gap else "no solution is used"


def judged_words(record: Record) -> str:
    """The claim, its verdict, its config and how surely its solutions are proved, in one line."""
    config = f"config {record['hash']}" if record.get("hash") else ""
    words = (record["id"], record["verdict"], config, proof_words(record))
    return " · ".join(str(word) for word in words if word)


def _is_record(file: Path) -> bool:
    return not file.name.endswith(".motion.json")


def _whole(record: Any) -> bool:
    """Whether this is a record with the parts that a page needs, of the kinds it needs."""
    if not isinstance(record, dict) or not set(record) >= _NEEDED:
        return False
    numbers = record.get("numbers", [])
    return isinstance(numbers, list) and all(isinstance(row, dict) for row in numbers)


def set_aside(file: Path, say: Say) -> None:
    """Move a broken file out of the way, its content kept, and say so."""
    if file.exists():
        kept = file.with_name(f"{file.name}.broken")
        os.replace(file, kept)
        say(f"{file} cannot be read: kept aside as {kept.name}")
