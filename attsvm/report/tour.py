"""The tour: one selection solved and certified in every norm, and the picture of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attsvm.certificate import Certificate
from attsvm.data.path_picture import path_picture_2
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem import Problem
from attsvm.report import style
from attsvm.selection import Selection
from attsvm.solvers.front import solve
from attsvm.tokens import Floats, Tokens

# Every norm, in the order in which the picture lists them.
TOUR_NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.5", "l3")
# The input whose directions are compared across norms.
_SHOWN = 0
# Directions closer than this, in radians, share one label.
_SAME = 0.005


def tour(out: Path) -> list[dict[str, Any]]:
    """A row for each norm (norm, lower, upper, gap, rank, exact), drawn to out/tour.svg and .png.

    The instance is `path-picture-2`: two inputs of five tokens in the plane, the best-scoring
    token of each selected. `exact` says whether both bounds hold in rational arithmetic. The
    folder is made if it is missing; whole files appear, or none.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadTokens(f"{out} cannot be a folder ({error.strerror}); give another") from error
    arrays = path_picture_2()
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    problem = Problem.of(tokens, Selection.best(tokens, arrays["v"]))
    found = [solve(problem, norm).require() for norm in TOUR_NORMS]
    rows: list[dict[str, Any]] = [
        {
            "norm": best.norm.name,
            "lower": best.lower,
            "upper": best.upper,
            "gap": best.gap,
            "rank": best.rank,
            "exact": best.verify(exact=True).ok,
        }
        for best in found
    ]
    with style.look():
        figure = _picture(found, rows)
        _write(figure, out, _sentence(rows))
    return rows


def draw(certificate: Certificate, ax: Axes | None = None, *, which: int = 0) -> Axes:
    """The Axes (new ones unless given) with input `which` of a planar problem and its margin.

    Lines of equal logit xᵀWz_i are perpendicular to W z_i. The strip runs from the selected token
    ★ down to logit 1 less: every other token of the input lies beyond it, the ringed (tight) ones
    on its edge.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0])))
    >>> len(draw(best).patches)
    2
    """
    selected, others, tight = _planar(certificate, which)
    h = _direction(certificate, which)
    if ax is None:
        ax = Figure().add_subplot()
    across = np.array([-h[1], h[0]]) / np.linalg.norm(h)
    edge = selected - h / (h @ h)  # (selected − x)ᵀ h = 1
    far = 10 * (np.ptp(np.vstack([others, selected]), axis=0).max() + 1)
    ends = np.array([[-far], [far]]) * across
    ax.fill(
        *np.vstack([selected + ends, edge + ends[::-1]]).T, color=style.STRIP,
        alpha=style.STRIP_OPACITY, linewidth=0, zorder=0,
    )  # fmt: skip
    for start, dash in ((selected, (0, (4, 3))), (edge, "solid")):
        ax.plot(*(start + ends).T, color=style.STRIP, linewidth=style.LINE, linestyle=dash)
    _tokens(ax, selected, others)
    ax.plot(
        *others[tight].T, "o", markersize=style.RING, markerfacecolor="none",
        markeredgecolor=style.STRIP, markeredgewidth=1.4,
    )  # fmt: skip
    _arrow(ax, selected, h, style.STRIP)
    _frame(ax, np.vstack([others, selected, selected + h]))
    return ax


def _planar(certificate: Certificate, which: int) -> tuple[Floats, Floats, Any]:
    """The selected token (2,), the others (k, 2) and which of those are tight (k,)."""
    problem = certificate.problem
    if problem.keys.shape[1] != 2 or certificate.W is None:
        raise Unsupported(f"a picture needs tokens in the plane and a W; this has d = {problem.shape[0]}")
    mine = (problem.query == which).nonzero()[0]
    if not len(mine) or (problem.lo[mine] < 0).any() or len(set(problem.hi[mine])) != 1:
        raise Unsupported(f"input {which} does not select one token over others: nothing to draw")
    keys = np.asarray(problem.keys, dtype=np.float64)
    return keys[problem.hi[mine[0]]], keys[problem.lo[mine]], certificate.tight.tight[mine]


def _direction(certificate: Certificate, which: int) -> Floats:
    """W z_i (2,)."""
    return certificate.W @ certificate.problem.queries[which]


def _tokens(ax: Axes, selected: Floats, others: Floats) -> None:
    ax.plot(*others.T, "o", color=style.QUIET, markersize=style.TOKEN, markeredgewidth=0, zorder=3)
    ax.plot(
        *selected, "*", color=style.INK, markersize=style.SELECTED, markeredgecolor="white",
        markeredgewidth=0.8, zorder=5,
    )  # fmt: skip


def _arrow(ax: Axes, start: Floats, h: Floats, colour: str, *, zorder: float = 4) -> None:
    ax.annotate(
        "", xy=tuple(start + h), xytext=tuple(start), zorder=zorder,
        arrowprops={
            "arrowstyle": "-|>,head_width=0.25,head_length=0.5", "color": colour,
            "linewidth": style.ARROW, "shrinkA": 0, "shrinkB": 0, "joinstyle": "miter",
        },
    )  # fmt: skip


def _frame(ax: Axes, points: Floats) -> None:
    """Equal scales round the points, no ticks: only directions and distances count."""
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.12 * (high - low).max()
    ax.set(xlim=(low[0] - pad, high[0] + pad), ylim=(low[1] - pad, high[1] + pad))
    ax.set_aspect("equal", adjustable="box")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=style.FAINT)


def _picture(found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> Figure:
    """Two inputs with their margins, one input in every norm, and the certified gaps."""
    figure = Figure(figsize=style.SIZE)
    FigureCanvasAgg(figure)
    left = [figure.add_axes((0.012, y, 0.275, 0.335)) for y in (0.555, 0.19)]
    _margins(left, found[0])
    _fan(figure.add_axes((0.305, 0.19, 0.33, 0.70)), found)
    _gaps(figure.add_axes((0.735, 0.275, 0.175, 0.615)), found, rows)
    figure.text(0.012, 0.03, _caption(rows), va="bottom", linespacing=1.45, color=style.INK)
    return figure


def _margins(axes: Sequence[Axes], best: Certificate) -> None:
    """Each input with the strip of the Frobenius solution, all on one scale."""
    for i, ax in enumerate(axes):
        draw(best, ax, which=i)
        selected, h = _planar(best, i)[0], _direction(best, i)
        ax.set(xlim=(-1.55, 2.05), ylim=(-1.2, 1.3) if i == 0 else (-1.3, 1.2))
    axes[0].set_title("Widest margin for the selected token")


def _fan(ax: Axes, found: Sequence[Certificate]) -> None:
    """W z of one input in every norm, at its true length."""


def _gaps(ax: Axes, found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> None:
    """The relative width of [lower, upper] for each norm, on a logarithmic scale."""


def _caption(rows: Sequence[dict[str, Any]]) -> str:
    return ""


def _sentence(rows: Sequence[dict[str, Any]]) -> str:
    """What the picture holds, for those who cannot see it."""
    return ""


def _write(figure: Figure, out: Path, description: str) -> None:
    """Save both files beside their places, then rename."""
