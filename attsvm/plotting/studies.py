"""The pictures of experiments: standard figures of a study's table of rows, and hunts."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from scipy.special import bdtr

from attsvm._utils.arrays import Floats
from attsvm._utils.objects import unknown
from attsvm.errors import BadTokens
from attsvm.plotting import style
from attsvm.plotting.style import DPI, FAINT, INK, check_format, write_figure

if TYPE_CHECKING:
    from pandas import DataFrame

LEVEL = 0.95
# Distinct under every common colour blindness (Okabe and Ito).
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111111")

# ---------------------------------------------------------------- cells


def _column(table: DataFrame, name: str) -> Any:
    """A column, or the values of a formula of columns."""
    if name in table:
        return table[name]
    try:
        return table.eval(name)
    except (NameError, SyntaxError, TypeError, ValueError) as error:
        what = unknown("column", name, table)
        raise BadTokens(f"the figure needs a column it lacks: {what}") from error


def _named(value: Any) -> dict[str, str]:
    """The columns that a figure shows, with what each is called."""
    if isinstance(value, Mapping):
        return dict(value)
    return {name: name for name in ([value] if isinstance(value, str) else value)}


def middle_of(values: Any, level: float = LEVEL) -> tuple[float, float, float]:
    """The share of truth values, or the median of numbers, with its exact interval."""
    values = np.asarray(values)
    if values.dtype.kind == "b":
        from scipy.stats import binomtest

        exact = binomtest(int(values.sum()), len(values)).proportion_ci(level, method="exact")
        return float(values.mean()), float(exact.low), float(exact.high)
    numbers = np.sort(values[~np.isnan(values.astype(float))].astype(float))
    if not len(numbers):
        return np.nan, np.nan, np.nan
    return (float(np.median(numbers)), *median_interval(numbers, level))


def median_interval(ordered: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The interval between two of these ordered values that holds the true median with at least
    this probability; all of them where they are too few for any.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    (1.0, 8.0)
    """
    n = len(ordered)
    # P(fewer than k of n are below the median) ≤ (1 − level)/2
    ranks = [k for k in range(1, n // 2 + 1) if bdtr(k - 1, n, 0.5) <= (1 - level) / 2]
    k = ranks[-1] if ranks else 1
    return float(ordered[k - 1]), float(ordered[n - k])


def _mean(values: Any) -> tuple[float, float, float]:
    """The mean of numbers, and two standard errors on either side."""
    mean, error = values.mean(), 2 * np.nan_to_num(values.sem())
    return mean, mean - error, mean + error


def _half(values: Any) -> tuple[float, float, float]:
    """The median of numbers, and the middle half."""
    numbers = np.asarray(values, dtype=float)
    low, middle, high = np.nanquantile(numbers, (0.25, 0.5, 0.75))
    return float(middle), float(low), float(high)


_MIDDLE: dict[str, Callable[[Any], tuple[float, float, float]]] = {
    "median": middle_of,
    "mean": _mean,
    "half": _half,
}


def _values(table: DataFrame, name: str) -> list[Any]:
    """The values of a column: numbers by size, texts as they come."""
    found = list(dict.fromkeys(_column(table, name).tolist()))
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _split(table: DataFrame, about: dict[str, Any], key: str) -> Iterator[tuple[str, DataFrame]]:
    """(name, rows) for each value of the column that `key` names; all rows without one."""
    if key not in about:
        yield "", table
        return
    name = about[key]
    for value in _values(table, name):
        rows = table[table[name] == value]
        if len(rows):
            words = isinstance(value, str) and not value.replace(".", "").isdigit()
            yield value if words else f"{name} = {float(value):g}", rows


def _where(table: DataFrame, about: dict[str, Any]) -> DataFrame:
    """The rows that have the values of `where`, one or some, or for which its function holds."""
    wanted = about.get("where")
    if wanted is None:
        return table
    if isinstance(wanted, Mapping):
        keep = np.ones(len(table), dtype=bool)
        for name, value in wanted.items():
            keep &= np.isin(_column(table, name), value)
        return table[keep]
    return table[wanted(table)]


_FUNCTIONS = {"max": max, "min": min, "sqrt": math.sqrt, "ceil": math.ceil, "log": math.log}
# Without attributes, subscripts and keywords, nothing but arithmetic can be written.
_ALLOWED = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.Div, ast.Pow, ast.UnaryOp, ast.USub, ast.Call,
)  # fmt: skip


def value_of(formula: str, names: Mapping[str, Any]) -> float:
    """The value of the formula with these parameters.

    >>> value_of("max(T - 1, n)", {"T": 5, "n": 3})
    4.0
    """
    try:
        tree = ast.parse(formula, mode="eval")
        if not all(isinstance(node, _ALLOWED) for node in ast.walk(tree)):
            raise ValueError(f"it has numbers, parameters, + - * / ** and {', '.join(_FUNCTIONS)}")
        code = compile(tree, "<formula>", "eval")
        return float(eval(code, {"__builtins__": {}, **_FUNCTIONS}, dict(names)))
    except (SyntaxError, ArithmeticError, NameError, TypeError, ValueError) as error:
        raise BadTokens(f"the formula {formula!r} cannot be worked out: {error}") from error


# ---------------------------------------------------------------- the kinds


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


def _name(ax: Axes, about: dict[str, Any], x: str, y: str, title: str = "") -> None:
    """The texts of a panel: those of the figure, or these."""
    ax.set(xlabel=about.get("xlabel", x), ylabel=about.get("ylabel", y))
    ax.set_title(title or about.get("title", ""), wrap=True)


def _curves(table: DataFrame, about: dict[str, Any]) -> Figure:
    """Middles with bands over x, a line for each value and each part of the rows."""
    columns = _named(about["value"])
    middle = _MIDDLE["half" if about.get("band") == "half" else about.get("middle", "median")]
    parts = [(title, rows, columns) for title, rows in _split(table, about, "panels")]
    if about.get("apart"):
        parts = [
            (", ".join(filter(None, (title, said))), rows, {column: said})
            for title, rows, _ in parts
            for column, said in columns.items()
        ]
    figure, axes = grid(len(parts))
    log, marked = about.get("log", False), False
    for ax, (title, inside, chosen) in zip(axes, parts, strict=True):
        lines = [(c, name, rows) for c in chosen for name, rows in _split(inside, about, "lines")]
        places: set[Any] = set()
        for k, (column, name, rows) in enumerate(lines):
            at = _values(rows, about["x"])
            cells = [rows[rows[about["x"]] == value] for value in at]
            middles, low, high = np.transpose([middle(_column(cell, column)) for cell in cells])
            texts, said = any(isinstance(value, str) for value in at), columns[column]
            x = np.arange(len(at)) if texts else np.array(at, dtype=float)
            words = ", ".join(filter(None, (name, said if len(chosen) > 1 else ""))) or said
            ax.fill_between(x, low, high, color=CYCLE[k % 7], alpha=0.2, linewidth=0)
            ax.plot(x, middles, color=CYCLE[k % 7], marker="." if len(x) <= 40 else "", label=words)
            if "published" in about:
                marks = [_published(cell, about["published"], column) for cell in cells]
                marked = marked or bool(np.isfinite(marks).any())
                ax.plot(x, marks, "x", color=CYCLE[k % 7], markersize=6, markeredgewidth=1.6)
            if texts:
                ax.set_xticks(x, [str(value) for value in at])
            places |= set(at)
        _scales(ax, log)
        if (log is True or "x" in str(log)) and len(places) <= 12:
            ax.set_xticks(sorted(places), [f"{x:g}" for x in sorted(places)])
            ax.minorticks_off()
        _name(ax, about, about["x"], ", ".join(columns.values()), title)
        _levels(ax, about)
    if marked:
        axes[0].plot([], [], "x", color=INK, markersize=6, markeredgewidth=1.6, label="published")
    named = axes[0].get_legend_handles_labels()
    if len(named[0]) > 1:
        figure.legend(*named, loc="outside right center", frameon=False)
    return figure


def _published(cell: DataFrame, published: Any, column: str) -> float:
    """The published value of a cell: of a column, or a function of its first row, in which
    `column` is the name of the value."""
    if isinstance(published, str):
        return float(_column(cell, published).iloc[0])
    return float(published({**cell.iloc[0].to_dict(), "column": column}))


def _levels(ax: Axes, about: dict[str, Any]) -> None:
    """Faint lines at thresholds."""
    for y in np.atleast_1d(about.get("level", [])):
        ax.axhline(y, color=FAINT, linewidth=1.0, zorder=0)


def _scales(ax: Axes, log: Any) -> None:
    """Logarithmic axes: "x", "y", "xy", or True for both."""
    if log is True or "x" in str(log):
        ax.set_xscale("log")
    if log is True or "y" in str(log):
        ax.set_yscale("log")


def _map(table: DataFrame, about: dict[str, Any]) -> Figure:
    """Shares or medians as colours over two parameters, and a line from a formula."""
    maps = []
    for title, inside in _split(table, about, "panels"):
        xs, ys = _values(inside, about["x"]), _values(inside, about["y"])
        shown = np.full((len(ys), len(xs)), np.nan)
        for i, j in np.ndindex(shown.shape):
            cell = inside[(inside[about["x"]] == xs[j]) & (inside[about["y"]] == ys[i])]
            if len(cell):
                shown[i, j] = middle_of(_column(cell, about["value"]))[0]
        maps.append((title, xs, ys, shown, inside.iloc[0].to_dict()))
    known = np.concatenate([shown[np.isfinite(shown)] for *_, shown, _ in maps])
    share = not len(known) or (known.min() >= 0.0 and known.max() <= 1.0)
    low, high = (0.0, 1.0) if share else (known.min(), known.max())
    figure, axes = grid(len(maps))
    for ax, (title, xs, ys, shown, rest) in zip(axes, maps, strict=True):
        image = ax.imshow(
            np.ma.masked_invalid(shown), origin="lower", aspect="auto", cmap="cividis",
            vmin=low, vmax=high, interpolation="nearest",
        )  # fmt: skip
        ax.set_xticks(*_ticks(xs))
        ax.set_yticks(*_ticks(ys))
        _name(ax, about, about["x"], about["y"], title)
        if "line" in about:
            # Formulas are in the values of y, and places count them.
            line = [value_of(about["line"], {**rest, about["x"]: x}) for x in xs]
            places = np.interp(line, ys, np.arange(len(ys)), left=np.nan, right=np.nan)
            ax.plot(places, color=CYCLE[1], linewidth=1.8, marker=".",
                    label=f"{about['y']} = {about['line']}")  # fmt: skip
            ax.legend(loc="lower right", fontsize=7.5, framealpha=0.9)
    bar = figure.colorbar(image, ax=axes)
    bar.ax.set_ylabel(about.get("vlabel", f"{about['value']} (share or median)"))
    return figure


def _ticks(values: Sequence[Any]) -> tuple[list[int], list[str]]:
    """At most about twelve places, named by their values."""
    step = max(1, -(-len(values) // 12))
    places = list(range(0, len(values), step))
    return places, [str(values[k]) for k in places]


def _matrix(table: DataFrame, about: dict[str, Any]) -> Figure:
    """Medians of several columns for each value of one, the largest of each row in bold."""
    rows, columns = _values(table, about["rows"]), list(about["values"])
    shown = np.array([
        [middle_of(_column(table[table[about["rows"]] == row], name))[0] for name in columns]
        for row in rows
    ])  # fmt: skip
    figure, (axes,) = grid(1)
    figure.set_size_inches(*style.SIZE)
    image = axes.imshow(shown, cmap="cividis", aspect="auto")
    middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
    for i, j in np.ndindex(shown.shape):
        weight = "bold" if shown[i, j] == np.nanmax(shown[i]) else "normal"
        # Off-white and off-black: a dark page does not invert them.
        colour = "#fefefe" if shown[i, j] < middle else "#010101"
        axes.text(j, i, f"{shown[i, j]:.3f}", ha="center", va="center", color=colour,
                  fontweight=weight)  # fmt: skip
    prefix = columns[0][: columns[0].find("_") + 1]
    short = [n.removeprefix(prefix) if all(c.startswith(prefix) for c in columns) else n
             for n in columns]  # fmt: skip
    axes.set_xticks(range(len(columns)), short)
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    _name(axes, about, "", about["rows"])
    figure.colorbar(image, ax=axes).ax.set_ylabel(about.get("vlabel", "median"))
    return figure


def _histogram(table: DataFrame, about: dict[str, Any]) -> Figure:
    parts = list(_split(table, about, "panels"))
    values = _column(table, about["value"]).to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    log = bool(about.get("log")) and len(values) and values.min() > 0
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    count = about.get("bins", 30)
    edges = np.geomspace(low, high, count) if log and high > low else (
        np.linspace(low, high if high > low else low + 1.0, count))  # fmt: skip
    figure, axes = grid(len(parts))
    for ax, (title, inside) in zip(axes, parts, strict=True):
        for k, (name, rows) in enumerate(_split(inside, about, "lines")):
            numbers = _column(rows, about["value"]).to_numpy(dtype=float)
            ax.hist(numbers[np.isfinite(numbers)], bins=edges.tolist(), histtype="step",
                    label=name or None, **style.curve(k + 1))  # fmt: skip
        if log:
            ax.set_xscale("log")
        for x in np.atleast_1d(about.get("level", [])):
            ax.axvline(x, color=style.QUIET, linewidth=1.0, linestyle=":")
        _name(ax, about, about["value"], "instances", title)
    if "lines" in about:
        axes[0].legend(frameon=False, fontsize=7.5)
    return figure


def _scatter(table: DataFrame, about: dict[str, Any]) -> Figure:
    parts, columns = list(_split(table, about, "panels")), _named(about["y"])
    figure, axes = grid(len(parts))
    log = about.get("log", "")
    for ax, (title, inside) in zip(axes, parts, strict=True):
        clouds = [(rows, name, y) for y in columns for name, rows in _split(inside, about, "lines")]
        for k, (rows, name, y) in enumerate(clouds):
            words = ", ".join(filter(None, (name, columns[y] if len(columns) > 1 else "")))
            ax.scatter(_column(rows, about["x"]), _column(rows, y), s=12, alpha=0.6,
                       color=CYCLE[k % 7], label=words or None, linewidth=0)  # fmt: skip
        _scales(ax, log)
        if about.get("diagonal"):
            (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
            reach = [max(left, low), min(right, high)]
            ax.plot(reach, reach, color=FAINT, zorder=0)
        _name(ax, about, about["x"], ", ".join(columns.values()), title)
    if "lines" in about or len(columns) > 1:
        axes[0].legend(frameon=False, fontsize=7.5)
    return figure


def _paths(table: DataFrame, about: dict[str, Any]) -> Figure:
    """A line of y over x, from a dot, for each value of the columns `each`.

    ray: two columns; a dashed line from the origin leads through the point of a path's first row.
    """
    parts = list(_split(table, about, "panels"))
    kinds = {name: CYCLE[k % 7] for k, (name, _) in enumerate(_split(table, about, "lines"))}
    figure, axes = grid(len(parts))
    for ax, (title, inside) in zip(axes, parts, strict=True):
        for name, rows in _split(inside, about, "lines"):
            for _, run in rows.groupby(about["each"], sort=False):
                x, y = (_column(run, about[key]).to_numpy(dtype=float) for key in ("x", "y"))
                ax.plot(x, y, "o-", markevery=[0], markersize=3, linewidth=0.9, alpha=0.7,
                        color=kinds[name])  # fmt: skip
                if "ray" in about:
                    end = run.iloc[0][list(about["ray"])].to_numpy(dtype=float)
                    end = end * np.hypot(x, y).max() / np.linalg.norm(end)
                    ax.plot([0, end[0]], [0, end[1]], "--", color=kinds[name], linewidth=1.0)
        _scales(ax, about.get("log", ""))
        _levels(ax, about)
        _name(ax, about, about["x"], about["y"], title)
    for name, colour in kinds.items():
        axes[0].plot([], [], color=colour, label=name or "path")
    if "ray" in about:
        axes[0].plot([], [], "--", color=style.QUIET, label="certified direction")
    if len(kinds) > 1 or "ray" in about:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center",
                      frameon=False)  # fmt: skip
    return figure


_DRAW: dict[str, Callable[[DataFrame, dict[str, Any]], Figure]] = {
    "curves": _curves,
    "map": _map,
    "matrix": _matrix,
    "histogram": _histogram,
    "scatter": _scatter,
    "paths": _paths,
}


def draw_table(table: DataFrame, about: dict[str, Any]) -> Figure:
    """The standard figure of a table, of the kind and with the columns that `about` says."""
    return _DRAW[about.get("kind", "curves")](_where(table, about), about)


# ---------------------------------------------------------------- hunts


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
