"""Standard figures of studies, drawn from their tables: curves, paths, maps, histograms, points.

A study names one, such as ``{"kind": "curves", "x": "d", "value": "rank", "lines": "n"}``. Shares
(of columns of truth values) and medians (of numbers) carry exact 95 % intervals. A value may be a
formula of columns, such as ``1 - cosine``; several values are a list, or a table of what each is
called, and ``apart`` gives each a panel of its own.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr

from attsvm._utils.arrays import Floats
from attsvm._utils.objects import unknown
from attsvm.errors import BadTokens
from attsvm.experiments.binomial import interval
from attsvm.experiments.study import BadStudy, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

LEVEL = 0.95

# What each kind needs, and what it takes beside that.
_NEEDED = {
    "curves": ("x", "value"),
    "map": ("x", "y", "value"),
    "matrix": ("rows", "values"),
    "histogram": ("value",),
    "scatter": ("x", "y"),
    "paths": ("x", "y", "each"),
}
_TAKEN = {
    "curves": ("lines", "panels", "apart", "log", "published", "level", "band", "middle", "where"),
    "map": ("panels", "line", "where"),
    "matrix": ("where",),
    "histogram": ("lines", "panels", "log", "bins", "level", "where"),
    "scatter": ("lines", "panels", "log", "diagonal", "where"),
    "paths": ("lines", "panels", "log", "level", "ray", "where"),
}
_WORDS = ("kind", "xlabel", "ylabel", "vlabel", "title")
FIGURES = tuple(_NEEDED)


def check_figure(study: Study) -> None:
    """Raise BadTokens unless the study's figure is of a known kind with known keys."""
    about: Any = study.figure
    kind = about.get("kind", "curves")
    if kind not in FIGURES:
        raise BadTokens(unknown("kind of figure", str(kind), FIGURES))
    known = (*_NEEDED[kind], *_TAKEN[kind], *_WORDS)
    for key in about:
        if key not in known:
            raise BadTokens(f"figure: {unknown('key', key, known)}")
    for key in _NEEDED[kind]:
        if key not in about:
            raise BadTokens(f"a figure of kind {kind} needs {key}")


def figure_of(study: Study, table: DataFrame) -> Figure:
    """The figure of a study: a standard one, or what its function draws."""
    from matplotlib.figure import Figure as Drawn

    from attsvm.plotting.style import place_parts

    if study.figure is None:
        raise BadTokens(f"{study.id} has no figure: give kind, x and value")
    if isinstance(study.figure, Mapping):
        figure = _DRAW[study.figure.get("kind", "curves")](table, dict(study.figure))
    else:
        figure = study.figure(table, study)
    if not isinstance(figure, Drawn):
        raise BadStudy(f"{study.id}: figure returns a Figure; this is of type {type(figure)}")
    place_parts(figure)
    return figure


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
        return (float(values.mean()), *interval(int(values.sum()), len(values), level))
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


def _curves(table: DataFrame, about: dict[str, Any]) -> Figure:
    from attsvm.plotting.studies import Curve, Labels, Panel, curve_figure

    table = _where(table, about)
    columns = _named(about["value"])
    middle = _MIDDLE["half" if about.get("band") == "half" else about.get("middle", "median")]
    published = about.get("published")
    panels = []
    for title, inside in _split(table, about, "panels"):
        curves = []
        for column, said in columns.items():
            for name, rows in _split(inside, about, "lines"):
                x = _values(rows, about["x"])
                cells = [rows[rows[about["x"]] == value] for value in x]
                found = [middle(_column(cell, column)) for cell in cells]
                several = len(columns) > 1 and not about.get("apart")
                words = ", ".join(filter(None, (name, said if several else "")))
                marks = [_published(cell, published, column) for cell in cells if published]
                middles, lows, highs = (list(part) for part in zip(*found, strict=True))
                curves.append(Curve(words or said, x, middles, lows, highs, marks))
            if about.get("apart"):
                panels.append(Panel(", ".join(filter(None, (title, said))), curves))
                curves = []
        if curves:
            panels.append(Panel(title or about.get("title", ""), curves))
    labels = Labels(
        about.get("xlabel", about["x"]), about.get("ylabel", ", ".join(columns.values())),
    )  # fmt: skip
    figure = curve_figure(panels, labels, log=about.get("log", False))
    for axes in figure.axes:
        _levels(axes, about)
    return figure


def _published(cell: DataFrame, published: Any, column: str) -> float:
    """The published value of a cell: of a column, or a function of its first row, in which
    `column` is the name of the value."""
    if isinstance(published, str):
        return float(_column(cell, published).iloc[0])
    return float(published({**cell.iloc[0].to_dict(), "column": column}))


def _levels(axes: Any, about: dict[str, Any]) -> None:
    """Faint lines at thresholds."""
    from attsvm.plotting.style import FAINT

    given = about.get("level", [])
    for y in [given] if isinstance(given, int | float) else given:
        axes.axhline(y, color=FAINT, linewidth=1.0, zorder=0)


