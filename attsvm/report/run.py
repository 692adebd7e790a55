"""The picture of one training run: loss and gradient, attention, and the way to the limit."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path as FilePath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm import measures
from attsvm.errors import Unsupported
from attsvm.outcome import Outcome
from attsvm.path import Path
from attsvm.report import style
from attsvm.tokens import Floats

FORMATS = (".svg", ".png", ".pdf")
_STATE = {
    "locally optimal": "#009e73",
    "saturated": "#d55e00",
    "undecided": "#6b6b6b",
    "unknown": "#6b6b6b",
}


def draw_run(path: Path, found: Outcome, file: FilePath, *, instance: int = 0) -> None:
    """Write the picture of one instance's run, in one move, in the format of the file's ending.

    Left: the loss, and the norm of the gradient in powers of ten. Middle: attention on the top
    token of each input, with the last change of the selection. Right: distance of direction and
    of margin from the predicted limit, down to the gap to which that limit is known.
    """
    if file.suffix not in FORMATS:
        raise Unsupported(f"{file.name}: a figure ends in one of {', '.join(FORMATS)}")
    with style.look():
        figure = Figure(figsize=(10.0, 3.6), layout="constrained")
        axes = figure.subplots(1, 3)
        steps = np.maximum(path.steps, 0.5)  # step 0 on a log axis
        _loss(axes[0], steps, path, instance)
        _attention(axes[1], steps, path, found, instance)
        _limit(axes[2], steps, path, found, instance)
        for ax in axes:
            ax.set_xscale("log")
            ax.set_xlabel("step")
        handle, beside = tempfile.mkstemp(dir=file.parent, suffix=file.suffix)
        os.close(handle)
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        figure.savefig(beside, dpi=style.DPI, metadata=metadata)
        os.chmod(beside, 0o644)
        os.replace(beside, file)


def _loss(ax: Axes, steps: Floats, path: Path, b: int) -> None:
    ax.plot(steps, path.loss[:, b], color=style.INK, linewidth=style.LINE * 1.4)
    ax.set_title("Loss and gradient")
    ax.set_ylabel("loss")
    twin = ax.twinx()
    twin.plot(steps, path.log_gradient[:, b] / np.log(10), color=style.MARGIN, linewidth=style.LINE)
    twin.set_ylabel("log10 of the gradient's norm", color=style.MARGIN)
    twin.spines["right"].set_visible(True)


def _attention(ax: Axes, steps: Floats, path: Path, found: Outcome, b: int) -> None:
    ax.plot(steps, path.sureness[:, b], color=style.QUIET, linewidth=0.7, alpha=0.7)
    ax.plot(steps, path.sureness[:, b].min(axis=1), color=style.INK, linewidth=style.LINE * 1.4)
    if found.changed:
        ax.axvline(found.changed, color=_STATE[found.state], linewidth=style.LINE, linestyle=":")
        ax.text(found.changed, 0.02, " last change", color=_STATE[found.state], va="bottom")
    ax.set_ylim(0, 1.03)
    ax.set_title("Attention on the top token")
    ax.set_ylabel("probability; thick: least sure input")
    ax.text(
        0.97, 0.12, found.state, transform=ax.transAxes, ha="right", weight="bold",
        color=_STATE[found.state],
    )  # fmt: skip


def _limit(ax: Axes, steps: Floats, path: Path, found: Outcome, b: int) -> None:
    best = found.certificate
    if best is None or best.W is None:
        ax.text(0.5, 0.5, "no limit to compare with", transform=ax.transAxes, ha="center")
        ax.set_title("Way to the limit")
        return
    W = path.matrices()[:, b]
    colour = style.colour(best.norm.name)
    for values, dash, name in (
        (1 - np.asarray(measures.correlation(W, best)), "solid", "1 − correlation"),
        (1 - np.asarray(measures.margin_share(W, best)), "dashed", "1 − certified margin share"),
    ):
        ax.plot(steps, np.maximum(values, 1e-16), color=colour, linestyle=dash, label=name,
                linewidth=style.LINE * 1.3)  # fmt: skip
    ax.axhline(max(best.gap, 1e-16), color=style.FAINT, linewidth=style.LINE)
    ax.text(0.02, max(best.gap, 1e-16), "gap of the certificate", va="bottom", color=style.QUIET,
            transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set_yscale("log")
    ax.set_title(f"Way to the {best.norm.name} limit")
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.1))
