"""Optimality: the score gaps of tight neighbours, and the least norms of all selections."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm.errors import Unsupported
from attsvm.plotting import style
from attsvm.plotting.picture import one_panel
from attsvm.theory.optima import Optima, Optimality

_GOOD, _BAD = "#009e73", "#d55e00"
# Neighbours that are named below the axis.
_NAMED = 16


def optimality_picture(found: Optimality, *, ax: Any = None, look: str = "screen") -> Figure:
    """γ_kept − γ_token of each tight neighbour; what is not above 0 decides."""
    if not found.neighbours and not found.witnesses:
        raise Unsupported(f"there is no tight neighbour to draw: {found.message}")
    return one_panel(lambda one: _neighbours(one, found), ax, look)


def _neighbours(ax: Axes, found: Optimality) -> None:
    table = found.columns()
    gaps, against = np.array(table["score_gap"]), np.array(table["decides"])
    x = np.arange(len(gaps))
    for here, colour, mark, said in (
        (~against, _GOOD, "o", "scores lower than the kept token"),
        (against, _BAD, "X", "forbids, or leaves it open"),
    ):
        if here.any():
            ax.vlines(x[here], 0.0, gaps[here], color=colour, linewidth=style.LINE)
            ax.plot(x[here], gaps[here], mark, color=colour, markersize=6, label=said)
    ax.axhline(0.0, color=style.INK, linewidth=style.LINE)
    ax.set_xlim(-0.7, len(x) - 0.3)
    if len(x) <= _NAMED:
        named = [f"{i}:{t}" for i, t in zip(table["input"], table["token"], strict=True)]
        ax.set_xticks(x, named)
    low, high = min(0.0, float(gaps.min())), max(0.0, float(gaps.max()))
    ax.set_ylim(low - 0.08 * (high - low), high + 0.4 * (high - low))
    ax.set(xlabel="tight neighbours, input:token", ylabel="score of kept − of neighbour")
    ax.set_title({"global": "Globally optimal", "local": "Locally optimal",
                  "neither": "Not locally optimal"}.get(found.kind, "Not decided"))  # fmt: skip
    ax.legend(frameon=False, loc="upper left", handletextpad=0.3)


def optima_picture(found: Optima, *, ax: Any = None, look: str = "screen") -> Figure:
    """The least norm of every feasible selection, least first."""
    if not len(found.choices):
        raise Unsupported(f"no selection of {found.total:,} is feasible: there is none to draw")
    return one_panel(lambda one: _selections(one, found), ax, look)


def _selections(ax: Axes, found: Optima) -> None:
    table = found.columns()
    norms = np.asarray(table["least_norm"])
    x = np.arange(1, len(norms) + 1)
    local = np.array([verdict is True for verdict in table["local"]])
    open_ = np.array([verdict is None for verdict in table["local"]])
    best = np.array(table["global"])
    ax.plot(x, norms, color=style.QUIET, linewidth=style.LINE, label=f"feasible: {len(x):,}")
    for here, mark, colour, size, said in (
        (local, "o", style.MARGIN, 6, f"locally optimal: {int(local.sum()):,}"),
        (open_, "D", _BAD, 5, f"not decided: {int(open_.sum()):,}"),
        (best, "*", style.INK, 12, "globally optimal"),
    ):
        if here.any():
            ax.plot(x[here], norms[here], mark, color=colour, markersize=size, label=said)
    if norms.max() > 20 * norms[norms > 0].min(initial=norms.max()):
        ax.set_yscale("log")
    ax.set(xlabel="feasible selections, least norm first", ylabel="least norm")
    ax.set_title(f"{found.total:,} selections")
    ax.legend(frameon=False, loc="best", handletextpad=0.4)
