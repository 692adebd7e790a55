"""The course of a real network in training: loss, accuracies, norms of its attention weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm._utils.arrays import Floats
from attsvm.plotting import style
from attsvm.plotting.run import place_parts, write_figure

# Columns of the records with their words and colours.
_ACCURACIES = (
    ("train_accuracy", "training", style.INK),
    ("valid_accuracy", "validation", style.COLOURS["frobenius"]),
    ("test_accuracy", "test", style.COLOURS["nuclear"]),
)
_NORMS = (
    ("norm_K", "keys K", style.COLOURS["frobenius"]),
    ("norm_Q", "queries Q", style.COLOURS["nuclear"]),
    ("norm_V", "values V", style.COLOURS["spectral"]),
)


def draw_fit(
    columns: Mapping[str, Floats], folder: Path, *, title: str, chosen: int, chance: float
) -> list[Path]:
    """Write curves.svg and curves.png to the folder, and return them.

    columns: of the records, by name, each (records,). chosen: the step that validation chooses.
    chance: the accuracy of always saying the most frequent class.
    """
    with style.styled():
        figure = fit_figure(columns, title=title, chosen=chosen, chance=chance)
        place_parts(figure)
        files = [folder / "curves.svg", folder / "curves.png"]
        for file in files:
            write_figure(figure, file, title=title)
    return files


def fit_figure(columns: Mapping[str, Floats], *, title: str, chosen: int, chance: float) -> Figure:
    """The figure that `draw_fit` writes: three panels over steps."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=style.HEADING)
    axes = figure.subplots(1, 3)
    steps = columns["step"]
    axes[0].plot(steps, _shown(columns["loss"]), color=style.INK, **_marks(steps))
    axes[0].set(title="Loss", ylabel="mean cross-entropy, training inputs")
    axes[0].set_ylim(bottom=0)
    _lines(axes[1], columns, _ACCURACIES)
    axes[1].axhline(chance, color=style.QUIET, linewidth=style.LINE, linestyle="dotted")
    axes[1].set(title="Accuracy (dotted: chance)", ylabel="share of inputs", ylim=(None, 1.02))
    axes[1].axvline(chosen, color=style.FAINT, linewidth=style.LINE, zorder=0)
    _lines(axes[2], columns, _NORMS)
    axes[2].set(title="Norms of attention weights", ylabel="Frobenius, over all layers")
    for ax in axes:
        ax.set_xlabel("step")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def _lines(
    ax: Axes, columns: Mapping[str, Floats], named: tuple[tuple[str, str, str], ...]
) -> None:
    for name, words, colour in named:
        ax.plot(
            columns["step"],
            _shown(columns[name]),
            color=colour,
            label=words,
            **_marks(columns["step"]),
        )
    ax.legend(frameon=False, loc="best")


def _marks(steps: Floats) -> dict[str, Any]:
    """Few records are marked one by one."""
    few = len(steps) <= 40
    return {"linewidth": style.LINE * 1.4, "marker": "o" if few else "", "markersize": 3.0}


def _shown(values: Floats) -> Floats:
    """What can be drawn: a loss that left the numbers, or any picture, is a gap in the line."""
    return np.where(np.isfinite(values) & (np.abs(values) < 1e30), values, np.nan)
