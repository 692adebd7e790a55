"""The margins of a selection, least first: those of a certificate, and of a run beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm.certificate import Certificate
from attsvm.errors import Unsupported
from attsvm.plotting import style
from attsvm.plotting.picture import one_panel
from attsvm.theory.outcome import Outcome

# Beyond this many rows a line is drawn without marks.
_MARKED = 400


def certificate_picture(best: Certificate, *, ax: Any = None, look: str = "screen") -> Figure:
    """Margins over right-hand sides, and the rows that carry the solution."""
    if best.W is None:
        raise Unsupported(f"there are no margins to draw: {best.message}")
    if not best.problem.m:
        raise Unsupported("there are no margins to draw: the problem has ties alone")
    return one_panel(lambda one: _certificate(one, best), ax, look)


def _certificate(ax: Axes, best: Certificate) -> None:
    scale = np.where(best.problem.b > 0, best.problem.b, 1.0)
    values = best.margins / scale
    order = np.argsort(values, kind="stable")
    x, y = np.arange(1, len(order) + 1), values[order]
    colour = style.colour(best.norm.name)
    ax.plot(x, y, color=style.QUIET, linewidth=style.LINE, drawstyle="steps-mid")
    weight = best.multipliers[order]
    held = weight > 1e-9 * weight.max(initial=0.0)
    if len(x) <= _MARKED:
        ax.plot(x[~held], y[~held], "o", markersize=3.5, markerfacecolor="white", color=style.QUIET)
    ax.plot(
        x[held], y[held], "o", markersize=5, color=colour, label=f"support W: {int(held.sum()):,}"
    )
    ax.axhline(1.0, color=colour, linewidth=style.LINE, linestyle=":")
    ax.set_ylim(bottom=min(0.0, float(y.min(initial=0.0))))
    ax.set(xlabel="margins, least first", ylabel="margin / right-hand side")
    ax.set_title(f"{best.norm.name}: least norm {best.upper:.6g}")
    ax.legend(frameon=False, loc="upper left")
    _whole(ax, len(x))


def outcome_picture(found: Outcome, *, ax: Any = None, look: str = "screen") -> Figure:
    """The run's margins beside the best possible, each over the norm of its W."""
    best = found.certificate
    if best is None or best.W is None:
        said = "no norm is predicted" if best is None else best.message
        raise Unsupported(f"there is no solution to draw the run beside: {said}")
    return one_panel(lambda one: _outcome(one, found), ax, look)


def _outcome(ax: Axes, found: Outcome) -> None:
    table, best = found.columns(), found.certificate
    order = np.lexsort((table["share"], table["best"]))
    x = np.arange(1, len(order) + 1)
    norm = "" if best is None else best.norm.name
    ax.plot(
        x,
        table["best"][order],
        color=style.colour(norm),
        linewidth=style.LINE * 1.5,
        drawstyle="steps-mid",
        label=f"{norm} solution",
    )
    ax.plot(
        x,
        table["share"][order],
        "o" if len(x) <= _MARKED else ".",
        color=style.INK,
        markersize=4 if len(x) <= _MARKED else 2,
        label="this W",
    )
    ax.axhline(1.0, color=style.QUIET, linewidth=style.LINE, linestyle=":")
    low = float(np.nanmin(table["share"], initial=0.0))
    ax.set_ylim(bottom=min(0.0, low))
    ax.set(xlabel="margins, least first", ylabel="margin / norm; best least margin is 1")
    ax.set_title(f"{found.state}: share {found.margin_share:.4f}")
    ax.legend(frameon=False, loc="upper left")
    _whole(ax, len(x))


def _whole(ax: Axes, count: int) -> None:
    """Whole numbers below the axis of so many rows."""
    ax.set_xlim(0.5, count + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
