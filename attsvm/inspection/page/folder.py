"""The folder of an inspection: results.json and report.html, each written in one move."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from attsvm._utils.files import disk_space, write_json, write_text
from attsvm._utils.version import __version__
from attsvm.errors import BadTokens
from attsvm.inspection.checkpoints import read_json
from attsvm.inspection.page.document import render

RESULTS, PAGE = "results.json", "report.html"
# What results.json says it is.
KIND = "attsvm inspection 1"


def check_folder(folder: Path) -> None:
    """Raises BadTokens where an inspection cannot be written: a file, or files of others."""
    if folder.exists() and not folder.is_dir():
        raise BadTokens(f"{folder} is a file; --out is a folder")
    _try_to_write(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        known = read_json(folder / RESULTS).get("kind") == KIND
    except BadTokens:
        known = False
    if not known:
        raise BadTokens(f"{folder} holds files that no inspection wrote: give a new folder")


def _try_to_write(folder: Path) -> None:
    """Raises BadTokens where a file cannot be made in the folder; leaves nothing behind."""
    new = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadTokens(f"{folder} cannot be written to ({why}): give another folder") from error
    finally:
        for place in new:
            if place.is_dir():
                place.rmdir()


def write_folder(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write the report and its page; returns the page's file."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with disk_space(folder):
            page = render(report)
            write_json(folder / RESULTS, {"kind": KIND, "version": __version__, **report})
            write_text(folder / PAGE, page)
    except OSError as error:
        raise BadTokens(f"{folder} cannot be written to: {error.strerror}") from error
    return folder / PAGE
