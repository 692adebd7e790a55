"""The tour: one selection solved and certified in every norm, and the picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.datasets.instances import path_picture_2
from attsvm.errors import BadTokens, Unsupported
from attsvm.plotting import style
from attsvm.plotting.style import write_figure
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

# Every norm; the first is the one whose margins are drawn.
NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.5", "l3")
# The input whose directions are compared across norms.
SHOWN = 0
# Tips closer than this, in units of the tokens, share one label.
_SAME = 0.02
# In the comparison arrows are longer than W z by this, and labels this far apart.
_STRETCH = 1.35
_LABEL = 0.21


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
    with style.styled():
        files = out / "tour.svg", out / "tour.png"
        write_figure(_picture(found, rows), *files, title="attsvm tour", about=_in_words(rows))
    return rows


def draw(certificate: Certificate, ax: Axes | None = None, *, which: int = 0) -> Axes:
    """The Axes (new ones unless given) with input `which` of a planar problem and its margin.

    Lines of equal logit xᵀWz_i are perpendicular to W z_i. The strip runs from the selected token
    ★ to where the logit is 1 less: the other tokens lie beyond it, the ringed (tight) ones on its
    edge.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0])))
    >>> ax = draw(best)
    >>> ax.figure.savefig("margin.png")  # doctest: +SKIP
    """
    view = _view(certificate, which)
    if ax is None:
        ax = Figure().add_subplot()
    h, edge = view.h, view.selected - view.h / (view.h @ view.h)  # (selected − edge)ᵀ h = 1
    points = np.vstack([view.others, view.selected, view.selected + h])
    along = np.array([-h[1], h[0]]) / np.linalg.norm(h)
    ends = np.array([[-1.0], [1.0]]) * along * 10 * np.ptp(points, axis=0).max()
    ax.fill(
        *np.vstack([view.selected + ends, edge + ends[::-1]]).T,
        color=style.MARGIN,
        alpha=style.STRIP_OPACITY,
        linewidth=0,
        zorder=0,
    )
    for start, dash in ((view.selected, (0, (4, 3))), (edge, "solid")):
        ax.plot(*(start + ends).T, color=style.MARGIN, linewidth=style.LINE, linestyle=dash)
    _tokens(ax, view)
    ax.plot(
        *view.others[view.tight].T,
        "o",
        markersize=style.RING,
        markerfacecolor="none",
        markeredgecolor=style.MARGIN,
        markeredgewidth=1.4,
    )
    _arrow(ax, view.selected, view.selected + h, style.MARGIN)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.15 * (high - low).max()
    _frame(ax, low - pad, high + pad)
    return ax


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
    ax.plot(
        *view.others.T, "o", color=style.QUIET, markersize=style.TOKEN, markeredgewidth=0, zorder=3
    )
    ax.plot(
        *view.selected,
        "*",
        color=style.INK,
        markersize=style.SELECTED,
        markeredgecolor="white",
        markeredgewidth=0.8,
        zorder=6,
    )


def _arrow(
    ax: Axes, start: Floats, end: Floats, colour: str, *, zorder: float = 4, width: float = 1
) -> None:
    ax.annotate(
        "",
        xy=(end[0], end[1]),
        xytext=(start[0], start[1]),
        zorder=zorder,
        arrowprops={
            "arrowstyle": "-|>,head_width=0.25,head_length=0.5",
            "color": colour,
            "linewidth": style.ARROW * width,
            "shrinkA": 0,
            "shrinkB": 0,
            "joinstyle": "miter",
        },
    )


def _frame(ax: Axes, low: Any, high: Any) -> None:
    """Equal scales that fill the Axes and hold the box from low (2,) to high (2,); no ticks."""
    box = ax.get_window_extent()
    start, end = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    scale = ((end - start) / (box.width, box.height)).max()
    half = 0.5 * scale * np.array([box.width, box.height])
    (left, down), (right, up) = (start + end) / 2 - half, (start + end) / 2 + half
    ax.set(xlim=(left, right), ylim=(down, up), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.spines[:].set(visible=True, color=style.FAINT)


def _picture(found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> Figure:
    """Two inputs with their margins, one input in every norm, and the certified gaps."""
    figure = Figure(figsize=style.SIZE)
    top, bottom = 0.915, 0.215
    height = (top - bottom - 0.02) / 2
    _margins([figure.add_axes((0.012, y, 0.245, height)) for y in (top - height, bottom)], found[0])
    _fan(figure.add_axes((0.283, bottom, 0.345, top - bottom)), found)
    _gaps(figure.add_axes((0.72, bottom + 0.10, 0.19, top - bottom - 0.10)), found, rows)
    figure.text(0.012, 0.025, _caption(rows), va="bottom", linespacing=1.5)
    return figure


def _margins(axes: Sequence[Axes], best: Certificate) -> None:
    """Each input with the strip of its solution, all on one scale."""
    for i, ax in enumerate(axes):
        draw(best, ax, which=i)
        view = _view(best, i)
        up = np.sign(view.h[1])
        _frame(ax, (-1.5, -1.1 if up > 0 else -1.35), (2.15, 1.35 if up > 0 else 1.1))
        tip = view.selected + view.h
        ax.text(tip[0] + 0.08, tip[1] - 0.1 * up, f"W z{'₀₁'[i]}", color=style.MARGIN, va="center")
        corner = 0.03 if up > 0 else 0.97
        ax.text(
            0.02,
            corner,
            f"input {i}",
            transform=ax.transAxes,
            color=style.QUIET,
            va="bottom" if up > 0 else "top",
        )
        middle = view.selected - 0.5 * view.h / (view.h @ view.h)
        slope = np.degrees(np.arctan2(-view.h[0], view.h[1]))
        ax.text(
            middle[0],
            middle[1],
            "logit gap 1",
            color=style.MARGIN,
            ha="center",
            va="center",
            rotation=(slope + 90) % 180 - 90,
            rotation_mode="anchor",
        )
    axes[0].set_title("The max-margin W selects ★")


def _fan(ax: Axes, found: Sequence[Certificate]) -> None:
    """W z of one input and the edge of its margin in every norm."""
    ax.set_title(f"The norm decides the direction (input {SHOWN})")
    first = _view(found[0], SHOWN)
    _tokens(ax, first)
    shown: list[tuple[Floats, list[str]]] = []
    for best in found:
        name, view = best.norm.name, _view(best, SHOWN)
        tip = view.selected + _STRETCH * view.h
        same = next((names for other, names in shown if np.abs(other - tip).max() < _SAME), None)
        if same is None:
            shown.append((tip, [name]))
        else:
            same.append(name)
        # A second norm with the same direction is drawn thinner, so that both colours are seen.
        width = 1.0 if same is None else 0.4
        colour = style.colour(name)
        _arrow(ax, view.selected, tip, colour, zorder=4 + (same is not None), width=width)
        h = view.h
        ends = np.array([[-9.0], [9.0]]) * np.array([-h[1], h[0]]) / np.linalg.norm(h)
        line = view.selected - h / (h @ h) + ends
        ax.plot(*line.T, color=colour, linewidth=style.LINE * width, zorder=1)
    shown.sort(key=lambda pair: pair[0][1], reverse=True)
    height = np.inf
    for tip, names in shown:
        height = min(tip[1], height - _LABEL)
        ax.text(tip[0] + 0.09, height, ", ".join(names), va="center")
    _frame(ax, (-1.3, -1.3), (2.65, 2.33))


def _gaps(ax: Axes, found: Sequence[Certificate], rows: Sequence[dict[str, Any]]) -> None:
    """The relative width of [lower, upper] for each norm, on a logarithmic scale."""
    ax.set_title("Every answer is certified", x=-0.36)
    # In the order of the directions beside, from above.
    order = sorted(zip(found, rows, strict=True), key=lambda pair: -_view(pair[0], SHOWN).h[1])
    floor = 1e-16
    beside = ax.get_yaxis_transform()
    for place, (best, row) in enumerate(order):
        colour = style.colour(row["norm"])
        gap = max(row["gap"], floor)
        ax.plot([floor, gap], [place, place], color=colour, linewidth=style.ARROW)
        ax.plot(gap, place, "o", color=colour, markersize=7)
        ax.plot(best.tolerance, place, "|", color=style.INK, markersize=11, markeredgewidth=1.4)
        ax.text(1.40, place, f"{row['upper']:.5f}", transform=beside, va="center", ha="right")
    ax.text(1.40, -0.75, "least norm", transform=beside, color=style.QUIET, va="center", ha="right")
    ax.text(order[0][0].tolerance, -0.75, "tolerance", color=style.QUIET, va="center", ha="center")
    ax.set_xscale("log")
    ax.set(
        xlim=(floor, 1e-5),
        ylim=(len(rows) - 0.4, -1.0),
        xticks=[1e-15, 1e-12, 1e-9, 1e-6],
        xlabel="relative gap, upper / lower − 1",
    )
    ax.xaxis.set_major_formatter("{x:.0e}")
    ax.minorticks_off()
    ax.set_yticks(range(len(rows)), [row["norm"] for _, row in order])
    ax.tick_params(axis="y", length=0)


def _caption(rows: Sequence[dict[str, Any]]) -> str:
    worst = max(rows, key=lambda row: row["gap"])
    exact = sum(row["exact"] for row in rows)
    count = f"all {exact}" if exact == len(rows) else f"{exact} of {len(rows)}"
    return (
        "Of all W that put the logit xᵀW z of token ★ at least 1 above every other token's, the "
        "one of least norm is the max-margin solution (left: in\nFrobenius norm; ringed tokens "
        "lie on the edge of the strip). Which W that is depends on the norm (middle: directions "
        "W z, and edges).\nEach least norm is enclosed in [lower, upper]: "
        f"{count} intervals hold in exact arithmetic, and the largest relative gap is "
        f"{worst['gap']:.1e} ({worst['norm']})."
    )


def _in_words(rows: Sequence[dict[str, Any]]) -> str:
    """What the picture holds, for those who cannot see it and for programs."""
    values = ", ".join(f"{row['norm']} {row['upper']:.6f}" for row in rows)
    return f"Least norms of one token selection, certified: {values}."
