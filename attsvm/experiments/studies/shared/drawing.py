"""What the pictures of claims share: an empty figure in the house style, and curves over steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.plotting.style import DPI, FAINT, INK, SIZE

# Distinct under every common colour blindness (Okabe and Ito).
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111111")


def panels(columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row."""
    size = options.pop("figsize", (SIZE[0], SIZE[1] * (1.0 if rows == 1 else 0.8 * rows)))
    figure = Figure(figsize=size, dpi=DPI, layout=ConstrainedLayoutEngine())
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [axes for line in grid for axes in line]


def band(axes: Axes, x: Any, y: Any, *, colour: str, label: str, linestyle: str = "-") -> None:
    """The median of y (R, B) over x (R,), with the middle half of the instances shaded."""
    low, middle, high = np.nanquantile(np.asarray(y), (0.25, 0.5, 0.75), axis=1)
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(x, middle, color=colour, label=label, linestyle=linestyle)


def level(axes: Axes, y: float, text: str = "") -> None:
    """A faint line across at a threshold, named at its right end."""
    axes.axhline(y, color=FAINT, linewidth=1.0, zorder=0)
    if text:
        axes.annotate(
            text,
            (1.0, y),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=7.5,
            color=INK,
        )


def scattered_kinds(axes: Axes, entries: dict[str, list[Any]]) -> None:
    """The entries of columns by the kind of their token, and how many of each kind are 0."""
    level(axes, 0.0)
    marks = []
    for k, (kind, exact) in enumerate(entries.items()):
        values, times = np.unique([float(v) for v in exact], return_counts=True)
        axes.scatter(
            np.full(len(values), k),
            values,
            s=6 + 160 * times / max(len(exact), 1),
            color=CYCLE[k],
            alpha=0.7,
            linewidth=0,
        )
        zero = np.mean([v == 0 for v in exact]) if exact else 0.0
        marks.append(f"{kind}\n{100 * zero:.0f} % at 0")
    axes.set_xticks(range(len(marks)), marks, fontsize=7.5)
    axes.set(
        xlabel="kind of token (area: share of its kind)",
        ylabel="entry of the solution",
        xlim=(-0.5, len(marks) - 0.5),
    )
