"""The picture of a sweep, as its spec's table [figure] says: a phase diagram, or curves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.files import beside
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.sweep.formula import value_of
from attsvm.experiments.sweep.nearest import unknown
from attsvm.experiments.sweep.spec import Spec
from attsvm.experiments.sweep.summary import CellSummary, cells_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS = ("phase", "curves")
_SUFFIXES = (".svg", ".png", ".pdf")


def _figure_6(point: dict[str, Any]) -> float:
    """The bar of v1, Figure 6, at a point with model, size and d; nan where there is none."""
    from attsvm.experiments.studies.shared.published_shares import DIMENSIONS_6, FIGURE_6

    n, _, T = str(point["size"]).partition("x")
    row = FIGURE_6.get(("KQ" if point["model"] == "factored" else "W", int(n), int(T)))
    if row is None or point["d"] not in DIMENSIONS_6:
        return np.nan
    return row[DIMENSIONS_6.index(point["d"])]


# Published values by the name of their figure.
PUBLISHED: dict[str, Callable[[dict[str, Any]], float]] = {"figure 6": _figure_6}


def draw_sweep(folder: Path, spec: Spec) -> Figure:
    """The picture of what is on file; raises BadTokens where the spec does not say which."""
    return _phase(folder, spec) if _kind(spec) == "phase" else _curves(folder, spec)


def _kind(spec: Spec) -> str:
    """The kind of picture that the spec asks for, all that it needs checked."""
    about = spec.figure
    if not about:
        raise BadTokens(
            f"{spec.name} has no table [figure]: say kind = \"phase\" or \"curves\", x and value"
        )  # fmt: skip
    kind = about.get("kind", "curves")
    if kind not in _KINDS:
        raise BadTokens(unknown("kind of figure", str(kind), _KINDS))
    needed = ("x", "y", "value") if kind == "phase" else ("x", "value")
    for key in needed:
        if key not in about:
            raise BadTokens(f"{spec.name}: a figure of kind {kind} needs {key}")
    for key in ("x", "y", "panels", "lines"):
        if key in about and about[key] not in spec.swept:
            raise BadTokens(
                f"{spec.name}: {unknown(f'{key} of the figure', about[key], spec.swept)}"
            )
    return str(kind)


def check_picture(folder: Path, spec: Spec, file: Path) -> None:
    """Raises unless the spec asks for a picture that can be written to the file; the folder of the
    sweep may not be there yet."""
    if file.suffix not in _SUFFIXES:
        raise Unsupported(f"a figure is one of {', '.join(_SUFFIXES)}; this is {file.name}")
    if file.is_dir() or not (file.parent.is_dir() or file.parent == folder):
        raise BadTokens(f"{file} cannot be written: give the name of a file in a folder")
    _kind(spec)


def write_figure(folder: Path, spec: Spec, file: Path) -> None:
    """Write the picture in one move: svg, png or pdf."""
    check_picture(folder, spec, file)
    from attsvm.plotting.style import styled

    with styled():
        figure = draw_sweep(folder, spec)
        with beside(file) as target:
            date: Any = {"metadata": {"Date": None}} if file.suffix == ".svg" else {}
            figure.savefig(target, format=file.suffix[1:], **date)


def _values(cells: list[CellSummary], name: str) -> list[Any]:
    """The values of a parameter: numbers by size, texts as they come."""
    found = list(dict.fromkeys(cell.point[name] for cell in cells))
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _panels(cells: list[CellSummary], about: dict[str, Any]) -> list[tuple[str, list[CellSummary]]]:
    """(title, cells) of each panel."""
    if "panels" not in about:
        return [("", cells)]
    name = about["panels"]
    return [
        (f"{name} = {value}", [c for c in cells if c.point[name] == value])
        for value in _values(cells, name)
    ]


def _phase(folder: Path, spec: Spec) -> Figure:
    from attsvm.plotting.studies import Labels, Map, phase_figure

    about = spec.figure
    cells = _cells(folder, spec, about["value"])
    maps = []
    for title, inside in _panels(cells, about):
        xs, ys = _values(inside, about["x"]), _values(inside, about["y"])
        shown = np.full((len(ys), len(xs)), np.nan)
        for cell in inside:
            place = ys.index(cell.point[about["y"]]), xs.index(cell.point[about["x"]])
            shown[place] = cell.middle
        line = []
        if "line" in about:
            rest = {k: v for k, v in inside[0].point.items() if k not in (about["x"], about["y"])}
            line = [value_of(about["line"], {**rest, about["x"]: x}) for x in xs]
        maps.append(Map(title, xs, ys, shown, line))
    label = about.get("vlabel", f"{about['value']} (share or median)")
    line_name = f"{about['y']} = {about['line']}" if "line" in about else ""
    words = Labels(
        about.get("xlabel", about["x"]), about.get("ylabel", about["y"]), label, line_name
    )
    return phase_figure(maps, words)


def _curves(folder: Path, spec: Spec) -> Figure:
    from attsvm.plotting.studies import Curve, Labels, Panel, curve_figure

    about = spec.figure
    columns = [about["value"]] if isinstance(about["value"], str) else list(about["value"])
    source = PUBLISHED.get(str(about.get("published", "")))
    by_title: dict[str, list[Curve]] = {}
    for column in columns:
        cells = _cells(folder, spec, column)
        for title, inside in _panels(cells, about):
            split = [None] if "lines" not in about else _values(inside, about["lines"])
            for value in split:
                own = [c for c in inside if value is None or c.point[about["lines"]] == value]
                name = column if value is None else f"{about['lines']} = {value}"
                if value is not None and len(columns) > 1:
                    name = f"{name}, {column}"
                order = _values(own, about["x"])
                own.sort(key=lambda c: order.index(c.point[about["x"]]))
                by_title.setdefault(title, []).append(
                    Curve(
                        name,
                        [c.point[about["x"]] for c in own],
                        [c.middle for c in own],
                        [c.low for c in own],
                        [c.high for c in own],
                        [source(c.point) for c in own] if source is not None else [],
                    )
                )
    panels = [Panel(title, curves) for title, curves in by_title.items()]
    y = about.get("ylabel", ", ".join(columns))
    words = Labels(about.get("xlabel", about["x"]), y)
    return curve_figure(panels, words, log=bool(about.get("log", False)))


def _cells(folder: Path, spec: Spec, column: str) -> list[CellSummary]:
    cells = cells_of(folder, spec, column)
    if not cells:
        raise BadTokens(f"{folder} has no results yet: `attsvm sweep {folder}` goes on with it")
    return cells
