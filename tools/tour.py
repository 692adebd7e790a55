"""The tour: one selection solved and certified in every norm, and the picture of it.

`python tools/tour.py FOLDER` writes the picture of the README: tour.svg, .png and -dark.png.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.datasets.instances import path_picture_2
from attsvm.errors import BadTokens, Unsupported
from attsvm.plotting import draw, style
from attsvm.plotting.style import Picture, write_figure
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

# Every norm; the first is the one whose margins are drawn.
NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.5", "l3")
# The input whose directions are compared across norms.
SHOWN = 0


def run_tour(out: Path) -> list[dict[str, Any]]:
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
    found = [solve(problem, norm).require() for norm in NORMS]
    names = ("lower", "upper", "gap", "rank")
    rows = [
        {"norm": best.norm.name, **{name: getattr(best, name) for name in names}}
        | {"exact": best.verify(exact=True).ok}
        for best in found
    ]
    with style.styled():
        files = out / "tour.svg", out / "tour.png"
        write_figure(_picture(found, rows), *files, title="attsvm tour", about=_in_words(rows))
    return rows


@dataclass(frozen=True, eq=False)
class _View:
    """One input in the plane: selected (2,), others (k, 2), tight (k,), h = W z_i (2,)."""

    selected: Floats
    others: Floats
    tight: Bools
    h: Floats


def _view(certificate: Certificate, which: int) -> _View:
    problem, W = certificate.problem, certificate.W
    if problem.shape[0] != 2 or W is None:
        raise Unsupported(
            f"a picture needs a W and tokens in the plane; d = {problem.shape[0]}, "
            f"status {certificate.status}"
        )
    mine = (problem.query == which).nonzero()[0]
    hi, lo = problem.hi[mine], problem.lo[mine]
    if not len(mine) or (lo < 0).any() or (hi != hi[0]).any():
        raise Unsupported(f"input {which} does not select one token over others: nothing to draw")
    keys = np.asarray(problem.keys, dtype=np.float64)
    return _View(keys[hi[0]], keys[lo], certificate.tight.tight[mine], W @ problem.queries[which])


def _tokens(ax: Axes, view: _View) -> None:
    ax.plot(*view.others.T, "o", color=style.QUIET, markersize=style.TOKEN, zorder=3)
    ax.plot(*view.selected, "*", color=style.INK, markersize=style.SELECTED, zorder=6)


def _arrow(ax: Axes, start: Floats, step: Floats, colour: str, **more: Any) -> None:
    ax.quiver(*start, *step, angles="xy", scale_units="xy", scale=1, color=colour, zorder=4, **more)


def _frame(ax: Axes, low: Floats, high: Floats) -> None:
    """The box from low (2,) to high (2,) on equal scales, without ticks."""
    (left, down), (right, up) = low, high
    ax.set(xlim=(left, right), ylim=(down, up), xticks=[], yticks=[])
    ax.set_aspect("equal")


def _picture(found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> Figure:
    """Two inputs with their margins, one input in every norm, and the certified gaps."""
    figure = Picture(figsize=style.SIZE, layout="constrained")
    axes = figure.subplot_mosaic("acd;bcd", width_ratios=(1.0, 1.3, 0.9))
    for i, panel in enumerate("ab"):
        draw(found[0], axes[panel], which=i)
        _frame(axes[panel], np.array([-1.5, -1.35]), np.array([2.15, 1.35]))
        axes[panel].text(0.98, 0.04, f"input {i}", transform=axes[panel].transAxes, ha="right")
    axes["a"].set_title("The max-margin W selects ★")
    _directions(axes["c"], found)
    _gaps(axes["d"], found, rows)
    figure.supxlabel(_caption(rows), x=0.01, ha="left", fontsize=style.TEXT)
    return figure


def _directions(ax: Axes, found: Sequence[Certificate]) -> None:
    """W z of one input and the edge of its margin in every norm."""
    view = _view(found[0], SHOWN)
    _tokens(ax, view)
    for k, best in enumerate(found):
        h, colour = _view(best, SHOWN).h, style.colour(best.norm.name)
        # Of two norms with one direction both are seen: the later arrow is thinner.
        _arrow(ax, view.selected, h, colour, width=0.014 - 0.0018 * k, label=best.norm.name)
        x, y = view.selected - h / (h @ h)
        ax.axline((x, y), (x - h[1], y + h[0]), color=colour, linewidth=style.LINE, zorder=1)
    ax.set_title(f"The norm decides the direction (input {SHOWN})")
    _frame(ax, np.array([-1.5, -1.3]), np.array([2.0, 2.1]))
    ax.legend(loc="upper left", fontsize="small", framealpha=0.9)


def _gaps(ax: Axes, found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> None:
    """The relative width of [lower, upper] for each norm, on a logarithmic scale."""
    names = [f"{row['norm']}\n{row['upper']:.5f}" for row in rows]
    gaps = [max(row["gap"], 1e-16) for row in rows]
    ax.barh(names, gaps, left=1e-17, color=[style.colour(row["norm"]) for row in rows], height=0.4)
    ax.plot([best.tolerance for best in found], names, "|", color=style.INK, markersize=11)
    ax.invert_yaxis()
    ax.set(
        xscale="log",
        xlim=(1e-17, 1e-5),
        xticks=[1e-16, 1e-12, 1e-8],
        xlabel="relative gap; |: tolerance",
    )
    ax.set_title("Every least norm is certified")


def _caption(rows: Sequence[dict[str, Any]]) -> str:
    worst = max(rows, key=lambda row: row["gap"])
    exact = sum(row["exact"] for row in rows)
    return (
        "Of all W that put the logit xᵀW z of token ★ at least 1 above every other token's, the "
        "one of least norm is the max-margin solution (left: in\nFrobenius norm; ringed tokens "
        "lie on the edge of the strip). Which W that is depends on the norm (middle: directions "
        "W z, and edges).\nEach least norm is enclosed in [lower, upper]: "
        f"{exact} of {len(rows)} intervals hold in exact arithmetic; the largest relative gap is "
        f"{worst['gap']:.1e} ({worst['norm']})."
    )


def _in_words(rows: Sequence[dict[str, Any]]) -> str:
    """What the picture holds, for those who cannot see it and for programs."""
    values = ", ".join(f"{row['norm']} {row['upper']:.6f}" for row in rows)
    return f"Least norms of one token selection, certified: {values}."


# The colours of a dark page: lightness turned round, hues kept, on the ground of the site.
_LUMINANCE = np.array([0.213, 0.715, 0.072])
_GROUND = np.array([0x13, 0x14, 0x16]) / 255


def darken(light: Path, dark: Path) -> None:
    """Write a picture in dark colours: each one inverted, its hue turned by half a circle."""
    inverted = 1.0 - imread(light)[..., :3]
    turned = np.clip(2.0 * (inverted @ _LUMINANCE)[..., None] - inverted, 0.0, 1.0)
    imsave(dark, _GROUND + turned * (1.0 - _GROUND))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tour")
    for row in run_tour(folder):
        print(row)
    darken(folder / "tour.png", folder / "tour-dark.png")
