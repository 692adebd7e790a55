"""The folder of an inspection: results.json and report.html, each written in one move."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attsvm.errors import BadTokens
from attsvm.ground.records import disk_space, write_json, write_text
from attsvm.lens.page.document import render

RESULTS, PAGE = "results.json", "report.html"
# What results.json says it is.
KIND = "attsvm inspection 1"


def check_folder(folder: Path) -> None:
    """Raises BadTokens where an inspection cannot be written: a file, or files of others."""
    if folder.exists() and not folder.is_dir():
        raise BadTokens(f"{folder} is a file; --out is a folder")
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadTokens(f"{folder} cannot be written to: {there} is closed, or no folder")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        written = json.loads((folder / RESULTS).read_text("utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        written = None
    if written != KIND:
        raise BadTokens(f"{folder} holds files that no inspection wrote: give a new folder")


def write_folder(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write the report and its page; returns the page's file."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with disk_space(folder):
            page = render(report)
            write_json(folder / RESULTS, {"kind": KIND, **report})
            write_text(folder / PAGE, page)
    except OSError as error:
        raise BadTokens(f"{folder} cannot be written to: {error.strerror}") from error
    return folder / PAGE
