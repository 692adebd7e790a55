"""The picture of two-stage training: loss, direction and norm of each matrix, a row a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm._utils.arrays import Floats, Ints
from attsvm.next_token.training.outcome import (
    SentenceOutcome,
    SentenceRun,
    excesses,
    sentence_outcome,
)
from attsvm.next_token.training.train import Stages
from attsvm.plotting import style
from attsvm.plotting.picture import sheet
from attsvm.plotting.run import check_format, write_figure
from attsvm.theory.measures import bregman

# Distances below this are rounding: they are named, not drawn.
_FLOOR = 1e-14


@dataclass(frozen=True, eq=False)
class Curves:
    """One matrix along B runs, at steps (R,): above, apart and norm are (R, B).

    above: the loss less its infimum; apart: 1 − correlation with the solution, nan where it is not
    known; name: what the legend calls it, nothing for none.
    """

    steps: Ints
    above: Floats
    apart: Floats
    norm: Floats
    name: str = ""
    colour: str = style.MARGIN


@dataclass(frozen=True, eq=False)
class Row:
    """A row of three panels: what is trained (W), what its loss is called, and the curves."""

    matrix: str
    loss: str
    curves: tuple[Curves, ...]


def draw_stages(found: SentenceOutcome, file: FilePath, *, look: str = "screen") -> None:
    """Write the picture of a run on sentences, in one move, in the format of the file's ending."""
    check_format(file)
    figure = sentences_picture(found, look=look)
    with style.styled(look):
        write_figure(figure, file)


def stages_picture(both: Stages, *, look: str = "screen") -> Figure:
    """The picture of both stages, each beside the solution of its own problem."""
    return sentences_picture(sentence_outcome(SentenceRun.of(both, both.sentences)), look=look)


def sentences_picture(found: SentenceOutcome, *, look: str = "screen") -> Figure:
    """Loss, direction and norm of each matrix that was trained on sentences."""
    run, rows = found.run, []
    for name, path in (("W_ov", run.decoder), ("W_kq", run.attention)):
        if path is None:
            continue
        W = path.weights[name][:, 0]
        with np.errstate(all="ignore"):
            apart = np.asarray(bregman(W, found.certificates[name].W, 2.0))
            size = np.linalg.norm(W, axis=(1, 2))
        above, said = path.loss[:, 0], "loss"
        if name == "W_kq" and found.infimum is not None and path is not run.decoder:
            above, said = excesses(run, path, found.infimum), "L − L⋆"
        curves = Curves(path.steps, above[:, None], apart[:, None], size[:, None])
        rows.append(Row(name, said, (curves,)))
    paths = [path for path in (run.decoder, run.attention) if path is not None]
    steps = " and ".join(dict.fromkeys(f"{int(path.steps[-1]):,}" for path in paths))
    headline = f"{run.model}, {paths[-1].config['optimizer']}: {steps} steps"
    with style.styled(look):
        return picture(rows, headline, look=look)


def picture(rows: Sequence[Row], headline: str, *, look: str = "screen") -> Figure:
    """Three panels per row, per column in print, where the headline is left to the caption."""
    size = (10.0, 0.6 + 2.9 * len(rows))
    figure, grid = sheet(look, rows=len(rows), columns=3, size=size, across=len(rows))
    grid = grid.T if look == "paper" else grid
    if look == "screen":
        figure.suptitle(headline, x=0.01, ha="left", weight="bold", fontsize=style.HEADING)
    for axes, row in zip(grid, rows, strict=True):
        draw_row(list(axes), row)
    return figure


def draw_row(axes: Sequence[Axes], row: Row) -> None:
    """Draw three panels: the median of the runs, the range of all of them shaded.

    An exponential law is straight in the first, a power of the step in the second.
    """
    loss, direction, norm = axes
    exact: list[Curves] = []
    for curves in row.curves:
        _curve(loss, curves, curves.above)
        if np.nanmax(curves.apart, initial=-1.0) >= _FLOOR:
            _curve(direction, curves, np.maximum(curves.apart, _FLOOR))
        else:
            exact.append(curves)
        _curve(norm, curves, curves.norm)
    loss.set(yscale="log", ylabel=row.loss, title=f"{row.matrix}: loss")
    direction.set(xscale="log", ylabel="1 − correlation", title=f"{row.matrix}: direction")
    alone = len(exact) == len(row.curves)
    if alone:
        direction.set(xlim=(1, max(float(row.curves[0].steps[-1]), 2.0)), yticks=[])
    else:
        direction.set_yscale("log")
    for k, curves in enumerate(exact):
        known = bool(np.isfinite(curves.apart).any())
        said = f"exact (below {_FLOOR:g})" if known else "not known"
        direction.text(
            0.5,
            (0.5 if alone else 0.04) + 0.08 * k,
            f"{curves.name}: {said}" if curves.name else said,
            transform=direction.transAxes,
            color=curves.colour,
            ha="center",
        )
    norm.set(ylabel=f"‖{row.matrix}‖", title=f"{row.matrix}: norm")
    for ax in axes:
        ax.set_xlabel("step")
    if any(curves.name for curves in row.curves):
        norm.legend(frameon=False, loc="upper left")


def _curve(ax: Axes, curves: Curves, values: Floats) -> None:
    """The median and the range of the positive values (R, B) over the steps after the first."""
    shown = (curves.steps > 0) & (np.isfinite(values) & (values > 0)).all(axis=1)
    if not shown.any():
        return
    x, y = curves.steps[shown], values[shown]
    if y.shape[1] > 1:
        ax.fill_between(
            x, y.min(axis=1), y.max(axis=1), color=curves.colour, alpha=0.18, linewidth=0
        )
    ax.plot(
        x,
        np.median(y, axis=1),
        color=curves.colour,
        linewidth=style.LINE * 1.4,
        label=curves.name or None,
    )
