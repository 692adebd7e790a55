"""Pictures of sweeps: phase diagrams, and curves with bands of 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.plotting.style import COLOURS, DPI, INK

_CYCLE = list(COLOURS.values())


@dataclass(frozen=True)
class Curve:
    """One line: its name, x, and at each x the middle and the ends of its interval.

    marks: published values at the same x, nan where there is none.
    """

    name: str
    x: list[Any]
    middle: list[float]
    low: list[float]
    high: list[float]
    marks: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """The curves of one panel."""

    title: str
    curves: list[Curve]


@dataclass(frozen=True)
class Map:
    """One panel of a phase diagram: values (y, x), nan where nothing is known; a line over x."""

    title: str
    x: list[Any]
    y: list[Any]
    values: Any
    line: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Words:
    """What a picture says: along x, along y, for the colour or the line, and above it all."""

    x: str
    y: str
    value: str = ""
    title: str = ""


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, at most three to a row."""
    columns = min(count, 3 if count != 4 else 2)
    rows = -(-count // columns)
    size = (min(4.4 * columns, 12.0) + 1.2, 3.6 * rows + 0.5)
    figure = Figure(figsize=size, dpi=DPI, layout=ConstrainedLayoutEngine())
    axes = figure.subplots(rows, columns, squeeze=False)
    listed = [ax for row in axes for ax in row]
    for spare in listed[count:]:
        spare.set_axis_off()
    return figure, listed[:count]


def phase_figure(maps: Sequence[Map], words: Words) -> Figure:
    """Shares as colours over two parameters, one panel for each value of a third."""
    figure, axes = _grid(len(maps))
    values = np.concatenate([np.ravel(m.values) for m in maps])
    known = values[np.isfinite(values)]
    share = bool(len(known)) and known.min() >= 0.0 and known.max() <= 1.0
    low, high = (0.0, 1.0) if share or not len(known) else (known.min(), known.max())
    image = None
    for ax, one in zip(axes, maps, strict=True):
        image = ax.imshow(
            np.ma.masked_invalid(one.values), origin="lower", aspect="auto", cmap="cividis",
            vmin=low, vmax=high, interpolation="nearest",
        )  # fmt: skip
        ax.set_xticks(*_ticks(one.x))
        ax.set_yticks(*_ticks(one.y))
        ax.set(xlabel=words.x, ylabel=words.y, title=one.title)
        if one.line:
            # Formulas are in the values of y, and places count them.
            places = np.interp(one.line, one.y, np.arange(len(one.y)), left=np.nan, right=np.nan)
            ax.plot(
                np.arange(len(one.x)), places, color="#d55e00", linewidth=1.8, marker=".",
                label=words.title,
            )  # fmt: skip
            ax.legend(loc="lower right", fontsize=7.5, framealpha=0.9)
    if image is not None:
        figure.colorbar(image, ax=axes).ax.set_ylabel(words.value)
    return figure


def _ticks(values: Sequence[Any]) -> tuple[list[int], list[str]]:
    """At most about twelve places, named by their values."""
    step = max(1, -(-len(values) // 12))
    places = list(range(0, len(values), step))
    return places, [str(values[k]) for k in places]


def curve_figure(panels: Sequence[Panel], words: Words, *, log: bool = False) -> Figure:
    """Lines with bands over one parameter, one panel for each value of another."""
    figure, axes = _grid(len(panels))
    marked = False
    for ax, panel in zip(axes, panels, strict=True):
        for k, curve in enumerate(panel.curves):
            colour = _CYCLE[k % len(_CYCLE)]
            texts = any(isinstance(x, str) for x in curve.x)
            x = np.arange(len(curve.x)) if texts else np.array(curve.x, dtype=float)
            ax.fill_between(x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
            ax.plot(x, curve.middle, color=colour, marker=".", label=curve.name)
            if curve.marks:
                marked = True
                ax.plot(x, curve.marks, "x", color=colour, markersize=6, markeredgewidth=1.6)
            if texts:
                ax.set_xticks(x, [str(name) for name in curve.x])
        if log:
            places = sorted({x for curve in panel.curves for x in curve.x})
            ax.set_xscale("log")
            ax.set_xticks(places, [f"{x:g}" for x in places])
            ax.minorticks_off()
        ax.set(xlabel=words.x, ylabel=words.y, title=panel.title)
    if marked:
        axes[0].plot([], [], "x", color=INK, markersize=6, markeredgewidth=1.6, label="published")
    named = axes[0].get_legend_handles_labels()
    if len(named[0]) > 1:
        figure.legend(*named, loc="outside right center", frameon=False)
    return figure
