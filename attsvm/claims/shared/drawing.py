"""What the pictures of claims share: an empty figure in the house style, and curves over steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.figures.style import DPI, FAINT, INK, SIZE

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
