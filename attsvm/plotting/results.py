"""The pictures of results: margins, of a certificate and of an outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm.certificate import Certificate
from attsvm.errors import Unsupported
from attsvm.plotting import style
from attsvm.plotting.style import one_panel
from attsvm.plotting.training import comparison_picture, path_picture, sentences_picture
from attsvm.theory.outcome import Outcome

# Beyond this many rows a line is drawn without marks.
_MARKED = 400


@one_panel
def certificate_picture(ax: Axes, best: Certificate) -> None:
    """Margins over right-hand sides, and the rows that carry the solution."""
    if best.W is None:
        raise Unsupported(f"there are no margins to draw: {best.message}")
    if not best.problem.m:
        raise Unsupported("there are no margins to draw: the problem has ties alone")
    values = best.margins / np.where(best.problem.b > 0, best.problem.b, 1.0)
    order = np.argsort(values, kind="stable")
    x, y, weight = np.arange(1, len(order) + 1), values[order], best.multipliers[order]
    held = weight > 1e-9 * weight.max(initial=0.0)
    colour = style.colour(best.norm.name)
    _steps(ax, x, y, colour=style.QUIET)
    if len(x) <= _MARKED:
        ax.plot(x[~held], y[~held], "o", markersize=3.5, markerfacecolor="white", color=style.QUIET)
    label = f"support W: {int(held.sum()):,}"
    ax.plot(x[held], y[held], "o", markersize=5, color=colour, label=label)
    ax.set(xlabel="margins, least first", ylabel="margin / right-hand side")
    ax.set_title(f"{best.norm.name}: least norm {best.upper:.6g}")
    ax.legend(frameon=False, loc="upper left")


@one_panel
def outcome_picture(ax: Axes, found: Outcome) -> None:
    """The run's margins beside the best possible, each over the norm of its W."""
    best = found.certificate
    if best is None or best.W is None:
        reason = "no norm is predicted" if best is None else best.message
        raise Unsupported(f"there is no solution to draw the run beside: {reason}")
    table, norm = found.columns(), best.norm.name
    order = np.lexsort((table["share"], table["best"]))
    x, y = np.arange(1, len(order) + 1), table["share"][order]
    _steps(ax, x, table["best"][order], colour=style.colour(norm), label=f"{norm} solution")
    ax.plot(x, y, "o" if len(x) <= _MARKED else ",", color=style.INK, ms=4, label="this W")
    ax.set_ylim(bottom=min(0.0, float(np.nanmin(y, initial=0.0))))
    ax.set(xlabel="margins, least first", ylabel="margin / norm; best least margin is 1")
    ax.set_title(f"{found.state}: share {found.margin_share:.4f}")
    ax.legend(frameon=False, loc="upper left")


def _steps(ax: Axes, x: Any, y: Any, *, colour: str, label: str | None = None) -> None:
    """Sorted values over the whole numbers x, above a dotted line at 1."""
    ax.plot(x, y, color=colour, linewidth=style.LINE, drawstyle="steps-mid", label=label)
    ax.axhline(1.0, color=style.QUIET, linewidth=style.LINE, linestyle=":")
    ax.set(xlim=(0.5, len(x) + 0.5), ylim=(min(0.0, float(np.nanmin(y, initial=0.0))), None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


# What `plot()` draws, by kind of result.
PICTURES: dict[str, Callable[..., Figure]] = {
    "certificate": certificate_picture,
    "comparison": comparison_picture,
    "outcome": outcome_picture,
    "path": path_picture,
    "sentences": sentences_picture,
}
