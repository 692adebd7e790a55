"""Folders of reproductions that never ran: made-up records, pictures and moving pictures."""

import json
from pathlib import Path
from typing import Any

from attsvm.experiments.reproduce.folder import create_folder

# Two parts with the names that every picture uses, one part referring to the other.
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
    """A record of a claim that does not exist."""
    paper = name.partition(".")[0]
    return {
        "id": name, "paper": paper, "title": f"Title of {name}", "kind": "figure", "trust": "code",
        "statement": "What is said.", "verdict": "holds", "premises": "3 of 4 instances",
        "numbers": [
            {"what": "cosine", "seen": 0.99999, "asked": "≥ 0.9", "met": True},
            {"what": "norm", "seen": "inf", "asked": "", "met": None},
        ],
        "judged": 3, "gap": 1e-12, "reason": "", "differs": "", "numbered": "v1, Theorem 4",
        "size": "half of the instances",
        "reference": "tarzanagh2023maxmargin", "hash": "0123456789ab", "version": "0.0.1",
        "config": {"steps": 3}, "digest": "d", "quick": True, "seconds": 1.25, "cpu_seconds": 1.0,
        "compile_seconds": 40.0,
        **changes,
    }  # fmt: skip


PATHS = {
    "title": "Two paths", "steps": [0, 10, 1000], "kinds": ["token 0", "token 1"],
    "across": "first", "up": "second", "trail": True,
    "tracks": [
        {"name": "start one", "x": [0.0, 1.0, 4.0], "y": [0.0, 2.0, None], "kind": "001"},
        {"name": "start two", "x": [1.0, 1.5, 9.0], "y": [0.5, 0.5, 3.0], "kind": "1"},
    ],
    "lines": [["limit", [0.0, 10.0], [0.0, 5.0]]], "points": [["token 0", 1.0, 1.0]],
}  # fmt: skip
BASINS = {
    "title": f"Basins {EVIL}", "steps": [0, 1, 2], "kinds": ["token 0", "token 1"], "across": "a",
    "up": "b", "trail": False,
    "tracks": [
        {"name": f"start {x} {y}", "x": [x], "y": [y], "kind": "001"}
        for x in (0.0, 1.0) for y in (0.0, 1.0)
    ],
    "lines": [], "points": [],
}  # fmt: skip


def made_up(folder: Path) -> Path:
    """A folder with four records: held, failed with markup for text, undecided, and beyond."""
    records = [
        record("A.paths"),
        record("A.markup", title=EVIL, statement=EVIL, verdict="fails", reason=EVIL, differs=EVIL,
               premises=EVIL, config={"x": EVIL}),
        record("B.basins", kind="theorem", verdict="undecided", gap=None, numbers=[]),
        record("beyond.plain", seconds=0.5),
    ]  # fmt: skip
    create_folder(folder)
    (folder / "results.json").write_text(json.dumps(records))
    for entry in records[:3]:
        (folder / "figures" / f"{entry['id']}.svg").write_text(SVG)
        (folder / "figures" / f"{entry['id']}.png").write_bytes(PNG)
    (folder / "claims" / "A.paths.motion.json").write_text(json.dumps(PATHS))
    (folder / "claims" / "B.basins.motion.json").write_text(json.dumps(BASINS))
    return folder
