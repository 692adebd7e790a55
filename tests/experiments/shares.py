"""docs/shares.md: every cell of v1, Figures 5 and 6, ours beside the published share.

`python -m tests.experiments.shares FOLDER…` counts the runs in reproductions, of any
number of instances, keeps the counts in tests/experiments/shares.json and writes
the tables of the page; without a folder they are written from the counts on file. The words before
the tables are those of the page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas

from attsvm.experiments.binomial import interval, most_spread, spread
from attsvm.experiments.studies.b.shares_against_dimension import (
    DIMENSIONS_5,
    DIMENSIONS_6,
    LEVEL,
    ShareCell,
    apart,
    cells_5,
    cells_6,
)
from tests.conventions.tree import ROOT
from tests.experiments.listed import write

PAGE = ROOT / "docs" / "shares.md"
FIGURES = ("B.ends-against-dimension", "B.global-share-against-dimension")
COUNTS = ROOT / "tests" / "experiments" / "shares.json"


def counted(folder: Path) -> dict[str, Any]:
    """The cells of both figures in a folder, as JSON holds them, by number of instances."""
    out: dict[str, Any] = {}
    for name in FIGURES:
        file = folder / "tables" / f"{name}.csv"
        if file.exists():
            out |= of_table(name, pandas.read_csv(file))
    return out


def of_table(name: str, table: pandas.DataFrame) -> dict[str, Any]:
    """The cells of the table of a study, under the name of their figure and number of instances."""
    if name == FIGURES[0]:
        tables = {
            "5 as published": cells_5(table, certified=False),
            "5 certified": cells_5(table, certified=True),
        }
    else:
        tables = {"6": cells_6(table)}
    trials = {title: cells[0].trials for title, cells in tables.items()}
    return {
        f"{title}, {trials[title]}": [[c.name, c.count, c.trials, c.published] for c in cells]
        for title, cells in tables.items()
    }


def _row(cells: list[ShareCell], marked: list[ShareCell]) -> str:
    """One line of a table: share, interval, published share."""
    out = []
    for cell in cells:
        low, high = interval(cell.count, cell.trials)
        text = f"{cell.share:.3f} ({low:.2f}–{high:.2f}) / {cell.published:.3f}"
        out.append(f"**{text}**" if cell in marked else text)
    return " | ".join(out)


def _table(title: str, rows: list[list[Any]]) -> str:
    cells = [ShareCell(*row) for row in rows]
    marked = apart(cells)
    figure, trials = title.rsplit(", ", 1)
    dimensions = DIMENSIONS_6 if figure == "6" else DIMENSIONS_5
    heads = {
        "5 as published": "Figure 5, not local: attention below 0.999 at step 1,000",
        "5 certified": "Figure 5, not local: not certified locally optimal at step 2,000",
        "6": "Figure 6, share of runs at the best tokens at step 2,000",
    }
    lines = [
        f"\n## {heads[figure]}: {trials} instances\n",
        "Ours (95 % interval) / published.\n",
        "| d = | " + " | ".join(map(str, dimensions)) + " |",
        "|---|" + "---|" * len(dimensions),
    ]
    groups: dict[str, list[ShareCell]] = {}
    for cell in cells:
        groups.setdefault(cell.name.rpartition(" ")[0], []).append(cell)
    for family in ("W", "KQ"):
        for name, row in groups.items():
            if name.split()[0] == family:
                lines.append(f"| {name} | {_row(row, marked)} |")
    said = ", ".join(cell.name for cell in marked) or "none"
    lines.append(f"\nCells that differ: {said}.")
    if figure == "6":  # the bars of Figure 5 are several counts of the same runs
        total, count = spread([cell.pair for cell in cells])
        most = most_spread(count, LEVEL)
        lines.append(f"Σ z² of the {count} cells with at least five of both ends expected:")
        lines.append(f"{total:.1f}; 1 % of equal shares are above {most:.1f}.")
    return "\n".join(lines)


def page(counts: dict[str, Any]) -> str:
    """The whole page, its words as they are."""
    words = PAGE.read_text("utf-8").split("\n\n## Figure ")[0]
    order = sorted(counts, key=lambda title: (title.split(",")[0], int(title.rsplit(" ", 1)[1])))
    return words + "\n" + "\n".join(_table(title, counts[title]) for title in order) + "\n"


if __name__ == "__main__":
    kept: dict[str, Any] = json.loads(COUNTS.read_text("utf-8")) if COUNTS.exists() else {}
    for folder in sys.argv[1:]:
        kept |= counted(Path(folder))
    COUNTS.parent.mkdir(exist_ok=True)
    rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(kept.items()))
    write(COUNTS, "{\n" + rows + "\n}\n")
    write(PAGE, page(kept))
