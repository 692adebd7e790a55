"""The pictures of real networks: their training, and the attention heads of trained models."""

from __future__ import annotations

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


# Heads that have a line and a name of their own; of more, layers have colours and heads dashes.
_OWN = 12
# Names of saturating heads in the headline.
_NAMED = 8
_PANELS = (
    ("largest", "Largest logit", "scale · q·k, sampled queries"),
    ("entropy", "Entropy of attention", "mean, nats"),
    ("saturated", "Saturated queries", "share of queries"),
    ("frobenius", "Norm of W_QK", "Frobenius, with the scale"),
)


def attention_figure(rows: Sequence[Any], warned: Sequence[Any], *, level: float) -> Picture:
    """Four panels over steps, one line a head; those that saturate are named, the warned thick.

    rows: as of attsvm.torch.MonitorRow. warned: with step and name; each is a mark in the third
    panel, at the step of its warning.
    """
    heads: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        heads[row.name].append(row)
    lines = _head_lines(heads)
    steps = {one.name: one.step for one in warned}
    with style.styled():
        figure = Picture(figsize=(style.SIZE[0], style.SIZE[1] * 1.5), layout="constrained")
        grid = figure.subplots(2, 2)
        last = max(row.step for row in rows)
        for ax, (field, title, label) in zip(grid.flat, _PANELS, strict=True):
            for name, own in heads.items():
                wide = style.LINE * (2.4 if name in steps else 1.0)
                y = [getattr(row, field) for row in own]
                ax.plot([row.step for row in own], y, linewidth=wide, **lines[name])
            ax.set(title=title, ylabel=label)
            step_axis(ax, last)
        grid[0, 1].set_ylim(bottom=0)
        saturation = grid[1, 0]
        saturation.set(ylim=(-0.03, 1.08), ylabel=f"queries with attention ≥ {level:g}")
        saturation.yaxis.set_major_locator(MaxNLocator(5))
        for name, step in steps.items():
            saturation.plot(step, 1.04, "v", color=lines[name]["color"], markersize=5)
        if steps:
            saturation.set_title("Saturated queries (▼: warned)")
        _head_legend(figure, heads, lines)
        done = [name for name, own in heads.items() if own[-1].saturated >= 0.5]
        warned_of = [name for name in steps if name not in done]
        headline = f"Saturated: {_named(done)}; warned of: {_named(warned_of)}"
        figure.suptitle(headline, x=0.01, ha="left", weight="bold", fontsize=style.HEADING)
    return figure


def _named(names: list[str]) -> str:
    return ", ".join(names[:_NAMED] + ["…"] * (len(names) > _NAMED)) or "none"


def _head_lines(heads: Mapping[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each head's line."""
    if len(heads) <= _OWN:
        return {name: {**style.curve(k), "linestyle": style.DASHES[(k + k // 7) % 7]}
                for k, name in enumerate(heads)}  # fmt: skip
    layers = list(dict.fromkeys(own[0].layer for own in heads.values()))
    scale = colormaps["viridis"]
    colours = {one: scale(0.92 * k / max(len(layers) - 1, 1)) for k, one in enumerate(layers)}
    return {
        name: {"color": colours[own[0].layer], "linestyle": style.DASHES[own[0].head % 7]}
        for name, own in heads.items()
    }


def _head_legend(
    figure: Picture, heads: Mapping[str, list[Any]], lines: Mapping[str, dict[str, Any]]
) -> None:
    """A name for each line; of many heads one for each layer."""
    shown = {name: f"{name} {own[0].layer}" for name, own in heads.items()}
    title = "Attention heads and their layers"
    if len(heads) > _OWN:
        firsts = {own[0].layer: name for name, own in reversed(list(heads.items()))}
        shown = {
            name: f"{name.partition('H')[0]} {layer}"
            for layer, name in reversed(list(firsts.items()))
        }
        title = "Layers by colour, heads of a layer by dashes"
    samples = [Line2D([], [], linewidth=style.LINE * 1.6, **lines[name]) for name in shown]
    columns = max(1, min(6, 120 // (8 + max(map(len, shown.values())))))
    figure.legend(
        samples,
        list(shown.values()),
        title=title,
        loc="outside lower left",
        alignment="left",
        ncols=columns,
        frameon=False,
        handlelength=2.6,
    )


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
            kind: dict[str, Any] = {"edgecolor": "#d55e00", "linestyle": "-" if firm else ":"}
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
