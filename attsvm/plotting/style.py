"""The style of every picture: colours, fonts, sizes, sheets of panels, axes, and files.

A `Picture` is a Figure that keeps the style it was drawn in; files are written in one move.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm._utils.expected import one_of
from attsvm._utils.files import beside
from attsvm.errors import Unsupported

# Inches. Pages show the picture about 1000 pixels wide: at 100 to the inch a point is 1.4 pixels.
SIZE = (10.0, 4.6)
DPI = 200

INK = "#222222"
QUIET = "#6b6b6b"
FAINT = "#d9d9d9"
MARGIN = "#0072b2"  # lines; the strip between them has the opacity below
STRIP_OPACITY = 0.10
PROVED = "#009e73"

# One colour per norm: the set of Okabe and Ito, made to differ under every common colour blindness,
# without its yellow, which is too light on white.
COLOURS = {
    "frobenius": "#0072b2",
    "nuclear": "#d55e00",
    "spectral": "#009e73",
    "max": "#cc79a7",
    "l1": "#111111",
    "l1.5": "#e69f00",
    "l3": "#56b4e9",
}

# Points.
TEXT = 9.0
HEADING = 10.5
TOKEN = 5.5
SELECTED = 13.0
RING = 11.0
LINE = 1.1
ARROW = 2.0

# What tells curves apart without colour: dashes that differ also where lines are thin.
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (7, 4)),
    (0, (2, 3)),
)
# Grounds from dark to light, so that neighbours differ in grey too.
CURVES = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

# Inches: the usual width of a column of a paper, and the height of one of its panels, alone and
# beside another.
COLUMN, PANEL, SMALL = 3.25, 1.9, 1.5
LOOKS = ("screen", "paper")
FORMATS = (".svg", ".png", ".pdf")

_SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib, so the same on every machine
    "font.size": TEXT,
    "axes.titlesize": HEADING,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": TEXT,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",  # text keeps its place where the font is missing
    "svg.hashsalt": "attsvm",  # the same names of parts in every run
    "pdf.fonttype": 42,  # fonts as they are: publishers refuse the other kind
}
# In print: eight points everywhere, finer lines, titles that do not shout.
_SIZES = ("axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize")
_PAPER: dict[str, Any] = {
    **dict.fromkeys(("font.size", *_SIZES, "legend.fontsize"), 8.0),
    "axes.titleweight": "normal",
    "axes.titlepad": 4.0,
    "axes.linewidth": 0.6,
    "axes.labelpad": 2.0,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.25,
    "savefig.dpi": 300,
}


def styled(look: str = "screen") -> AbstractContextManager[None]:
    """A context in which figures are built and saved in this style, whatever the user's own is.

    look: "screen", or "paper" for a column of print.
    """
    check_look(look)
    more = [_PAPER] if look == "paper" else []
    return matplotlib.style.context(["default", _SETTINGS, *more])


def curve(k: int) -> dict[str, Any]:
    """Colour and dashes of curve number k: they differ in grey as well."""
    return {"color": CURVES[k % len(CURVES)], "linestyle": DASHES[k % len(DASHES)]}


def check_look(look: str) -> None:
    """Raises Unsupported unless there is such a style."""
    one_of(look, LOOKS, "style")


def colour(norm: str) -> str:
    """The colour of a norm; ink for one that has none."""
    return COLOURS.get(norm, INK)


class Picture(Figure):
    """A matplotlib Figure that is saved in the style it was drawn in, and shown by notebooks.

    look: "screen" or "paper". It belongs to no window: nothing has to be closed.
    """

    def __init__(self, *args: Any, look: str = "screen", **options: Any) -> None:
        super().__init__(*args, **options)
        self.look = look

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save as matplotlib does, with this picture's fonts and resolution."""
        with styled(self.look):
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=110)
        return drawn.getvalue()


def sheet(
    look: str,
    *,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (5.2, 3.6),
    across: int = 1,
) -> tuple[Picture, Any]:
    """A picture with panels (rows, columns); in print so many stand side by side, `across`.

    size: inches of the whole on a screen. Called inside `styled(look)`.
    """
    if look == "paper":
        rows, columns = -(-rows * columns // across), across
        size = (COLUMN, (PANEL if across == 1 else SMALL) * rows)
        pads: dict[str, Any] = {"w_pad": 0.02, "h_pad": 0.02, "hspace": 0.04}
    else:
        pads = {"wspace": 0.07 if rows == 1 else 0.05, "hspace": 0.08}
    made = Picture(figsize=size, look=look, layout=ConstrainedLayoutEngine(**pads))
    return made, made.subplots(rows, columns, squeeze=False)


def finish(figure: Figure, look: str) -> Figure:
    """The picture with the names of its axes cut at the semicolon in print: captions say more."""
    if look == "paper":
        for ax in figure.axes:
            ax.set_ylabel(ax.get_ylabel().partition(";")[0])
    return figure


def headline(figure: Figure, words: str) -> None:
    """Write one line on top of a figure, from the left."""
    figure.suptitle(words, x=0.01, ha="left", weight="bold", fontsize=HEADING)


def one_panel(drawing: Callable[..., None]) -> Callable[..., Figure]:
    """The picture of a result in the one panel that `drawing(axes, result, **options)` fills.

    It is drawn into `ax` where these are given: axes with a style of their own.
    """

    @wraps(drawing)
    def picture(result: Any, *, ax: Any = None, look: str = "screen", **options: Any) -> Figure:
        check_look(look)
        if ax is not None:
            if not isinstance(ax, Axes):
                raise Unsupported(f"ax is {type(ax).__name__}: give matplotlib Axes")
            drawing(ax, result, **options)
            return ax.get_figure(root=True) or Figure()
        with styled(look):
            made, grid = sheet(look)
            drawing(grid[0, 0], result, **options)
            return finish(made, look)

    return picture


def step_axis(ax: Axes, last: int) -> None:
    """Logarithmic from step 1; step 0 takes a tenth of the width, so that labels stay apart."""
    last = max(last, 1)
    ax.set_xscale("symlog", linthresh=1, linscale=max(0.12 * np.log10(last), 0.1))
    ax.set_xlim(0, last * 1.1)
    ax.set_xlabel("step")


def check_format(file: Path) -> None:
    """Raises an error unless the file's ending names a format."""
    if file.suffix not in FORMATS:
        raise Unsupported(f"{file.name}: a figure ends in one of {', '.join(FORMATS)}")


def write_figure(figure: Figure, *files: Path, title: str = "", about: str = "") -> None:
    """Write the figure to each file, in the format of its ending: whole files appear, or none.

    title, about: what its metadata say of it: title and description of the Dublin Core in an SVG,
    Title and Description of a PNG, Title and Subject of a PDF.
    """
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    made = []  # drawing takes a second or two, writing does not
    with styled(figure.look) if isinstance(figure, Picture) else nullcontext():
        if len(files) > 1:
            place_parts(figure)
        for file in files:
            check_format(file)
            texts = {"Title": title, "Subject" if file.suffix == ".pdf" else "Description": about}
            kept = {name: words for name, words in texts.items() if words}
            drawn, known = BytesIO(), undated.get(file.suffix, {})
            figure.savefig(drawn, format=file.suffix[1:], dpi=DPI, metadata=known | kept)
            made.append(drawn.getvalue())
    for file, data in zip(files, made, strict=True):
        with beside(file) as target:
            target.write_bytes(data)


def place_parts(figure: Figure) -> None:
    """Place the parts of a figure once and for all, before it is written to several files."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
