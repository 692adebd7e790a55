"""The table of limits in docs/theory.md, made of the table that `attsvm.predict` reads."""

import re

from attsvm.theory.limits import TABLE, LimitRow
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "theory.md"
PLACE = re.compile(r"(<!-- limits -->\n).*?(<!-- /limits -->)", re.S)


def cell(row: LimitRow) -> str:
    """One limit in a few letters."""
    if row.norm is None:
        return "—"
    marks = {
        "proved": f"**{row.norm}**",
        "path-only": f"*path* {row.norm}",
        "measured": f"*seen* {row.norm}",
    }
    return marks.get(row.status, row.norm)


def table() -> str:
    """The table: a line per optimizer, a column per model."""
    models = list(dict.fromkeys(model for model, _ in TABLE))
    optimizers = list(dict.fromkeys(optimizer for _, optimizer in TABLE))
    lines = ["| optimizer | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for optimizer in optimizers:
        cells = [
            cell(TABLE[model, optimizer]) if (model, optimizer) in TABLE else "—"
            for model in models
        ]
        name = f"{optimizer}:P" if optimizer in ("mirror", "nmirror") else optimizer
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def refreshed(page: str) -> str:
    """The page with the table as it is now."""
    return PLACE.sub(lambda m: m[1] + table() + m[2], page)
