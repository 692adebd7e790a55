"""What a reader asks of a picture: that every line is named, and that nothing is cut."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attsvm.plotting.style import FAINT

# How something drawn looks: its colour, and its dashes or, without a line, its mark.
Look = tuple[str, str]

# The word, or the sign, that explains dashes and marks.
WORDS = {":": "dotted", "--": "dashed", "*": "★", "^": "▲", ".": "dots"}
DASHED = ("--", ":", "-.")


def unnamed(figure: Figure) -> list[str]:
    """Panels with lines or marks of several looks of which one is not named.

    A look is named by a legend of the figure that shows it: dashes with their dashes, a line or a
    mark also by any other that is not dashed, in its colour. It is named as well by a text of its
    colour in the panel; by a word for its dashes or its mark in a title or in the name of an axis;
    for dashes, by a legend that shows them in grey beside the colour; and for a grey line by a text
    beside it. The one look in colour of a panel is named by its title, marks by their ticks.
    """
    named = {look for legend in _legends(figure) for look in _shown(legend)}
    plain = {colour for colour, style in named if style not in DASHED}
    named |= {(colour, style) for colour, _ in named for grey, style in named if _is_grey(grey)}
    titles = [legend.get_title().get_text() for legend in _legends(figure)]
    found = []
    for ax in figure.axes:
        looks = {look for artist in (*ax.lines, *ax.collections) for look in _look(artist)}
        written = {to_hex(text.get_color()) for text in ax.texts}
        said = " ".join(
            [*titles, ax.get_title("left"), ax.get_xlabel(), figure.axes[0].get_ylabel()]
        )
        missing = {
            (colour, style)
            for colour, style in looks - named
            if not (colour in plain and style not in DASHED)
            and colour not in written
            and WORDS.get(style, "nothing") not in said
            and not (_is_grey(colour) and ax.texts)
        }
        coloured = {look for look in looks if not _is_grey(look[0])}
        if len(coloured) == 1:
            missing -= coloured
        ticks = [label.get_text() for label in ax.get_xticklabels()]
        by_ticks = {look[1] for look in looks} == {"marks"} and len(ticks) == len(looks)
        if len(looks) > 1 and missing and not by_ticks:
            found.append(f"{ax.get_title('left') or ax.get_ylabel()}: {sorted(missing)}")
    return found


def _is_grey(colour: str) -> bool:
    return len({colour[1:3], colour[3:5], colour[5:7]}) == 1


def _legends(figure: Figure) -> Iterator[Legend]:
    yield from figure.legends
    yield from (legend for ax in figure.axes if (legend := ax.get_legend()) is not None)


def _shown(legend: Legend) -> Iterator[Look]:
    """The looks of a legend's entries: a line with marks names the marks as well."""
    for handle in legend.legend_handles:
        for colour, style in _look(handle, shown=True):
            yield colour, style
            if isinstance(handle, Line2D) and handle.get_marker() not in ("None", None, ""):
                yield colour, str(handle.get_marker())


def _look(artist: object, *, shown: bool = False) -> Iterator[Look]:
    if isinstance(artist, Line2D):
        colour = to_hex(artist.get_color())
        drawn = shown or len(artist.get_xdata(orig=True)) > 0
        if drawn and artist.get_visible() and colour != FAINT:
            line = artist.get_linestyle()
            yield colour, str(artist.get_marker()) if line == "None" else line
    elif isinstance(artist, PathCollection):
        for colour in {to_hex(c) for c in artist.get_facecolor()}:
            yield colour, "marks"
    elif shown and isinstance(artist, LineCollection):  # the bars of points with errors
        for colour in artist.get_color():
            yield to_hex(colour), "any"
    elif shown and isinstance(artist, Patch):
        yield to_hex(artist.get_facecolor()), "patch"


def cut(figure: Figure) -> list[str]:
    """Texts that leave the figure, by more than a point."""
    figure.draw_without_rendering()
    page, slack = figure.bbox, figure.dpi / 72
    found = []
    for ax in filter(Axes.get_visible, figure.axes):
        for text in _texts(ax):
            box = text.get_window_extent()
            if box.x0 < -slack or box.x1 > page.x1 + slack or box.y0 < -slack:
                found.append(text.get_text())
    for legend in _legends(figure):
        box = legend.get_window_extent()
        if box.x0 < -slack or box.x1 > page.x1 + slack or box.y0 < -slack:
            found.append("legend: " + legend.get_texts()[0].get_text())
    return found


def _texts(ax: Axes):
    parts = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
    (low, high), (down, up) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    parts += [t.label1 for t in ax.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
    parts += [t.label1 for t in ax.yaxis.get_major_ticks() if down <= t.get_loc() <= up]
    return [text for text in parts if text.get_visible() and text.get_text()]
