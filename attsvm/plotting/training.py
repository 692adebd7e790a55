"""The pictures of training: one run, several compared, and the stages of next-token training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.training.outcome import (
    SentenceOutcome,
    SentenceRun,
    excesses,
    sentence_outcome,
)
from attsvm.next_token.training.train import Stages
from attsvm.plotting import style
from attsvm.plotting.style import Picture, finish, sheet, step_axis
from attsvm.theory import measures
from attsvm.theory.comparison import ComparedRun, Comparison
from attsvm.theory.convergence.prover import Since
from attsvm.theory.measures import bregman
from attsvm.theory.outcome import DECIDED, Outcome
from attsvm.training.path import Path

# Distances below this are rounding.
_FLOOR = 1e-16
_STATE = {
    "converges": "#009e73",
    "at a locally optimal selection": "#0072b2",
    "saturated": "#d55e00",
    "undecided": "#6b6b6b",
    "unknown": "#6b6b6b",
}


def path_picture(
    path: Path,
    *,
    found: Outcome | None = None,
    instance: int = 0,
    proved: Since | None = None,
    look: str = "screen",
) -> Figure:
    """The picture of one instance's path, with the outcome of the run where it is given.

    On top: the state that the run has reached, and since when; in print it is left to the caption.
    Left: the loss, and the norm of the gradient in powers of ten. Middle: attention on the top
    token of each input, with the last change of the selection. Right: distance of direction and of
    margin from the predicted limit; without an outcome the norms of the blocks.
    proved: the first record with a proof of convergence; its step is marked, and what is proved of
    the distance from there on is drawn beside what is measured.
    """
    if not 0 <= instance < path.size:
        raise BadTokens(f"instance is {instance}: the path has instances 0 to {path.size - 1}")
    if found is not None and not isinstance(found, Outcome):
        raise BadTokens(f"found is {type(found).__name__}: give the Outcome of the path")
    with style.styled(look):
        figure, grid = sheet(look, columns=3, size=(10.0, 4.0))
        axes = grid.ravel()
        _loss(axes[0], path, instance)
        if found is None:
            changed = int(path.changed[instance].max(initial=0))
            _attention(axes[1], path, changed, style.QUIET, instance)
            _norms(axes[2], path, instance)
        else:
            _attention(axes[1], path, found.changed, _STATE[found.state], instance)
            _limit(axes[2], path, found, instance, proved)
        for ax in axes:
            step_axis(ax, int(path.steps[-1]))
        if found is not None:
            _mark_state(figure, axes, path, found, instance, proved)
    return finish(figure, look)


def _mark_state(
    figure: Picture, axes: Any, path: Path, found: Outcome, b: int, proved: Since | None
) -> None:
    """The headline on a screen, and the steps since when the state holds."""
    since = _since(path, found, b) if proved is None else proved.step
    if proved is None and found.state == "converges":
        since = None  # proved at the end; since when was not asked
    if figure.look == "screen":
        figure.suptitle(
            _run_headline(path, found, since),
            x=0.01,
            ha="left",
            weight="bold",
            fontsize=style.HEADING,
            color=_STATE[found.state] if path.diverged < 0 else _STATE["saturated"],
        )
    for ax in axes:
        if since is not None:
            ax.axvspan(since, ax.get_xlim()[1], color=_STATE[found.state], alpha=0.07, linewidth=0)
        if proved is not None and ax is not axes[2]:
            ax.axvline(proved.step, color=_STATE["converges"], linewidth=style.LINE)


def _since(path: Path, found: Outcome, b: int) -> int | None:
    """The first record from which on every input is decided and its selection the last one."""
    held = (path.top_attention[:, b] >= DECIDED).all(axis=1)
    held &= (path.top[:, b] == path.top[-1, b]).all(axis=1) & (path.steps >= (found.changed or 0))
    if not held[-1]:
        return None
    loose = (~held).nonzero()[0]
    return int(path.steps[loose[-1] + 1 if len(loose) else 0])


def _run_headline(path: Path, found: Outcome, since: int | None) -> str:
    """What was run, and the state it has reached."""
    words = {"unknown": "decided", "converges": "converges, proved"}
    state = words.get(found.state, found.state)
    when = f"at step {int(path.steps[-1]):,}" if since is None else f"from step {since:,} on"
    ended = f"; diverged at step {path.diverged:,}" if path.diverged >= 0 else ""
    return f"{path.config['model']}, {path.config['optimizer']}: {state} {when}{ended}"


def _loss(ax: Axes, path: Path, b: int) -> None:
    ax.plot(path.steps, path.loss[:, b], color=style.INK, linewidth=style.LINE * 1.4)
    ax.set_title("Loss and gradient")
    ax.set_ylabel("loss")
    twin = ax.twinx()
    size = path.log_gradient[:, b] / np.log(10)
    twin.plot(path.steps, size, color=style.MARGIN, linewidth=style.LINE)
    twin.set_ylabel("log10 of the gradient's norm", color=style.MARGIN)
    twin.spines["right"].set_visible(True)


def _norms(ax: Axes, path: Path, b: int) -> None:
    for k, (name, block) in enumerate(path.weights.items()):
        with np.errstate(over="ignore"):
            size = np.linalg.norm(block[:, b].reshape(len(path.steps), -1), axis=1)
        ax.plot(path.steps, size, label=f"‖{name}‖", linewidth=style.LINE * 1.4, **style.curve(k))
    ax.set_title("What is trained")
    ax.set_ylabel("Frobenius norm")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="upper left")


def _attention(ax: Axes, path: Path, changed: int | None, colour: str, b: int) -> None:
    least = path.top_attention[:, b].min(axis=1)
    ax.plot(path.steps, path.top_attention[:, b], color=style.QUIET, linewidth=0.7, alpha=0.7)
    ax.plot(path.steps, least, color=style.INK, linewidth=style.LINE * 1.4)
    if changed:
        ax.axvline(changed, color=colour, linewidth=style.LINE, linestyle=":")
        # The text is on the side of the line that has more space.
        late = np.log1p(changed) > 0.5 * np.log1p(path.steps[-1])
        ax.annotate(
            "last change",
            (changed, 0.0),
            (-4 if late else 4, 5),
            color=colour,
            textcoords="offset points",
            ha="right" if late else "left",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
        )
    ax.set_ylim(0, 1.03)
    ax.set_title("Attention on the top token")
    ax.set_ylabel("probability; thick: least sure input")


def _limit(ax: Axes, path: Path, found: Outcome, b: int, proved: Since | None) -> None:
    best = found.certificate
    if best is None or best.W is None:
        label = "no norm is predicted" if best is None else f"no limit here: {best.status}"
        ax.text(0.5, 0.5, label, transform=ax.transAxes, ha="center")
        ax.set_title("Way to the limit")
        ax.set_yticks([])
        return
    W = path.matrices()[:, b]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = 1 - np.asarray(measures.correlation(W, best))
        short = 1 - np.asarray(measures.margin_share(W, best))
    apart, short = np.maximum(apart, _FLOOR), np.maximum(short, _FLOOR)
    wide = style.LINE * 1.4
    ax.plot(
        path.steps,
        apart,
        color=style.colour(best.norm.name),
        label="1 − correlation",
        linewidth=wide,
    )
    drawn = np.concatenate([apart, short])
    if proved is not None and proved.proof.theorem == "tube":
        later = slice(proved.record, None)
        bound = proved.proof.bound_at(W[later])
        ax.plot(
            path.steps[later],
            bound,
            color=_STATE["converges"],
            linewidth=wide,
            label="the same, proved bound",
        )
        drawn = np.concatenate([drawn, bound])
    ax.plot(
        path.steps,
        short,
        color=style.INK,
        linestyle="dashed",
        linewidth=wide * 0.8,
        label="1 − certified margin share",
    )
    ax.set_yscale("log")
    drawn = drawn[np.isfinite(drawn)]
    top = np.log10(drawn.max(initial=1.0))
    low = min(np.log10(drawn.min(initial=1.0)), top - 2)
    gap = max(best.gap, _FLOOR)
    named = f"gap of the certificate: {gap:.1e}"
    if gap >= 10**low:
        ax.axhline(gap, color=style.QUIET, linewidth=style.LINE, linestyle=":", label=named)
    else:  # below what is drawn: its number is enough
        ax.plot([], [], linestyle="none", label=named)
    # The lowest three tenths are kept free for the legend.
    high = 10 ** (top + 0.05 * (top - low))
    ax.set_ylim(10 ** (low - 0.5 * (top - low)), high)
    if proved is not None:
        ax.plot([proved.step] * 2, [10**low, high], color=_STATE["converges"], linewidth=style.LINE)
    predicted = best.norm.name == found.limit.norm
    ax.set_title(f"Way to the {best.norm.name} {'limit' if predicted else 'solution'}")
    ax.legend(
        facecolor="white",
        edgecolor="none",
        framealpha=0.85,
        loc="lower left",
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=1.6,
    )


def _across(count: int, look: str) -> int:
    """How many of so many panels are side by side."""
    return 2 if look == "paper" else 3 if count in (3, 5, 6) else 4


# Letters of a name in the legend.
_NAME = 40


def comparison_picture(found: Comparison, *, look: str = "screen") -> Figure:
    """A panel per norm, one for the direction, one for the proofs; a curve per run.

    The last two are left out where no run has anything to show there. In each norm the runs whose
    limit theory places there are drawn thick: these should reach 0.
    """
    names = [name if len(name) <= _NAME else name[: _NAME - 1] + "…" for name in found.names]
    shown = [(k, run) for k, run in enumerate(found.runs) if run.path is not None]
    last = max((int(run.path.steps[-1]) for _, run in shown if run.path is not None), default=1)
    with style.styled(look):
        known = any(np.isfinite(run.correlation).any() for _, run in shown)
        covered = any(run.outcome is not None and run.outcome.proof for _, run in shown)
        figure, axes = _panels(len(found.norms) + known + covered, look, len(names))
        for ax, norm in zip(axes, found.norms, strict=False):
            _shares(ax, shown, norm)
        if known:
            _direction(axes[len(found.norms)], shown)
        proof = axes[-1] if covered else None
        if proof is not None:
            _proofs(proof, shown, [names[k] for k, _ in shown], last)
        across = _across(len(axes), look)
        for k, ax in enumerate(axes):
            step_axis(ax, last)
            if look == "paper":  # few numbers, so that they stand apart
                powers = range(int(np.log10(max(last, 1))) + 1)
                ax.set_xticks([10**p for p in powers if p % 2 == 0 or last < 1000])
            if ax is not proof and k + across < len(axes):
                ax.set_xlabel("")
        _legend(figure, axes[0], shown, names, look)
        if look == "screen":
            figure.suptitle(_comparison_headline(found), x=0.01, ha="left", weight="bold",
                            fontsize=style.HEADING)  # fmt: skip
        return finish(figure, look)


def _panels(count: int, look: str, curves: int) -> tuple[Picture, list[Axes]]:
    """A sheet with so many panels, and space for a legend below."""
    across = _across(count, look)
    rows = -(-count // across)
    if look == "paper":
        size = (style.COLUMN, 1.45 * rows + 0.16 * (curves + 1) + 0.1)
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
    """Distance from the direction of the run's own limit, where that is unique."""
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
    ax.set_title("Own limit")
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
            label = "no theorem" if proof is None else "not proved"
            ax.text(0.04, row, label, transform=ax.get_yaxis_transform(), va="center",
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
        known = f"{names[k]} → {run.norm}"
        labels.append(f"{names[k]} ~ {run.nearest or 'none'}" if run.norm is None else known)
    measured = any(run.norm is None for _, run in shown)
    title = "→ theory; ~ nearest: measured, not proved" if measured else None
    columns = max(1, min(len(labels), 120 // (8 + max(map(len, labels)))))
    if look == "paper":
        columns = 2 if max(map(len, labels)) < 20 else 1
    figure.legend(lines, labels, loc="outside lower left", ncols=columns, frameon=False,
                  handlelength=2.6, columnspacing=1.2, title=title, alignment="left")  # fmt: skip


def _comparison_headline(found: Comparison) -> str:
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


# Distances of sentences below this are rounding: they are named, not drawn.
_EXACT = 1e-14


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
class StageRow:
    """A row of three panels: what is trained (W), what its loss is called, and the curves."""

    matrix: str
    loss: str
    curves: tuple[Curves, ...]


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
        above, label = path.loss[:, 0], "loss"
        if name == "W_kq" and found.infimum is not None and path is not run.decoder:
            above, label = excesses(run, path, found.infimum), "L − L⋆"
        curves = Curves(path.steps, above[:, None], apart[:, None], size[:, None])
        rows.append(StageRow(name, label, (curves,)))
    paths = [path for path in (run.decoder, run.attention) if path is not None]
    steps = " and ".join(dict.fromkeys(f"{int(path.steps[-1]):,}" for path in paths))
    headline = f"{run.model}, {paths[-1].config['optimizer']}: {steps} steps"
    with style.styled(look):
        return _rows_figure(rows, headline, look=look)


def _rows_figure(rows: Sequence[StageRow], headline: str, *, look: str = "screen") -> Figure:
    """Three panels per row, per column in print, where the headline is left to the caption."""
    size = (10.0, 0.6 + 2.9 * len(rows))
    figure, grid = sheet(look, rows=len(rows), columns=3, size=size, across=len(rows))
    grid = grid.T if look == "paper" else grid
    if look == "screen":
        figure.suptitle(headline, x=0.01, ha="left", weight="bold", fontsize=style.HEADING)
    for axes, row in zip(grid, rows, strict=True):
        draw_row(list(axes), row)
    return figure


def draw_row(axes: Sequence[Axes], row: StageRow) -> None:
    """Draw three panels: the median of the runs, the range of all of them shaded.

    An exponential law is straight in the first, a power of the step in the second.
    """
    loss, direction, norm = axes
    exact: list[Curves] = []
    for curves in row.curves:
        _curve(loss, curves, curves.above)
        if np.nanmax(curves.apart, initial=-1.0) >= _EXACT:
            _curve(direction, curves, np.maximum(curves.apart, _EXACT))
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
        label = f"exact (below {_EXACT:g})" if known else "not known"
        direction.text(
            0.5,
            (0.5 if alone else 0.04) + 0.08 * k,
            f"{curves.name}: {label}" if curves.name else label,
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
