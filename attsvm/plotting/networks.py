"""The pictures of real networks: their training, and the attention heads of trained models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm._utils.arrays import Floats
from attsvm.plotting import style
from attsvm.plotting.style import Picture, place_parts, sheet, write_figure

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


# Kind of a head -> its colour and its mark, which differ in grey too.
_KINDS = {
    "sink": ("#6b6b6b", "s"),
    "positional": ("#e69f00", "^"),
    "content": ("#0072b2", "o"),
    "diffuse": ("#cc79a7", "D"),
}
# Field of a record -> its name below a bar, and its colour.
_BARS = {
    "rule_agreement": ("one-line\nrule", "#6b6b6b"),
    "mean_difference_agreement": ("mean\ndifference", "#e69f00"),
    "svm_agreement": ("max\nmargin", "#0072b2"),
    "cross_entropy_agreement": ("cross-\nentropy", "#009e73"),
    "soft_cross_entropy_agreement": ("soft cross-\nentropy", "#d55e00"),
}

Record = Mapping[str, Any]


def economy_figure(records: Sequence[Record], *, look: str = "screen") -> Picture:
    """Sharpness against norm economy of every head, and above it where its rotated nulls lie."""
    with style.styled(look):
        made, grid = sheet(look, size=(5.0, 3.9))
        ax: Axes = grid[0, 0]
        shown = [r for r in records if _known(r, "economy") and r["economy"] > 0]
        for r in shown:
            if _known(r, "economy_rotated_low"):
                ax.plot(
                    [r["sharpness"]] * 2,
                    [r["economy_rotated_low"], r["economy_rotated_high"]],
                    color=style.FAINT,
                    linewidth=3.0,
                    solid_capstyle="round",
                    zorder=1,
                )
        for kind, (colour, mark) in _KINDS.items():
            mine = [r for r in shown if r["kind"] == kind]
            if mine:
                ax.plot(
                    [r["sharpness"] for r in mine],
                    [r["economy"] for r in mine],
                    mark,
                    color=colour,
                    markersize=5.5,
                    label=f"{kind} ({len(mine)})",
                    zorder=2,
                )
        if not shown:
            _nothing(ax, "no attention head has a single W")
        else:
            ax.plot([], [], color=style.FAINT, linewidth=3.0, label="its rotated nulls")
            ax.set_yscale("log")
            ax.legend(frameon=False, loc="best")
        ax.set_xlabel("sharpness: mean largest attention")
        ax.set_ylabel("norm economy: share of ‖W‖ that would do")
        return made


def agreement_figure(records: Sequence[Record], *, look: str = "screen") -> Picture:
    """Held-out agreement with the head's choice: all keys, and content keys only; mean, range."""
    with style.styled(look):
        made, grid = sheet(look, columns=2, size=(9.6, 3.8))
        panels = (("", "All keys"), ("content_", "Content keys only"))
        for ax, (prefix, title) in zip(grid.ravel(), panels, strict=True):
            names, drawn = [], 0
            for field, (name, colour) in _BARS.items():
                values = [r[prefix + field] for r in records if _known(r, prefix + field)]
                if not values:
                    continue
                low, high = np.percentile(values, [10, 90])
                middle = float(np.mean(values))
                ax.bar(drawn, middle, color=colour, width=0.7, zorder=2)
                ax.plot([drawn, drawn], [low, high], color=style.INK, linewidth=1.1, zorder=3)
                ax.annotate(f"{middle:.2f}", (drawn + 0.06, middle), va="bottom", zorder=4)
                names.append(name)
                drawn += 1
            chance = [r["chance"] for r in records if _known(r, "chance")]
            if chance and drawn and not prefix:
                ax.axhline(float(np.mean(chance)), color=style.QUIET, linestyle=":", zorder=1)
                ax.annotate("chance", (drawn - 0.55, float(np.mean(chance))), va="bottom")
                ax.set_xlim(-0.6, drawn)
            if not drawn:
                _nothing(ax, "nothing was fitted")
            ax.set_xticks(range(drawn), names)
            ax.set_ylim(0, 1)
            ax.set_title(title)
            ax.set_ylabel("held-out agreement")
        return made


def gaps_figure(gaps: Mapping[str, Any], name: str, *, look: str = "screen") -> Picture:
    """One head's top-two gaps at norm 1, sorted, beside those of the max-margin matrix.

    gaps: head and svm, sorted; best: certified bounds of the largest least gap, or None.
    """
    with style.styled(look):
        made, grid = sheet(look, size=(5.0, 3.9))
        ax: Axes = grid[0, 0]
        lines = (("head", f"W of {name}", 1), ("svm", "max-margin W", 2))
        for field, label, k in lines:
            order = np.asarray(gaps[field], dtype=float)
            ax.plot(np.arange(1, len(order) + 1), order, label=label, **style.curve(k))
        if gaps.get("best"):
            low, high = gaps["best"]
            ax.axhspan(low, high, color=style.INK, linewidth=0.8)
            ax.plot([], [], color=style.INK, linewidth=0.8, label="certified optimum of the least")
        if min(gaps["head"], default=0.0) > 0 and min(gaps["svm"], default=0.0) > 0:
            ax.set_yscale("log")
        ax.set_xlabel("queries, by gap")
        ax.set_ylabel("gap of the two top logits, at norm 1")
        ax.legend(frameon=False, loc="best")
        return made


def _known(record: Record, field: str) -> bool:
    value = record.get(field)
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _nothing(ax: Axes, words: str) -> None:
    ax.annotate(words, (0.5, 0.5), xycoords="axes fraction", ha="center", color=style.QUIET)
