"""The folder of an inspection: results.json and report.html, each written in one move."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attsvm._utils.files import write_json, write_text, writing_to
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.inspection.page.document import render

RESULTS, PAGE = "results.json", "report.html"
# What results.json says it is.
KIND = "attsvm inspection 1"


def check_folder(folder: Path) -> None:
    """Raises BadTokens where an inspection cannot be written."""
    RunFolder(folder, "inspection").check_writable()


def write_folder(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write the report and its page; returns the page's file."""
    RunFolder(folder, "inspection").create()
    with writing_to(folder):
        page = render(report)
        write_json(folder / RESULTS, {"kind": KIND, "version": __version__, **report})
        write_text(folder / PAGE, page)
    return folder / PAGE
