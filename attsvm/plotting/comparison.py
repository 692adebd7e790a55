"""The picture of a comparison: distance from the best margin in every norm, direction, proof."""

from __future__ import annotations

from pathlib import Path as FilePath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.plotting import style
from attsvm.plotting.picture import Picture, finish
from attsvm.plotting.run import check_format, step_axis, write_figure
from attsvm.theory.comparison import ComparedRun, Comparison

# Distances below this are rounding.
_FLOOR = 1e-16
# Panels side by side, on a screen and in print.
_ACROSS = {"screen": 4, "paper": 2}
# Letters of a name in the legend.
_NAME = 40


def draw_comparison(found: Comparison, file: FilePath, *, look: str = "screen") -> None:
    """Write the picture in one move, in the format of the file's ending."""
    check_format(file)
    figure = comparison_picture(found, look=look)
    with style.styled(look):
        write_figure(figure, file)


def comparison_picture(found: Comparison, *, look: str = "screen") -> Figure:
    """A panel per norm, one for the direction, one for the proofs; a curve per run.

    In each norm the runs whose limit theory places there are drawn thick: these should reach 0.
    """
    names = [name if len(name) <= _NAME else name[: _NAME - 1] + "…" for name in found.names]
    shown = [(k, run) for k, run in enumerate(found.runs) if run.path is not None]
    last = max((int(run.path.steps[-1]) for _, run in shown if run.path is not None), default=1)
    with style.styled(look):
        figure, axes = _panels(len(found.norms) + 2, look, len(names))
        for ax, norm in zip(axes, found.norms, strict=False):
            _shares(ax, shown, norm)
        direction, proof = axes[len(found.norms) : len(found.norms) + 2]
        _direction(direction, shown)
        _proofs(proof, shown, [names[k] for k, _ in shown], last)
        across = _ACROSS[look]
        for k, ax in enumerate(axes):
            step_axis(ax, last)
            if look == "paper":  # few numbers, so that they stand apart
                powers = range(int(np.log10(max(last, 1))) + 1)
                ax.set_xticks([10**p for p in powers if p % 2 == 0 or last < 1000])
            if ax is not proof and k + across < len(axes):
                ax.set_xlabel("")
        _legend(figure, axes[0], shown, names, look)
        if look == "screen":
            figure.suptitle(_headline(found), x=0.01, ha="left", weight="bold",
                            fontsize=style.HEADING)  # fmt: skip
        return finish(figure, look)


def _panels(count: int, look: str, curves: int) -> tuple[Picture, list[Axes]]:
    """A sheet with so many panels, and room for a legend below."""
    across = _ACROSS[look]
    rows = -(-count // across)
    if look == "paper":
        size = (style.COLUMN, 1.45 * rows + 0.16 * -(-curves // 2) + 0.1)
        pads = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    else:
        size = (11.0, 0.9 + 2.5 * rows)
        pads = ConstrainedLayoutEngine(wspace=0.03, hspace=0.05)
    figure = Picture(figsize=size, look=look, layout=pads)
    axes = figure.subplots(rows, across, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def _shares(ax: Axes, shown: list[tuple[int, ComparedRun]], norm: str) -> None:
    lowest = 1.0
    for k, run in shown:
        if run.path is None:
            continue
        short = np.maximum(1 - run.shares[norm], _FLOOR)
        own = run.norm == norm
        ax.plot(run.path.steps, short, linewidth=style.LINE * (2.0 if own else 1.1),
                zorder=3 if own else 2, **style.curve(k))  # fmt: skip
        lowest = min(lowest, float(np.nanmin(short, initial=1.0)))
    ax.set_yscale("log")
    ax.set_ylim(max(min(lowest, 0.1) * 0.6, _FLOOR), 1.6)
    ax.set_title(f"{norm} norm")
    ax.set_ylabel("1 − margin share")


def _direction(ax: Axes, shown: list[tuple[int, ComparedRun]]) -> None:
    """Distance from the direction of one's own limit, where that is unique."""
    lowest, left_out = 1.0, False
    for k, run in shown:
        best = None if run.outcome is None else run.outcome.certificate
        if run.path is None or best is None or not np.isfinite(best.norm.ball(1.0, 1.0)):
            left_out = True
            continue
        apart = np.maximum(1 - run.correlation, _FLOOR)
        ax.plot(run.path.steps, apart, linewidth=style.LINE * 1.4, **style.curve(k))
        lowest = min(lowest, float(np.nanmin(apart, initial=1.0)))
    ax.set_yscale("log")
    ax.set_ylim(max(min(lowest, 0.1) * 0.6, _FLOOR), 2.5)
    ax.set_title("Direction of own limit")
    ax.set_ylabel("1 − correlation")
    if left_out:
        ax.text(0.98, 0.97, "unique limits alone", transform=ax.transAxes, ha="right", va="top",
                color=style.QUIET, fontsize="small")  # fmt: skip


def _proofs(ax: Axes, shown: list[tuple[int, ComparedRun]], names: list[str], last: int) -> None:
    """A bar for each run from the step on from which it is proved to converge."""
    for row, (k, run) in enumerate(shown):
        end = None if run.path is None else int(run.path.steps[-1])
        if run.proved is not None and end is not None:
            ax.plot([run.proved.step, max(end, run.proved.step)], [row, row], linewidth=5,
                    solid_capstyle="butt", color=style.curve(k)["color"])  # fmt: skip
            ax.plot([run.proved.step], [row], "|", color=style.INK, markersize=8)
        else:
            proof = None if run.outcome is None else run.outcome.proof
            said = "no theorem" if proof is None else "not proved"
            ax.text(0.04, row, said, transform=ax.get_yaxis_transform(), va="center",
                    color=style.QUIET, fontsize="small")  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_title("Proved since")
    ax.tick_params(axis="y", length=0)


def _legend(
    figure: Figure, ax: Axes, shown: list[tuple[int, ComparedRun]], names: list[str], look: str
) -> None:
    lines = [ax.plot([], [], linewidth=style.LINE * 1.6, **style.curve(k))[0] for k, _ in shown]
    labels = []
    for k, run in shown:
        labels.append(names[k] if run.norm is None else f"{names[k]} → {run.norm}")
    columns = 2 if look == "paper" else max(1, min(len(labels), 120 // (8 + max(map(len, labels)))))
    figure.legend(lines, labels, loc="outside lower left", ncols=columns, frameon=False,
                  handlelength=2.6, columnspacing=1.2)  # fmt: skip


def _headline(found: Comparison) -> str:
    """What the runs have in common, and how many there are."""
    first = found.trained[0]
    kept = [
        word
        for word, values in (
            (first.model, {run.model for run in found.runs}),
            (first.optimizer, {run.optimizer for run in found.runs}),
            (f"lr {first.lr:g}", {run.lr for run in found.runs}),
        )
        if len(values) == 1
    ]
    steps = max(int(run.path.steps[-1]) for run in found.trained if run.path is not None)
    return ", ".join([*kept, f"{len(found.trained)} runs of {steps:,} steps"])
