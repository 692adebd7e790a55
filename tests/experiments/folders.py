"""Folders of results that never ran: made-up records and figures."""

import json
from pathlib import Path
from typing import Any

from attsvm.experiments.runner import FOLDERS, results_folder

# Two parts with the names that every figure uses, one part referring to the other.
SVG = """<?xml version="1.0" encoding="utf-8"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="72pt" height="36pt" viewBox="0 0 72 36">
<metadata>drawn</metadata>
<defs><style type="text/css">*{stroke-linejoin: round}</style>
<clipPath id="p1"><rect x="0" y="0" width="36" height="36"/></clipPath>
<path id="m1" d="M 10.123456 0 L 3 3" style="stroke: #0072b2"/></defs>
<g id="axes_1" onclick="alert(2)"><script>alert(3)</script>
<use xlink:href="#m1" x="5" y="5" style="fill: #222222"/>
<path d="M 0 0 L 72 36" clip-path="url(#p1)" style="fill: none; stroke: #ffffff"/>
<image width="1" height="1" xlink:href="https://example.org/x.png"/></g></svg>
"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ff"
    "ff3f0005fe02fe0def46b80000000049454e44ae426082"
)
EVIL = "<script>alert(1)</script>"


def record(name: str, **changes: Any) -> dict[str, Any]:
    """A record of a study that does not exist."""
    paper = name.partition(".")[0]
    return {
        "id": name, "paper": paper, "title": f"Title of {name}", "kind": "figure", "source": "code",
        "statement": "What is said.", "verdict": "holds", "premises": "3 of 4 instances",
        "checks": [
            {"what": "cosine", "seen": 0.99999, "asked": "≥ 0.9", "met": True},
            {"what": "norm", "seen": "inf", "asked": "", "met": None},
        ],
        "judged": 3, "gap": 1e-12, "reason": "", "differs": "", "theorem": "v1, Theorem 4",
        "size": "half of the instances", "reference": "tarzanagh2023maxmargin", "version": "0.0.1",
        "grid": {"d": [3]}, "run": {"steps": 3}, "random": {}, "seeds": 4, "first": 0,
        "thresholds": {}, "quick": True, "seconds": 1.25, "rows": 4, "columns": {}, "from": "",
        "plan": "0123456789abcdef", "figure": True, "real": False, **changes,
    }  # fmt: skip


def made_up(folder: Path) -> Path:
    """A folder with four records: held, failed with markup for text, undecided, and beyond."""
    records = [
        record("A.paths"),
        record("A.markup", title=EVIL, statement=EVIL, verdict="fails", reason=EVIL, differs=EVIL,
               premises=EVIL, run={"x": EVIL},
               checks=[{"what": EVIL, "seen": EVIL, "asked": EVIL, "met": False}]),
        record("B.basins", kind="theorem", verdict="undecided", gap=None, checks=[]),
        record("beyond.plain", seconds=0.5, figure=False),
    ]  # fmt: skip
    results_folder(folder).create(*FOLDERS)
    (folder / "results.json").write_text(json.dumps(records))
    for entry in records:
        (folder / "studies" / f"{entry['id']}.json").write_text(json.dumps(entry))
        if entry["figure"]:
            (folder / "figures" / f"{entry['id']}.svg").write_text(SVG)
            (folder / "figures" / f"{entry['id']}.png").write_bytes(PNG)
    return folder
