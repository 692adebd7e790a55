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
    COLOURS,
    DPI,
    FAINT,
    INK,
    SIZE,
    check_format,
    write_figure,
)
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

_COLOURS = list(COLOURS.values())


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
            colour = _COLOURS[k % len(_COLOURS)]
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


# Distinct under every common colour blindness (Okabe and Ito).
_CYCLE = style.CURVES[1:]
_MARKS = ("o", "s", "^", "D", "v", "P")


def draw_hunt(
    file: Path, arrays: Mapping[str, Any], rises: Sequence[tuple[int, float]], *, title: str
) -> None:
    """Write the picture of a hunt, in one move, in the format of the file's ending.

    arrays: the instance by the names of a problem file, empty where nothing was found. rises:
    (tried, largest violation so far).
    """
    check_format(file)
    with style.styled():
        figure = Figure(figsize=(8.0, 3.8), layout=ConstrainedLayoutEngine(wspace=0.07))
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.HEADING, fontweight="bold")
        if "X" in arrays:
            left, right = figure.subplots(1, 2)
            (_draw_order if "marks" in arrays else _draw_instance)(left, arrays)
        else:
            right = figure.subplots()
        _draw_rises(right, rises, found=bool(arrays))
        write_figure(figure, file)


def _draw_instance(axes: Axes, arrays: Mapping[str, Any]) -> None:
    X = np.asarray(arrays["X"], dtype=np.float64)
    if X.shape[2] > 2:
        _draw_table(axes, X)
        return
    if X.shape[2] == 1:
        X = np.concatenate([X, np.zeros_like(X)], axis=2)
        # Inputs in rows of their own: on one line they would hide each other.
        X[:, :, 1] -= np.arange(len(X))[:, None]
    labels = arrays.get("y", np.ones(len(X)))
    scores = None
    if "v" in arrays:
        scores = labels[:, None] * (np.asarray(arrays["X"]) @ arrays["v"]) + 0.0  # no −0
    places: dict[tuple[float, float], list[str]] = {}
    for i, tokens in enumerate(X):
        colour, mark = _CYCLE[i % len(_CYCLE)], _MARKS[i % len(_MARKS)]
        best = 0 if scores is None else int(scores[i].argmax())
        name = f"input {i}" + ("" if labels[i] == 1 else ", y = −1")
        axes.plot(*tokens.T, mark, color=colour, markersize=6, label=name, alpha=0.8)
        axes.plot(*tokens[best], mark, color=colour, markersize=13, fillstyle="none")
        for t, x in enumerate(tokens):
            label = f"{i}.{t}" + (
                "" if scores is None else f" ({scores[i, t]:g})".replace("-", "−")
            )
            places.setdefault((float(x[0]), float(x[1])), []).append(label)
    for place, words in places.items():
        axes.annotate("\n".join(words), place, xytext=(7, 6), textcoords="offset points",
                      fontsize=7)  # fmt: skip
    _draw_start(axes, arrays, X)
    what = "kept" if scores is None else "best"
    axes.set_title(f"Tokens input.token{'' if scores is None else ' (score)'}, ring: {what}")
    axes.set(xlabel="x₁", ylabel="x₂" if np.asarray(arrays["X"]).shape[2] > 1 else "")
    if np.asarray(arrays["X"]).shape[2] == 1:
        axes.set_yticks([])
    axes.margins(0.25)
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.16), ncol=3)


def _draw_start(axes: Axes, arrays: Mapping[str, Any], X: Any) -> None:
    """The direction of the start or point p0, as an arrow of the tokens' size."""
    if "p0" not in arrays or np.asarray(arrays["X"]).shape[2] != 2:
        return
    p = np.asarray(arrays["p0"], dtype=np.float64)
    size = float(np.linalg.norm(p))
    if size == 0:
        return
    x, y = max(float(np.abs(X).max()), 0.5) * p / size
    reach = (float(x), float(y))
    axes.plot(*reach, alpha=0.0)  # so that the arrow is inside the frame
    axes.annotate("", reach, (0, 0), arrowprops={"arrowstyle": "->", "color": style.INK})
    label = f"p₀ = ({p[0]:g}, {p[1]:g})".replace("-", "−")
    axes.annotate(label, reach, xytext=(6, -10), textcoords="offset points", fontsize=7.5)


def _draw_order(axes: Axes, arrays: Mapping[str, Any]) -> None:
    """Tokens of sentences at the height of their entry, an arrow from each to those below it."""
    X = np.asarray(arrays["X"], dtype=np.float64)
    best = solve(Problem.of(Tokens(X), [0] * len(X)))
    u = np.zeros(X.shape[2]) if best.W is None else np.asarray(best.W)[:, 0]
    for hi, lo in X.argmax(axis=2):
        axes.annotate("", (lo, u[lo]), (hi, u[hi]),
                      arrowprops={"arrowstyle": "->", "color": style.QUIET, "shrinkA": 9,
                                  "shrinkB": 9})  # fmt: skip
    axes.plot(np.arange(len(u)), u, "o", color=_CYCLE[0], markersize=15)
    for t, height in enumerate(u):
        axes.annotate(str(t), (t, height), ha="center", va="center", color="white", fontsize=8)
    axes.set_xticks(range(len(u)))
    axes.margins(0.12)
    axes.set_title("Tokens, an arrow: above")
    axes.set(xlabel="token (the last is the query)", ylabel="entry of the column")


def _draw_table(axes: Axes, X: Any) -> None:
    """Tokens of more than two dimensions: their entries, one row per token."""
    n, T, d = X.shape
    flat = X.reshape(n * T, d)
    most = max(float(np.abs(flat).max()), 1.0)
    axes.imshow(flat, cmap="PuOr", vmin=-2 * most, vmax=2 * most, aspect="auto")
    for i, row in enumerate(flat):
        for j, x in enumerate(row):
            axes.annotate(f"{x:g}".replace("-", "−"), (j, i), ha="center", va="center", fontsize=8)
    for i in range(1, n):
        axes.axhline(i * T - 0.5, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(n * T), [f"{i}.{t}" for i in range(n) for t in range(T)])
    axes.set_xticks(range(d))
    axes.set(xlabel="dimension", ylabel="input.token", title="Tokens")


def _draw_rises(axes: Axes, rises: Sequence[tuple[int, float]], *, found: bool) -> None:
    axes.set_title("Largest violation so far")
    axes.set(xlabel="instances tried", ylabel="violation")
    axes.axhline(0.0, color=style.FAINT, linewidth=1.0, zorder=0)
    if not rises:
        axes.annotate("no premises were met", (0.5, 0.5), xycoords="axes fraction", ha="center")
        return
    tried, best = np.array(rises, dtype=np.float64).T
    axes.step(tried, best, where="post", color=_CYCLE[0], marker=".")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-3)
    if found:
        axes.plot(tried[-1], best[-1], "o", color=_CYCLE[1])
        axes.annotate("found", (tried[-1], best[-1]), xytext=(-8, -3), ha="right",
                      textcoords="offset points", fontsize=7.5)  # fmt: skip
