"""The way to a limit that is known or proved: regularization paths, rates, basins."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm.errors import Unsupported
from attsvm.plotting import style
from attsvm.plotting.picture import one_panel
from attsvm.theory.convergence import Basin, ConvergenceProof
from attsvm.theory.regularization_path.paths import RegPath

# Distances below this are rounding.
_FLOOR = 1e-16


def regpath_picture(path: RegPath, *, ax: Any = None, look: str = "screen") -> Figure:
    """1 − correlation and 1 − margin share over the radius of the ball."""
    if path.target is None or path.target.W is None:
        raise Unsupported("there is no max-margin solution to draw the path beside")
    return one_panel(lambda one: _regpath(one, path), ax, look)


def _regpath(ax: Axes, path: RegPath) -> None:
    for values, dashes, colour, said in (
        (path.correlation, "solid", style.colour(path.norm.name), "1 − correlation"),
        (path.share, "dashed", style.INK, "1 − certified margin share"),
    ):
        ax.plot(path.radii, np.maximum(1 - values, _FLOOR), marker="o", markersize=3,
                color=colour, linestyle=dashes, linewidth=style.LINE * 1.3, label=said)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="radius of the ball", ylabel="distance")
    ax.set_title(f"{path.model}: least loss in {path.norm.name} balls")
    ax.legend(frameon=False, loc="lower left")


def proof_picture(
    proof: ConvergenceProof, *, steps: int | None = None, ax: Any = None, look: str = "screen"
) -> Figure:
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
    return one_panel(lambda one: _proof(one, proof, last), ax, look)


def _proof(ax: Axes, proof: ConvergenceProof, last: int) -> None:
    t = np.unique(np.concatenate([[0.0], np.geomspace(1, last, 200).round()]))
    ax.plot(t, proof.bound(t), color="#009e73", linewidth=style.LINE * 1.6, label="proved bound")
    ax.set_xscale("symlog", linthresh=1, linscale=0.5)
    ax.set_xlim(0, last)
    ax.set_yscale("log")
    ax.set(xlabel="further steps", ylabel="1 − correlation, at most")
    ax.set_title(f"{proof.optimizer}, lr {proof.lr:g}: converges, proved")
    ax.legend(frameon=False, loc="lower left")


def basin_picture(held: Basin, *, ax: Any = None, look: str = "screen") -> Figure:
    """The least norm of a start that is held, over its angle."""
    if not np.isfinite(held.norms).any():
        raise Unsupported("there is no cone to draw: no angle is held at any norm")
    return one_panel(lambda one: _basin(one, held), ax, look)


def _basin(ax: Axes, held: Basin) -> None:
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
