"""A figure made over for a narrow screen: one panel below another, every legend below its panel."""

from __future__ import annotations

import textwrap
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox, ScaledTranslation, blended_transform_factory

# Inches: a phone shows the picture about 340 pixels wide, so that a point is 1.3 of them.
WIDTH = 3.7
# Height of a panel over its width, whatever it is on a wide screen.
FLAT, TALL = 0.72, 0.95
# Points: between parts; of a bar of colours with its numbers; the most that text may take beside.
_GAP, _BAR, _MOST = 4.0, 9.0, 110.0
# Letters in a line of a title, of an axis' name, and of an entry of a legend.
_TITLE, _LABEL, _ENTRY = 38, 44, 50
# Points of a legend's letters, and letters of its longest entry that leave two columns.
_SMALL, _SHORT = 8.0, 20


def stack(figure: Figure) -> None:
    """Stand the panels of a figure one below another, in place.

    Titles and names are broken into lines, names that panels share are given to each, and legends
    stand below. Sizes are in points inside.
    """
    shapes = {ax: _shape(ax, figure) for ax in _panels(figure)}
    if not shapes:
        return
    _name_alike(list(shapes))
    width = WIDTH * 72
    figure.set_size_inches(WIDTH, WIDTH * 0.8 * len(shapes))
    height = figure.get_figheight() * 72
    across = (50.0 / width, 1 - 58.0 / width)
    for k, ax in enumerate(shapes):  # about where they will stand, so that ticks are chosen for it
        tall = 0.7 / len(shapes)
        ax.set_position((across[0], 1 - (k + 0.9) / len(shapes), across[1], tall))
        _break_lines(ax)
    around = {ax: _margins(ax, figure) for ax in shapes}
    left = min(max(margin[0] for margin in around.values()), _MOST) + _GAP
    right = min(max(margin[1] for margin in around.values()), _MOST) + _GAP
    inner = width - left - right
    ends = [_small(legend) for legend in figure.legends]
    total = sum(a[2] + a[3] + inner * shapes[ax] + 3 * _GAP for ax, a in around.items())
    foot = sum(ends) + _GAP * len(ends)
    whole = total + foot
    figure.set_size_inches(WIDTH, whole / 72)
    top = whole
    for ax, (_, _, above, below) in around.items():
        top -= above + inner * shapes[ax] + _GAP
        place = (left / width, top / whole, inner / width)
        ax.set_position((*place, inner * shapes[ax] / whole))
        for bar in _bars(ax):
            at = (left + inner + _GAP) / width
            bar.set_position((at, place[1], _BAR / width, ax.get_position().height))
            bar.set_aspect("auto")
        top -= below + 2 * _GAP
    for legend, tall in zip(figure.legends, ends, strict=True):
        foot -= tall + _GAP
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor((0.0, foot / whole), figure.transFigure)


def _panels(figure: Figure) -> list[Axes]:
    """The axes of a figure without those of bars of colours."""
    bars = {bar for ax in figure.axes for bar in _bars(ax)}
    return [ax for ax in figure.axes if ax not in bars and ax.get_visible()]


def _bars(ax: Axes) -> list[Axes]:
    """The axes of the bars that explain the colours of a panel."""
    drawn = chain(ax.images, ax.collections)
    return [shown.colorbar.ax for shown in drawn if shown.colorbar is not None]


def _shape(ax: Axes, figure: Figure) -> float:
    """The height of a panel over its width, within bounds."""
    place, (wide, tall) = ax.get_position(), figure.get_size_inches()
    return float(min(max(place.height * tall / (place.width * wide), FLAT), TALL))


def _name_alike(panels: list[Axes]) -> None:
    """Panels that share an axis were named once for all: below one another each has the name."""
    for ax in panels:
        beside = ax.get_shared_y_axes().get_siblings(ax)
        above = ax.get_shared_x_axes().get_siblings(ax)
        for axis, named in (
            (ax.yaxis, [other.get_ylabel() for other in beside]),
            (ax.xaxis, [other.get_xlabel() for other in above]),
        ):
            if len(named) > 1 and not axis.label.get_text():
                axis.label.set_text(next(filter(None, named), ""))
        if len(beside) > 1:
            ax.tick_params(axis="y", labelleft=True)
        if len(above) > 1:
            ax.tick_params(axis="x", labelbottom=True)


def _break_lines(ax: Axes) -> None:
    """Break titles and names of axes into lines."""
    for place in ("left", "center", "right"):
        if title := ax.get_title(place):
            ax.set_title(textwrap.fill(title, _TITLE), loc=place, fontsize="medium")
    for axis in (ax.xaxis, ax.yaxis):
        words = axis.label.get_text()
        axis.label.set_text(words if "\n" in words else textwrap.fill(words, _LABEL))


def _margins(ax: Axes, figure: Figure) -> tuple[float, float, float, float]:
    """Points that text takes left of a panel, right of it, above and below, the legend below."""
    legend = ax.get_legend()
    if legend is not None:
        legend.set_in_layout(False)
    around = ax.get_tightbbox() or ax.bbox
    unit = 72 / figure.dpi
    box: Bbox = ax.bbox
    below = max(box.y0 - around.y0, 0.0) * unit
    right = max(around.x1 - box.x1, 0.0) * unit
    for bar in _bars(ax):
        extent = bar.get_tightbbox() or bar.bbox
        right = max(right, _GAP + _BAR + (extent.x1 - bar.bbox.x1) * unit)
    if legend is not None:
        legend.set_in_layout(True)
        tall = _small(legend)
        down = ScaledTranslation(0.0, -(below + _GAP) / 72, figure.dpi_scale_trans)
        legend.set_loc("upper left")
        legend.set_bbox_to_anchor(
            (0.0, 0.0), blended_transform_factory(figure.transFigure, ax.transAxes + down)
        )
        below += tall + _GAP
    return (box.x0 - around.x0) * unit, right, max(around.y1 - box.y1, 0.0) * unit, below


def _small(legend: Legend) -> float:
    """Set a legend for a narrow place; its height in points."""
    entries = [entry.get_text() for entry in legend.get_texts()]
    for entry, words in zip(legend.get_texts(), entries, strict=True):
        entry.set_text(words if "\n" in words else textwrap.fill(words, _ENTRY))
        entry.set_fontsize(_SMALL)
    legend.set_ncols(2 if max(map(len, entries), default=0) <= _SHORT else 1)
    return float(legend.get_window_extent().height) * 72 / legend.figure.dpi
