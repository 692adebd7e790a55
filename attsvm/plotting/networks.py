"""The pictures of real networks: their training, and the attention heads of trained models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attsvm._utils.arrays import Floats
from attsvm.plotting import style
from attsvm.plotting.style import Picture, sheet

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


# Layers that have a colour of their own; more of them share one scale from light to dark.
_OF_LAYERS = tuple(style.COLOURS.values())
# Points: the numbers of heads.
_SMALL = 7.0


def attention_figure(rows: Sequence[Any], warned: Sequence[Any], *, level: float) -> Picture:
    """Four panels over steps, one line a head, one colour a layer; a line has its head's number.

    rows: as of attsvm.torch.MonitorRow. warned: with step, layer, head and expected; each is a
    mark with its head's number in the third panel, at the step of its warning.
    """
    heads: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in rows:
        heads[row.layer, row.head].append(row)
    layers = list(dict.fromkeys(layer for layer, _ in heads))
    colours = _layer_colours(layers)
    with style.styled():
        figure = Picture(figsize=(style.SIZE[0], style.SIZE[1] * 1.5), layout="constrained")
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
        _mark_warnings(grid[1, 0], warned, colours)
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


def _layer_colours(layers: Sequence[str]) -> dict[str, Any]:
    if len(layers) <= len(_OF_LAYERS):
        return dict(zip(layers, _OF_LAYERS, strict=False))
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


def _mark_warnings(ax: Axes, warned: Sequence[Any], colours: dict[str, Any]) -> None:
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
        for r in shown:
            if _known(r, "norm_ratio_rotated_low"):
                ax.plot(
                    [r["sharpness"]] * 2,
                    [r["norm_ratio_rotated_low"], r["norm_ratio_rotated_high"]],
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
                    [r["norm_ratio"] for r in mine],
                    mark,
                    color=colour,
                    markersize=5.5,
                    label=f"{kind} ({len(mine)})",
                    zorder=2,
                )
        if not shown:
            _nothing(ax, "no norm ratio is known")
        else:
            ax.plot([], [], color=style.FAINT, linewidth=3.0, label="its rotated nulls")
            ax.set_yscale("log")
            ax.legend(frameon=False, loc="best")
        ax.set_xlabel("sharpness: mean largest attention")
        ax.set_ylabel("norm ratio: share of ‖W‖ that would do")
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
