"""A figure made over for a narrow screen: one panel below another, every legend below its panel."""

from __future__ import annotations

import textwrap
from itertools import chain, pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

# Inches: a phone shows the picture about 340 pixels wide, so that a point is 1.3 of them.
WIDTH = 3.7
# Height of a panel over its width, whatever it is on a wide screen.
FLAT, TALL = 0.8, 0.95
# Points: about what text takes left and right of a panel, the most it may take, between parts and
# between panels, and the width of a bar of colours.
_LEFT, _RIGHT, _MOST = 46.0, 8.0, 110.0
_GAP, _APART, _BAR = 4.0, 14.0, 9.0
# Letters in a line of a title, of an axis' name, and of an entry of a legend.
_TITLE, _LABEL, _ENTRY = 40, 44, 50
# Points: the letters of a legend, and of numbers written into the cells of a map.
_SMALL, _CELL = 8.0, 6.5


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
    # About where they will stand, so that ticks are chosen for it.
    _place(figure, shapes, dict.fromkeys(shapes, (_LEFT, _RIGHT, 20.0, 40.0)), 0.0)
    for ax in shapes:
        _break_lines(ax)
        _turn_crowded(ax)
    around = {ax: _margins(ax, figure) for ax in shapes}
    if max(margin[0] for margin in around.values()) > 1.5 * _LEFT:  # names of rows: less is left
        _place(figure, shapes, around, 0.0)
        for ax in shapes:
            _turn_crowded(ax)
        around = {ax: _margins(ax, figure) for ax in shapes}
    ends = [_one_column(legend, figure, figure) for legend in list(figure.legends)]
    foot = sum(tall + _GAP for _, tall in ends)
    left, inner = _place(figure, shapes, around, foot)
    for ax in shapes:  # titles begin where the picture does
        if title := ax.get_title("left"):
            ax.set_title(title, loc="left", fontsize="medium", x=-(left - _GAP) / inner)
    whole = figure.get_figheight() * 72
    for legend, tall in ends:
        foot -= tall + _GAP
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor((_GAP / width, foot / whole), figure.transFigure)


def _place(
    figure: Figure,
    shapes: dict[Axes, float],
    around: dict[Axes, tuple[float, float, float, float]],
    foot: float,
) -> tuple[float, float]:
    """Give every panel its place, with so much room around it; (room at the left, inner width)."""
    width = WIDTH * 72
    left = min(max(margin[0] for margin in around.values()), _MOST) + _GAP
    right = min(max(margin[1] for margin in around.values()), _MOST) + _GAP
    inner = width - left - right
    total = sum(a[2] + a[3] + inner * shapes[ax] + _APART for ax, a in around.items()) + foot
    figure.set_size_inches(WIDTH, total / 72)
    top = total
    for ax, (_, _, above, below) in around.items():
        tall = inner * shapes[ax]
        top -= above + tall + _GAP
        ax.set_position((left / width, top / total, inner / width, tall / total))
        for bar in _bars(ax):
            bar.set_aspect("auto")
            at = (left + inner + _GAP) / width
            bar.set_position((at, top / total, _BAR / width, tall / total))
        top -= below + _APART - _GAP
    return left, inner


def _panels(figure: Figure) -> list[Axes]:
    """The axes of a figure without those of bars of colours."""
    bars = {bar for ax in figure.axes for bar in _bars(ax)}
    return [ax for ax in figure.axes if ax not in bars and ax.get_visible()]


def _bars(ax: Axes) -> list[Axes]:
    """The axes of the bars that explain the colours of a panel."""
    drawn = chain(ax.images, ax.collections)
    bars = [shown.colorbar.ax for shown in drawn if shown.colorbar is not None]
    return [bar for bar in bars if bar.get_visible()]


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
    if ax.images and ax.texts:  # numbers in the cells say what a bar of colours would
        for number in ax.texts:
            number.set_fontsize(_CELL)
        for bar in _bars(ax):
            bar.set_visible(False)


def _turn_crowded(ax: Axes) -> None:
    """Turn the names of ticks where they have no room beside one another."""
    low, high = sorted(ax.get_xlim())
    for ticks in (ax.xaxis.get_major_ticks(), ax.xaxis.get_minor_ticks()):
        names = [t.label1 for t in ticks if low <= t.get_loc() <= high and t.label1.get_text()]
        boxes = sorted((name.get_window_extent() for name in names), key=lambda box: box.x0)
        if any(a.x1 + 2 > b.x0 for a, b in pairwise(boxes)):
            for name in names:
                name.set(rotation=35, ha="right", va="top", rotation_mode="anchor")


def _margins(ax: Axes, figure: Figure) -> tuple[float, float, float, float]:
    """Points that text takes left of a panel, right of it, above and below, the legend below."""
    legend = ax.get_legend()
    if legend is not None:
        legend.set_in_layout(False)
    box, around = ax.bbox, ax.get_tightbbox() or ax.bbox
    unit = 72 / figure.dpi
    below = max(box.y0 - around.y0, 0.0) * unit
    right = max(around.x1 - box.x1, 0.0) * unit
    for bar in _bars(ax):
        extent = bar.get_tightbbox() or bar.bbox
        right = max(right, _GAP + _BAR + (extent.x1 - bar.bbox.x1) * unit)
    if legend is not None:
        legend.set_in_layout(True)
        tall = _small(legend, figure)
        if legend.get_window_extent().width > figure.bbox.width - 2 * _GAP:
            legend, tall = _one_column(legend, ax, figure)
        down = ScaledTranslation(0.0, -below / 72, figure.dpi_scale_trans)
        legend.set_loc("upper left")
        legend.set_bbox_to_anchor(
            (0.0, 0.0), blended_transform_factory(figure.transFigure, ax.transAxes + down)
        )
        below += tall + _GAP
    return (box.x0 - around.x0) * unit, right, max(around.y1 - box.y1, 0.0) * unit, below


def _one_column(legend: Legend, owner: Axes | Figure, figure: Figure) -> tuple[Legend, float]:
    """The legend of a panel, or of the figure, made anew with one entry a line; its height."""
    words = (entry.get_text() for entry in legend.get_texts())
    shown = {name: h for name, h in zip(words, legend.legend_handles, strict=True) if h is not None}
    title = legend.get_title().get_text() or None
    legend.remove()
    new = owner.legend(
        list(shown.values()), list(shown), title=title, loc="lower left", frameon=False
    )
    return new, _small(new, figure)


def _small(legend: Legend, figure: Figure) -> float:
    """Set a legend for a narrow place; its height in points."""
    for entry in legend.get_texts():
        words = entry.get_text()
        entry.set_text(words if "\n" in words else textwrap.fill(words, _ENTRY))
        entry.set_fontsize(_SMALL)
    return float(legend.get_window_extent().height) * 72 / figure.dpi
