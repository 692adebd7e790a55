"""The pictures of results: margins, optima, regularization paths, proofs, basins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm.certificate import Certificate
from attsvm.errors import Unsupported
from attsvm.plotting import style
from attsvm.plotting.style import one_panel
from attsvm.plotting.training import (
    comparison_picture,
    path_picture,
    sentences_picture,
    stages_picture,
)
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


@one_panel
def outcome_picture(ax: Axes, found: Outcome) -> None:
    """The run's margins beside the best possible, each over the norm of its W."""
    best = found.certificate
    if best is None or best.W is None:
        reason = "no norm is predicted" if best is None else best.message
        raise Unsupported(f"there is no solution to draw the run beside: {reason}")
    table, norm = found.columns(), best.norm.name
    order = np.lexsort((table["share"], table["best"]))
    x = np.arange(1, len(order) + 1)
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


_GOOD, _BAD = "#009e73", "#d55e00"
# Neighbours that are named below the axis.
_NAMED = 16


@one_panel
def optimality_picture(ax: Axes, found: Optimality) -> None:
    """γ_kept − γ_token of each tight neighbour; what is not above 0 decides."""
    if not found.neighbours and not found.witnesses:
        raise Unsupported(f"there is no tight neighbour to draw: {found.message}")
    table = found.columns()
    gaps, against = np.array(table["score_gap"]), np.array(table["decides"])
    x = np.arange(len(gaps))
    for here, colour, mark, label in (
        (~against, _GOOD, "o", "scores lower than the kept token"),
        (against, _BAD, "X", "forbids, or leaves it open"),
    ):
        if here.any():
            ax.vlines(x[here], 0.0, gaps[here], color=colour, linewidth=style.LINE)
            ax.plot(x[here], gaps[here], mark, color=colour, markersize=6, label=label)
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


@one_panel
def optima_picture(ax: Axes, found: Optima) -> None:
    """The least norm of every feasible selection, least first."""
    if not len(found.choices):
        raise Unsupported(f"no selection of {found.total:,} is feasible: there is none to draw")
    table = found.columns()
    norms = np.asarray(table["least_norm"])
    x = np.arange(1, len(norms) + 1)
    local = np.array([verdict is True for verdict in table["local"]])
    open_ = np.array([verdict is None for verdict in table["local"]])
    best = np.array(table["global"])
    ax.plot(x, norms, color=style.QUIET, linewidth=style.LINE, label=f"feasible: {len(x):,}")
    for here, mark, colour, size, label in (
        (local, "o", style.MARGIN, 6, f"locally optimal: {int(local.sum()):,}"),
        (open_, "D", _BAD, 5, f"not decided: {int(open_.sum()):,}"),
        (best, "*", style.INK, 12, "globally optimal"),
    ):
        if here.any():
            ax.plot(x[here], norms[here], mark, color=colour, markersize=size, label=label)
    if norms.max() > 20 * norms[norms > 0].min(initial=norms.max()):
        ax.set_yscale("log")
    ax.set(xlabel="feasible selections, least norm first", ylabel="least norm")
    ax.set_title(f"{found.total:,} selections")
    ax.legend(frameon=False, loc="best", handletextpad=0.4)


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
    ax.plot(t, proof.bound(t), color="#009e73", linewidth=style.LINE * 1.6, label="proved bound")
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
    ax.plot(angle, norm, color=style.MARGIN, linewidth=style.LINE * 1.5)
    ax.set_yscale("log")
    top = float(norm.max()) * 1.5
    ax.fill_between(angle, norm, top, color=style.MARGIN, alpha=0.12, linewidth=0)
    ax.set_ylim(top=top)
    ax.set_xlim(left=0)
    ax.text(0.03, 0.93, "held, proved", transform=ax.transAxes, color=style.MARGIN, va="top")
    ax.set(xlabel="angle to the max-margin direction, degrees", ylabel="‖W‖ of the start")
    ax.set_title(f"{held.optimizer}, steps up to {held.lr:g}")


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
    "stages": stages_picture,
}
