"""The style of every picture: colours, fonts and sizes, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib.style

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
}


def styled() -> AbstractContextManager[None]:
    """A context in which figures are built and saved in this style, whatever the user's own is."""
    return matplotlib.style.context(["default", _SETTINGS])


def colour(norm: str) -> str:
    """The colour of a norm; ink for one that has none."""
    return COLOURS.get(norm, INK)