def _map(table: DataFrame, about: dict[str, Any]) -> Figure:
    from attsvm.plotting.studies import Labels, Map, phase_figure

    table = _where(table, about)
    maps = []
    for title, inside in _split(table, about, "panels"):
        xs, ys = _values(inside, about["x"]), _values(inside, about["y"])
        shown = np.full((len(ys), len(xs)), np.nan)
        for i, y in enumerate(ys):
            for j, x in enumerate(xs):
                cell = inside[(inside[about["x"]] == x) & (inside[about["y"]] == y)]
                if len(cell):
                    shown[i, j] = middle_of(_column(cell, about["value"]))[0]
        line = []
        if "line" in about:
            rest = inside.iloc[0].to_dict()
            line = [value_of(about["line"], {**rest, about["x"]: x}) for x in xs]
        maps.append(Map(title, xs, ys, shown, line))
    label = about.get("vlabel", f"{about['value']} (share or median)")
    name = f"{about['y']} = {about['line']}" if "line" in about else ""
    return phase_figure(
        maps, Labels(about.get("xlabel", about["x"]), about.get("ylabel", about["y"]), label, name)
    )


def _matrix(table: DataFrame, about: dict[str, Any]) -> Figure:
    """Medians of several columns for each value of one, the largest of each row in bold."""
    from attsvm.plotting.studies import panels

    table = _where(table, about)
    rows, columns = _values(table, about["rows"]), list(about["values"])
    shown = np.array([
        [middle_of(_column(table[table[about["rows"]] == row], name))[0] for name in columns]
        for row in rows
    ])  # fmt: skip
    figure, (axes,) = panels(1)
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
    axes.set(xlabel=about.get("xlabel", ""), ylabel=about.get("ylabel", about["rows"]),
             title=about.get("title", ""))  # fmt: skip
    figure.colorbar(image, ax=axes).ax.set_ylabel(about.get("vlabel", "median"))
    return figure


def _histogram(table: DataFrame, about: dict[str, Any]) -> Figure:
    from attsvm.plotting import style
    from attsvm.plotting.studies import panels

    table = _where(table, about)
    parts = list(_split(table, about, "panels"))
    values = _column(table, about["value"]).to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    log = bool(about.get("log")) and len(values) and values.min() > 0
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    count = about.get("bins", 30)
    edges = np.geomspace(low, high, count) if log and high > low else (
        np.linspace(low, high if high > low else low + 1.0, count))  # fmt: skip
    figure, axes = panels(len(parts))
    for ax, (title, inside) in zip(axes, parts, strict=True):
        for k, (name, rows) in enumerate(_split(inside, about, "lines")):
            numbers = _column(rows, about["value"]).to_numpy(dtype=float)
            ax.hist(numbers[np.isfinite(numbers)], bins=edges.tolist(), histtype="step",
                    label=name or None, **style.curve(k + 1))  # fmt: skip
        if log:
            ax.set_xscale("log")
        for x in np.atleast_1d(about.get("level", [])):
            ax.axvline(x, color=style.QUIET, linewidth=1.0, linestyle=":")
        ax.set(xlabel=about.get("xlabel", about["value"]), title=title,
               ylabel=about.get("ylabel", "instances"))  # fmt: skip
    if "lines" in about:
        axes[0].legend(frameon=False, fontsize=7.5)
    return figure


def _scatter(table: DataFrame, about: dict[str, Any]) -> Figure:
    from attsvm.plotting import style
    from attsvm.plotting.studies import grid

    table = _where(table, about)
    parts, columns = list(_split(table, about, "panels")), _named(about["y"])
    figure, axes = grid(len(parts))
    log = about.get("log", "")
    for ax, (title, inside) in zip(axes, parts, strict=True):
        clouds = [(rows, name, y) for y in columns for name, rows in _split(inside, about, "lines")]
        for k, (rows, name, y) in enumerate(clouds):
            colour = style.CURVES[1 + k % (len(style.CURVES) - 1)]
            words = ", ".join(filter(None, (name, columns[y] if len(columns) > 1 else "")))
            ax.scatter(_column(rows, about["x"]), _column(rows, y), s=12, alpha=0.6,
                       color=colour, label=words or None, linewidth=0)  # fmt: skip
        _scales(ax, log)
        if about.get("diagonal"):
            reach = [
                max(ax.get_xlim()[0], ax.get_ylim()[0]),
                min(ax.get_xlim()[1], ax.get_ylim()[1]),
            ]
            ax.plot(reach, reach, color=style.FAINT, zorder=0)
        ax.set(xlabel=about.get("xlabel", about["x"]), title=title,
               ylabel=about.get("ylabel", ", ".join(columns.values())))  # fmt: skip
    if "lines" in about or len(columns) > 1:
        axes[0].legend(frameon=False, fontsize=7.5)
    return figure


def _scales(axes: Any, log: Any) -> None:
    """Logarithmic axes: "x", "y", "xy", or True for both."""
    if log is True or "x" in str(log):
        axes.set_xscale("log")
    if log is True or "y" in str(log):
        axes.set_yscale("log")


def _paths(table: DataFrame, about: dict[str, Any]) -> Figure:
    """A line of y over x, from a dot, for each value of the columns `each`.

    ray: two columns; a dashed line from the origin leads through the point of a path's first row.
    """
    from attsvm.plotting import style
    from attsvm.plotting.studies import grid

    table = _where(table, about)
    parts = list(_split(table, about, "panels"))
    kinds = {name: style.CURVES[1 + k % (len(style.CURVES) - 1)]
             for k, (name, _) in enumerate(_split(table, about, "lines"))}  # fmt: skip
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
        ax.set(xlabel=about.get("xlabel", about["x"]), ylabel=about.get("ylabel", about["y"]),
               title=title or about.get("title", ""))  # fmt: skip
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
