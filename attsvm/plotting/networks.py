"""The pictures of real networks: their training, and the attention heads of trained models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attsvm._utils.arrays import Floats
from attsvm.plotting import style
from attsvm.plotting.style import Picture, headline, sheet, step_axis

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


def fit_figure(columns: Mapping[str, Floats], *, title: str, chosen: int, chance: float) -> Picture:
    """The course of a fit: loss, accuracy and norms, three panels over steps.

    columns: of the records, by name, each (records,). chosen: the step that validation chooses.
    chance: the accuracy of always saying the most frequent class.
    """
    with style.styled():
        figure = Picture(figsize=(10.0, 3.8), layout="constrained")
        headline(figure, title)
        axes = figure.subplots(1, 3)
        _lines(axes[0], columns, (("loss", "", style.INK),))
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
    """A line for each of these columns, with marks where the records are few."""
    steps = columns["step"]
    mark = "o" if len(steps) <= 40 else ""
    for name, words, colour in named:
        values = columns[name]
        # What left the numbers, or any picture, is a gap in the line.
        drawn = np.where(np.isfinite(values) & (np.abs(values) < 1e30), values, np.nan)
        ax.plot(steps, drawn, color=colour, label=words or None, marker=mark, markersize=3.0)
    if len(named) > 1:
        ax.legend(frameon=False, loc="best")


# Points: the numbers of heads.
_SMALL = 7.0
_PANELS = (
    ("largest", "Largest logit (dashed: its ceiling)", "scale · q·k, sampled queries"),
    ("entropy", "Entropy of attention", "mean, nats"),
    ("saturated", "Saturated queries (▼: warned)", "share of queries with attention ≥ {level:g}"),
    ("frobenius", "Norm of W_QK", "Frobenius, with the scale"),
)


def attention_figure(rows: Sequence[Any], warned: Sequence[Any], *, level: float) -> Picture:
    """Four panels over steps, one line a head, one colour a layer; a line has its head's number.

    rows: as of attsvm.torch.MonitorRow. warned: with step, layer, head and expected; each is a
    mark with its head's number in the third panel, at the step of its warning.
    """
    heads: dict[tuple[str, int], list[Any]] = defaultdict(list)
    tops: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        heads[row.layer, row.head].append(row)
        if math.isfinite(row.ceiling):
            tops[row.layer][row.step] = max(row.ceiling, tops[row.layer].get(row.step, 0.0))
    layers = list(dict.fromkeys(layer for layer, _ in heads))
    colours, last = _layer_colours(layers), max(row.step for row in rows)
    with style.styled():
        figure = Picture(figsize=(style.SIZE[0], style.SIZE[1] * 1.5), layout="constrained")
        axes = figure.subplots(2, 2).ravel()
        for ax, (name, title, label) in zip(axes, _PANELS, strict=True):
            for k, ((layer, head), own) in enumerate(heads.items()):
                x = [row.step for row in own]
                y = np.array([getattr(row, name) for row in own], dtype=float)
                ax.plot(x, y, color=colours[layer], linewidth=style.LINE, alpha=0.85)
                place = len(own) * (2 * k + 1) // (2 * len(heads))  # numbers stand side by side
                if math.isfinite(y[place]):
                    _number(ax, x[place], y[place], str(head), colours[layer])
            ax.set(title=title, ylabel=label.format(level=level))
            step_axis(ax, last)
        for layer, top in tops.items():
            axes[0].plot(list(top), list(top.values()), color=colours[layer], linestyle="dashed")
        if tops:
            axes[0].set_yscale("symlog", linthresh=1, linscale=0.5)
        axes[1].set_ylim(bottom=0)
        axes[2].set_ylim(-0.03, 1.1)
        said: dict[tuple[int, str], list[str]] = defaultdict(list)
        for one in warned:
            said[one.step, one.layer].append(str(one.head))
        for (step, layer), numbers in said.items():
            axes[2].plot(step, 1.0, "v", color=colours[layer], markersize=5)
            high = 1.04 + 0.05 * layers.index(layer)
            _number(axes[2], step, high, " ".join(numbers), colours[layer])
        figure.legend(
            [Line2D([], [], color=colours[one]) for one in layers],
            layers,
            title="Colours are layers, numbers on lines are attention heads.",
            loc="outside lower left",
            ncols=max(1, min(4, 100 // max(len(one) + 6 for one in layers))),
            frameon=False,
        )
    return figure


def _number(ax: Axes, x: float, y: float, text: str, colour: Any) -> None:
    """The number of a head at its line, on white."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
    ax.text(x, y, text, color=colour, ha="center", va="center", fontsize=_SMALL, bbox=box)


def _layer_colours(layers: Sequence[str]) -> dict[str, Any]:
    """A colour for each layer; many of them share one scale from light to dark."""
    listed: Any = list(style.COLOURS.values())
    if len(layers) > len(listed):
        listed = colormaps["viridis"](np.linspace(0.0, 0.92, len(layers)))
    return dict(zip(layers, listed, strict=False))


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


