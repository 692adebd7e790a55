"""The pictures of results: margins, optima, regularization paths, proofs, basins."""

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
from attsvm.theory.convergence import Basin, ConvergenceProof
from attsvm.theory.optima import Optima, Optimality
from attsvm.theory.outcome import Outcome
from attsvm.theory.regularization_path.paths import RegPath

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


_BAD = "#d55e00"
# Neighbours that are named below the axis.
_NAMED = 16


@one_panel
def optimality_picture(ax: Axes, found: Optimality) -> None:
    """γ_kept − γ_token of each tight neighbour; what is not above 0 decides."""
    if not found.neighbours and not found.witnesses:
        raise Unsupported(f"there is no tight neighbour to draw: {found.message}")
    table = found.columns()
    gaps, against = np.array(table["score_gap"]), np.array(table["decides"])
    for here, colour, mark, label in (
        (~against, style.PROVED, "o", "scores lower than the kept token"),
        (against, _BAD, "X", "forbids, or leaves it open"),
    ):
        if here.any():
            x = here.nonzero()[0]
            ax.vlines(x, 0.0, gaps[here], color=colour, linewidth=style.LINE)
            ax.plot(x, gaps[here], mark, color=colour, markersize=6, label=label)
    ax.axhline(0.0, color=style.INK, linewidth=style.LINE)
    if len(gaps) <= _NAMED:
        named = zip(table["input"], table["token"], strict=True)
        ax.set_xticks(range(len(gaps)), [f"{i}:{t}" for i, t in named])
    ax.margins(0.1, 0.3)
    ax.set(xlabel="tight neighbours, input:token", ylabel="score of kept − of neighbour")
    ax.set_title({"global": "Globally optimal", "local": "Locally optimal",
                  "neither": "Not locally optimal"}.get(found.kind, "Not decided"))  # fmt: skip
    ax.legend(frameon=False, loc="upper left")


@one_panel
def optima_picture(ax: Axes, found: Optima) -> None:
    """The least norm of every feasible selection, least first."""
    if not len(found.choices):
        raise Unsupported(f"no selection of {found.total:,} is feasible: there is none to draw")
    table = found.columns()
    norms = np.asarray(table["least_norm"])
    x = np.arange(1, len(norms) + 1)
    ax.plot(x, norms, color=style.QUIET, linewidth=style.LINE, label=f"feasible: {len(x):,}")
    for verdict, mark, colour, label in (
        (True, "o", style.MARGIN, "locally optimal"),
        (None, "D", _BAD, "not decided"),
    ):
        here = np.array([one is verdict for one in table["local"]])
        if here.any():
            label = f"{label}: {int(here.sum()):,}"
            ax.plot(x[here], norms[here], mark, color=colour, markersize=6, label=label)
    best = np.array(table["global"])
    ax.plot(x[best], norms[best], "*", color=style.INK, markersize=12, label="globally optimal")
    if norms.max() > 20 * norms[norms > 0].min(initial=norms.max()):
        ax.set_yscale("log")
    ax.set(xlabel="feasible selections, least norm first", ylabel="least norm")
    ax.set_title(f"{found.total:,} selections")
    ax.legend(frameon=False, loc="best")


# Distances below this are rounding.
_FLOOR = 1e-16


@one_panel
def regpath_picture(ax: Axes, path: RegPath) -> None:
    """1 − correlation and 1 − margin share over the radius of the ball."""
    if path.target is None or path.target.W is None:
        raise Unsupported("there is no max-margin solution to draw the path beside")
    for values, dashes, colour, label in (
        (path.correlation, "solid", style.colour(path.norm.name), "1 − correlation"),
        (path.share, "dashed", style.INK, "1 − certified margin share"),
    ):
        ax.plot(path.radii, np.maximum(1 - values, _FLOOR), marker="o", markersize=3,
                color=colour, ls=dashes, linewidth=style.LINE * 1.3, label=label)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="radius of the ball", ylabel="distance")
    ax.set_title(f"{path.model}: least loss in {path.norm.name} balls")
    ax.legend(frameon=False, loc="lower left")


@one_panel
def proof_picture(ax: Axes, proof: ConvergenceProof, *, steps: int | None = None) -> None:
    """The proved bound on 1 − corr over the steps to come."""
    growth = proof.constants.get("growth", 0.0)
    if proof.theorem is None:
        raise Unsupported(f"there is no proof to draw: {proof.message}")
    if proof.theorem != "tube" or growth <= 0:
        raise Unsupported(
            f"there is no rate to draw: the {proof.theorem} theorem, for {proof.optimizer}, proves "
            "convergence without one"
        )
    last = 100 * max(int(proof.constants["rho"] / growth), 10) if steps is None else steps
    if last < 1:
        raise Unsupported(f"steps is {steps}: give a positive number of steps to come")
    t = np.unique(np.concatenate([[0.0], np.geomspace(1, last, 200).round()]))
    ax.plot(t, proof.bound(t), color=style.PROVED, label="proved bound")
    ax.set_xscale("symlog", linthresh=1, linscale=0.5)
    ax.set_xlim(0, last)
    ax.set_yscale("log")
    ax.set(xlabel="further steps", ylabel="1 − correlation, at most")
    ax.set_title(f"{proof.optimizer}, lr {proof.lr:g}: converges, proved")
    ax.legend(frameon=False, loc="lower left")


@one_panel
def basin_picture(ax: Axes, held: Basin) -> None:
    """The least norm of a start that is held, over its angle."""
    if not np.isfinite(held.norms).any():
        raise Unsupported("there is no cone to draw: no angle is held at any norm")
    table = held.columns()
    some = np.isfinite(table["least_norm"])
    angle, norm = table["angle"][some], table["least_norm"][some]
    top = float(norm.max()) * 1.5
    ax.semilogy(angle, norm, color=style.MARGIN, linewidth=style.LINE * 1.5)
    ax.fill_between(angle, norm, top, color=style.MARGIN, alpha=0.12, label="held, proved")
    ax.set(xlabel="angle to the max-margin direction, degrees", ylabel="‖W‖ of the start")
    ax.set(title=f"{held.optimizer}, steps up to {held.lr:g}", xlim=(0, None), ylim=(None, top))
    ax.legend(frameon=False, loc="upper left")


# What `plot()` draws, by kind of result.
PICTURES: dict[str, Callable[..., Figure]] = {
    "basin": basin_picture,
    "certificate": certificate_picture,
    "comparison": comparison_picture,
    "optima": optima_picture,
    "optimality": optimality_picture,
    "outcome": outcome_picture,
    "path": path_picture,
    "proof": proof_picture,
    "regpath": regpath_picture,
    "sentences": sentences_picture,
}
