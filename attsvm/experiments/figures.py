"""Standard figures of studies, drawn from their tables: curves, paths, maps, histograms, points.

A study names one, such as ``{"kind": "curves", "x": "d", "value": "rank", "lines": "n"}``. Shares
(of columns of truth values) and medians (of numbers) carry exact 95 % intervals. A value may be a
formula of columns, such as ``1 - cosine``; several values are a list, or a table of what each is
called, and ``apart`` gives each a panel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attsvm._utils.objects import unknown
from attsvm.errors import BadTokens
from attsvm.experiments.study import BadStudy, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

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


def check_figure(about: Any) -> None:
    """Raise BadTokens unless this is a function, or a table of a known kind with known keys."""
    if callable(about):
        return
    if not isinstance(about, Mapping):
        raise BadTokens(f"figure is a table or a function; this is {about!r}")
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

    from attsvm.plotting.studies import draw_table
    from attsvm.plotting.style import place_parts

    if study.figure is None:
        raise BadTokens(f"{study.id} has no figure: give kind, x and value")
    if isinstance(study.figure, Mapping):
        figure = draw_table(table, dict(study.figure))
    else:
        figure = study.figure(table, study)
    if not isinstance(figure, Drawn):
        raise BadStudy(f"{study.id}: figure returns a Figure; this is of type {type(figure)}")
    place_parts(figure)
    return figure