def norm_ratio_figure(records: Sequence[Record], *, look: str = "screen") -> Picture:
    """Sharpness against norm ratio of every head, and above it where its rotated nulls lie."""
    with style.styled(look):
        made, grid = sheet(look, size=(5.0, 3.9))
        ax: Axes = grid[0, 0]
        shown = [r for r in records if _known(r, "norm_ratio") and r["norm_ratio"] > 0]
        nulls = [r for r in shown if _known(r, "norm_ratio_rotated_low")]
        if nulls:
            x, low, high = (
                [r[name] for r in nulls]
                for name in ("sharpness", "norm_ratio_rotated_low", "norm_ratio_rotated_high")
            )
            label = "its rotated nulls"
            ax.vlines(x, low, high, color=style.FAINT, linewidth=3.0, label=label, zorder=1)
        for kind, (colour, mark) in _KINDS.items():
            mine = [(r["sharpness"], r["norm_ratio"]) for r in shown if r["kind"] == kind]
            if mine:
                label = f"{kind} ({len(mine)})"
                ax.plot(*np.transpose(mine), mark, color=colour, markersize=5.5, label=label)
        if shown:
            ax.set_yscale("log")
            ax.legend(frameon=False, loc="best")
        else:
            _nothing(ax, "no norm ratio is known")
        ax.set_xlabel("sharpness: mean largest attention")
        ax.set_ylabel("norm ratio: share of ‖W‖ that would do")
        return made


def agreement_figure(records: Sequence[Record], *, look: str = "screen") -> Picture:
    """Held-out agreement with the head's choice: all keys, and content keys only; mean, range."""
    with style.styled(look):
        made, grid = sheet(look, columns=2, size=(9.6, 3.8))
        panels = (("", "All keys"), ("content_", "Content keys only"))
        for ax, (prefix, title) in zip(grid.ravel(), panels, strict=True):
            for field, (name, colour) in _BARS.items():
                values = [r[prefix + field] for r in records if _known(r, prefix + field)]
                if values:
                    middle = float(np.mean(values))
                    spread = np.abs(np.percentile(values, [[10], [90]]) - middle)
                    ax.bar(f"{name}\n{middle:.2f}", middle, color=colour, width=0.7, yerr=spread)
            chance = [r["chance"] for r in records if _known(r, "chance")]
            if not ax.patches:
                _nothing(ax, "nothing was fitted")
            elif chance and not prefix:
                line = {"color": style.QUIET, "linestyle": ":", "label": "chance"}
                ax.axhline(float(np.mean(chance)), **line)
                ax.legend(frameon=False)
            ax.set(title=title, ylim=(0, 1), ylabel="held-out agreement")
        return made


def gaps_figure(gaps: Mapping[str, Any], name: str, *, look: str = "screen") -> Picture:
    """One head's top-two gaps at norm 1, sorted, beside those of the max-margin matrix.

    gaps: head and svm, sorted; best: certified bounds of the largest least gap, or None.
    """
    with style.styled(look):
        made, grid = sheet(look, size=(5.0, 3.9))
        ax: Axes = grid[0, 0]
        for field, label, k in (("head", f"W of {name}", 1), ("svm", "max-margin W", 2)):
            order = np.asarray(gaps[field], dtype=float)
            ax.plot(np.arange(1, len(order) + 1), order, label=label, **style.curve(k))
        if gaps.get("best"):
            label = "certified optimum of the least"
            ax.axhspan(*gaps["best"], color=style.INK, linewidth=0.8, label=label)
        if min(gaps["head"], default=0.0) > 0 and min(gaps["svm"], default=0.0) > 0:
            ax.set_yscale("log")
        ax.set_xlabel("queries, by gap")
        ax.set_ylabel("gap of the two top logits, at norm 1")
        ax.legend(frameon=False, loc="best")
        return made


def pattern_figure(found: Any, *, look: str = "screen") -> Picture:
    """One head's attention on a text, as attsvm.inspection.Pattern holds it: a row per query, a
    ring on each selected key, dashed where its two top logits cannot be separated."""
    L = len(found.tokens)
    side = min(10.0, 2.2 + 0.24 * L)
    with style.styled(look):
        made, grid = sheet(look, size=(side + 0.8, side))
        ax: Axes = grid[0, 0]
        shades = np.where(found.view.valid, found.attention, np.nan)
        image = ax.imshow(shades, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        for row, key in enumerate(found.selected):
            firm = found.table["key_radius"][row] > 0
            kind = {"edgecolor": "#d55e00", "linestyle": "-" if firm else ":"}
            ax.add_patch(Rectangle((key - 0.5, row - 0.5), 1, 1, fill=False, **kind))
        if L <= 60:
            ax.set_xticks(range(L), found.tokens, rotation=90)
            ax.set_yticks(range(L), found.tokens)
        ax.set(xlabel="key", ylabel="query", title=f"Attention of {found.view.name}")
        made.colorbar(image, ax=ax, shrink=0.7)
        return made


def _known(record: Record, field: str) -> bool:
    value = record.get(field)
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _nothing(ax: Axes, words: str) -> None:
    ax.annotate(words, (0.5, 0.5), xycoords="axes fraction", ha="center", color=style.QUIET)
