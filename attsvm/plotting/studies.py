"""The pictures of experiments: phase diagrams, curves with bands of 95 % intervals, hunts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.plotting import style
from attsvm.plotting.style import (
    DPI,
    FAINT,
    INK,
    SIZE,
    check_format,
    write_figure,
)


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
class Labels:
    """The texts of a picture: along x, along y, for the colour or the line, and above it all."""

    x: str
    y: str
    value: str = ""
    title: str = ""


# Distinct under every common colour blindness (Okabe and Ito).
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111111")


def panels(columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row."""
    size = options.pop("figsize", (SIZE[0], SIZE[1] * (1.0 if rows == 1 else 0.8 * rows)))
    figure = Figure(figsize=size, dpi=DPI, layout=ConstrainedLayoutEngine())
    parts = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [axes for line in parts for axes in line]


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


def grid(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, at most three to a row."""
    columns = min(count, 3 if count != 4 else 2)
    rows = -(-count // columns)
    size = (min(4.4 * columns, 12.0) + 1.2, 3.6 * rows + 0.5)
    figure = Figure(figsize=size, dpi=DPI, layout=ConstrainedLayoutEngine())
    axes = figure.subplots(rows, columns, squeeze=False)
    listed = [ax for row in axes for ax in row]
    for spare in listed[count:]:
        spare.remove()
    return figure, listed[:count]


def phase_figure(maps: Sequence[Map], labels: Labels) -> Figure:
    """Shares as colours over two parameters, one panel for each value of a third."""
    figure, axes = grid(len(maps))
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
        ax.set(xlabel=labels.x, ylabel=labels.y, title=one.title)
        if one.line:
            # Formulas are in the values of y, and places count them.
            places = np.interp(one.line, one.y, np.arange(len(one.y)), left=np.nan, right=np.nan)
            ax.plot(
                np.arange(len(one.x)), places, color="#d55e00", linewidth=1.8, marker=".",
                label=labels.title,
            )  # fmt: skip
            ax.legend(loc="lower right", fontsize=7.5, framealpha=0.9)
    if image is not None:
        figure.colorbar(image, ax=axes).ax.set_ylabel(labels.value)
    return figure


def _ticks(values: Sequence[Any]) -> tuple[list[int], list[str]]:
    """At most about twelve places, named by their values."""
    step = max(1, -(-len(values) // 12))
    places = list(range(0, len(values), step))
    return places, [str(values[k]) for k in places]


def curve_figure(panels: Sequence[Panel], labels: Labels, *, log: bool | str = False) -> Figure:
    """Lines with bands over one parameter, one panel for each value of another."""
    figure, axes = grid(len(panels))
    marked = False
    for ax, panel in zip(axes, panels, strict=True):
        for k, curve in enumerate(panel.curves):
            colour = CYCLE[k % len(CYCLE)]
            texts = any(isinstance(x, str) for x in curve.x)
            x = np.arange(len(curve.x)) if texts else np.array(curve.x, dtype=float)
            ax.fill_between(x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
            mark = "." if len(x) <= 40 else ""
            ax.plot(x, curve.middle, color=colour, marker=mark, label=curve.name)
            if curve.marks:
                marked = True
                ax.plot(x, curve.marks, "x", color=colour, markersize=6, markeredgewidth=1.6)
            if texts:
                ax.set_xticks(x, [str(name) for name in curve.x])
        if "y" in str(log):
            ax.set_yscale("log")
        if log is True or "x" in str(log):
            places = sorted({x for curve in panel.curves for x in curve.x})
            ax.set_xscale("log")
            if len(places) <= 12:
                ax.set_xticks(places, [f"{x:g}" for x in places])
                ax.minorticks_off()
        ax.set(xlabel=labels.x, ylabel=labels.y, title=panel.title)
    if marked:
        axes[0].plot([], [], "x", color=INK, markersize=6, markeredgewidth=1.6, label="published")
    named = axes[0].get_legend_handles_labels()
    if len(named[0]) > 1:
        figure.legend(*named, loc="outside right center", frameon=False)
    return figure


def draw_hunt(
    file: Path, arrays: Mapping[str, Any], rises: Sequence[tuple[int, float]], *, title: str
) -> None:
    """Write the picture of a hunt, in one move, in the format of the file's ending.

    arrays: the instance by the names of a problem file, empty where nothing was found. rises:
    (tried, largest violation so far).
    """
    check_format(file)
    with style.styled():
        figure = Figure(figsize=(8.0, 3.8), layout="constrained")
        style.headline(figure, title)
        *left, right = figure.subplots(1, 2 if "X" in arrays else 1, squeeze=False)[0]
        for axes in left:
            _draw_instance(axes, arrays)
        right.set(title="Largest violation so far", xlabel="instances tried", ylabel="violation")
        right.axhline(0.0, color=FAINT, linewidth=1.0, zorder=0)
        if rises:
            right.set_xscale("log")
            right.set_yscale("symlog", linthresh=1e-3)
            right.step(*np.transpose(rises), where="post", color=CYCLE[0], marker=".")
        else:
            right.set_title("No instance met the premises")
        write_figure(figure, file)


def _draw_instance(axes: Axes, arrays: Mapping[str, Any]) -> None:
    """Tokens in the plane, rings round those of the highest score, and the start p0; tokens of
    other dimensions as a table of entries."""
    X = np.asarray(arrays["X"], dtype=np.float64)
    n, T, d = X.shape
    names = [f"{i}.{t}" for i in range(n) for t in range(T)]
    if d != 2:
        flat = X.reshape(n * T, d)
        most = 2 * max(float(np.abs(flat).max()), 1.0)
        axes.imshow(flat, cmap="PuOr", vmin=-most, vmax=most, aspect="auto")
        for (row, column), x in np.ndenumerate(flat):
            axes.text(column, row, f"{x:g}", ha="center", va="center", fontsize=8)
        axes.set_yticks(range(n * T), names)
        axes.set(title="Tokens", xlabel="dimension", ylabel="input.token", xticks=range(d))
        return
    labels = arrays.get("y", np.ones(n))
    scores = labels[:, None] * (X @ arrays["v"]) if "v" in arrays else None
    for i, tokens in enumerate(X):
        axes.plot(
            *tokens.T, "o", color=CYCLE[i % len(CYCLE)], label=f"input {i}, y = {labels[i]:g}"
        )
        best = 0 if scores is None else int(scores[i].argmax())
        axes.plot(*tokens[best], "o", color=style.INK, markersize=13, fillstyle="none")
    for k, (name, (x, y)) in enumerate(zip(names, X.reshape(-1, 2), strict=True)):
        score = "" if scores is None else f" ({scores.ravel()[k]:g})"
        axes.annotate(name + score, (x, y), (7, 6), textcoords="offset points", fontsize=7)
    if "p0" in arrays and np.any(arrays["p0"]):
        p = 0.8 * np.abs(X).max() * np.asarray(arrays["p0"]) / np.linalg.norm(arrays["p0"])
        axes.quiver(0, 0, *p, angles="xy", scale_units="xy", scale=1, label="direction of p0")
    kept = "kept" if scores is None else "best"
    axes.set(title=f"Tokens input.token (score), ring: {kept}", xlabel="x₁", ylabel="x₂")
    axes.margins(0.25)
    axes.legend(frameon=False, fontsize=7)
