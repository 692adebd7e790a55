"""The course of attention heads in training: logits, entropy, saturated queries, norms."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attsvm.plotting import style

# Layers that have a colour of their own; more of them share one scale from light to dark.
_COLOURS = tuple(style.COLOURS.values())
# Points: the numbers of heads.
_SMALL = 7.0


def attention_figure(rows: Sequence[Any], warned: Sequence[Any], *, level: float) -> Figure:
    """Four panels over steps, one line a head, one colour a layer; a line has its head's number.

    rows: as of attsvm.torch.MonitorRow. warned: with step, layer, head and expected; each is a
    mark with its head's number in the third panel, at the step of its warning.
    """
    heads: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in rows:
        heads[row.layer, row.head].append(row)
    layers = list(dict.fromkeys(layer for layer, _ in heads))
    colours = _colours(layers)
    with style.styled():
        figure = Figure(figsize=(style.SIZE[0], style.SIZE[1] * 1.5), layout="constrained")
        grid = figure.subplots(2, 2)
        last = max(row.step for row in rows)
        for ax, (name, title, label) in zip(grid.flat, _PANELS, strict=True):
            for k, ((layer, head), own) in enumerate(heads.items()):
                x = [row.step for row in own]
                y = np.array([getattr(row, name) for row in own], dtype=float)
                ax.plot(x, y, color=colours[layer], linewidth=style.LINE, alpha=0.85)
                place = len(own) * (2 * k + 1) // (2 * len(heads))  # numbers stand side by side
                _number(ax, x[place], y[place], head, colours[layer])
            ax.set(title=title, ylabel=label, xlabel="step")
            ax.set_xscale("symlog", linthresh=1, linscale=max(0.12 * math.log10(last + 1), 0.1))
            ax.set_xlim(0, max(last * 1.1, 1))
        _ceiling(grid[0, 0], heads, colours)
        grid[0, 1].set_ylim(bottom=0)
        grid[1, 0].set_ylim(-0.03, 1.03)
        grid[1, 0].yaxis.set_major_locator(MaxNLocator(5))
        grid[1, 0].set_ylabel(f"share of queries with attention ≥ {level:g}")
        _warnings(grid[1, 0], warned, colours)
        lines = [grid[0, 0].plot([], [], color=colours[one])[0] for one in layers]
        columns = max(1, min(4, len(layers), 100 // max(len(one) + 6 for one in layers)))
        figure.legend(
            lines,
            layers,
            title="Colours are layers, numbers on lines are attention heads.",
            loc="outside lower left",
            alignment="left",
            ncols=columns,
            frameon=False,
            handlelength=1.6,
        )
    return figure


def _number(ax: Axes, x: float, y: float, head: int, colour: Any) -> None:
    """The number of a head on its line, on white; nothing where the line is not known."""
    if math.isfinite(y):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        place: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": _SMALL, "bbox": box}
        ax.annotate(str(head), (x, y), color=colour, **place)


_PANELS = (
    ("largest", "Largest logit", "scale · q·k, sampled queries"),
    ("entropy", "Entropy of attention", "mean, nats"),
    ("saturated", "Saturated queries", ""),
    ("frobenius", "Norm of W_QK", "Frobenius, with the scale"),
)


def _colours(layers: Sequence[str]) -> dict[str, Any]:
    if len(layers) <= len(_COLOURS):
        return dict(zip(layers, _COLOURS, strict=False))
    from matplotlib import colormaps

    scale = colormaps["viridis"]
    return {one: scale(0.92 * k / (len(layers) - 1)) for k, one in enumerate(layers)}


def _ceiling(ax: Axes, heads: dict[tuple[str, int], list[Any]], colours: dict[str, Any]) -> None:
    """The highest ceiling of each layer, dashed, where one is known, on a logarithmic scale."""
    tops: dict[str, dict[int, float]] = defaultdict(dict)
    for (layer, _), own in heads.items():
        for row in own:
            if math.isfinite(row.ceiling):
                tops[layer][row.step] = max(row.ceiling, tops[layer].get(row.step, 0.0))
    for layer, top in tops.items():
        ax.plot(
            list(top),
            list(top.values()),
            color=colours[layer],
            linewidth=style.LINE,
            linestyle="dashed",
        )
    if tops:
        ax.set_yscale("symlog", linthresh=1, linscale=0.5)
        ax.set_title("Largest logit (dashed: its ceiling)")


def _warnings(ax: Axes, warned: Sequence[Any], colours: dict[str, Any]) -> None:
    said: dict[tuple[int, str], list[int]] = defaultdict(list)
    for one in warned:
        said[one.step, one.layer].append(one.head)
    for (step, layer), heads in said.items():
        ax.plot(step, 1.0, "v", color=colours[layer], markersize=5, clip_on=False)
        ax.annotate(
            " ".join(map(str, heads)),
            (step, 1.0),
            xytext=(0, 4 + _SMALL * list(colours).index(layer)),
            textcoords="offset points",
            color=colours[layer],
            fontsize=_SMALL,
            ha="center",
        )
    if warned:
        ax.set_title("Saturated queries (▼: warned)")
