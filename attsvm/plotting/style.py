"""The style of every picture: colours, fonts and sizes, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib.style

from attsvm._utils.expected import one_of

# Inches. Pages show the picture about 1000 pixels wide: at 100 to the inch a point is 1.4 pixels.
SIZE = (10.0, 4.6)
DPI = 200

INK = "#222222"
QUIET = "#6b6b6b"
FAINT = "#d9d9d9"
MARGIN = "#0072b2"  # lines; the strip between them has the opacity below
STRIP_OPACITY = 0.10

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
_PAPER: dict[str, Any] = {
    **dict.fromkeys(
        (
            "font.size",
            "axes.titlesize",
            "axes.labelsize",
            "xtick.labelsize",
            "ytick.labelsize",
            "legend.fontsize",
        ),
        8.0,
    ),
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
