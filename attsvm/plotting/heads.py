"""Pictures of the heads of a trained model: economy beside nulls, held-out agreement, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from attsvm.plotting import style
from attsvm.plotting.picture import Picture, sheet

# Kind of a head -> its colour and its mark, which differ in grey too.
KINDS = {
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
        for kind, (colour, mark) in KINDS.items():
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
