"""The pictures of training: one run, several compared, and the stages of next-token training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.training.outcome import SentenceOutcome, excesses
from attsvm.plotting import style
from attsvm.plotting.style import Picture, finish, headline, sheet, step_axis
from attsvm.theory import measures
from attsvm.theory.comparison import ComparedRun, Comparison
from attsvm.theory.convergence.prover import Since
from attsvm.theory.layer_outcome import LayerOutcome
from attsvm.theory.measures import bregman
from attsvm.theory.outcome import DECIDED, Outcome
from attsvm.training.path import Path

# Distances below this are rounding.
_FLOOR = 1e-16
_WIDE = style.LINE * 1.4


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
    the distance from there on is drawn beside what is measured. Of a LayerOutcome, whose heads have
    limits of their own, the norms of the blocks are drawn.
    """
    if not 0 <= instance < path.size:
        raise BadTokens(f"instance is {instance}: the path has instances 0 to {path.size - 1}")
    if found is not None and not isinstance(found, Outcome):
        raise BadTokens(f"found is {type(found).__name__}: give the Outcome of the path")
    found = None if isinstance(found, LayerOutcome) else found
    with style.styled(look):
        figure, grid = sheet(look, columns=3, size=(10.0, 4.0))
        axes = grid.ravel()
        _loss(axes[0], path, instance)
        _attention(axes[1], path, instance)
        if found is None:
            _norms(axes[2], path, instance)
        else:
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
        headline(figure, _run_headline(path, found, since))
    colour = style.PROVED if proved is not None else style.QUIET
    for ax in axes:
        if since is not None:
            ax.axvspan(since, ax.get_xlim()[1], color=colour, alpha=0.07, linewidth=0)
        if proved is not None and ax is not axes[2]:  # there the proved bound begins
            ax.axvline(proved.step, color=colour, linewidth=style.LINE)


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
    ax.plot(path.steps, path.loss[:, b], color=style.INK, linewidth=_WIDE)
    ax.set(title="Loss and gradient", ylabel="loss")
    twin = ax.twinx()
    size = path.log_gradient[:, b] / np.log(10)
    twin.plot(path.steps, size, color=style.MARGIN, linewidth=style.LINE)
    twin.set_ylabel("log10 of the gradient's norm", color=style.MARGIN)
    twin.spines["right"].set_visible(True)


def _norms(ax: Axes, path: Path, b: int) -> None:
    for k, (name, block) in enumerate(path.weights.items()):
        with np.errstate(over="ignore"):
            size = np.linalg.norm(block[:, b].reshape(len(path.steps), -1), axis=1)
        ax.plot(path.steps, size, label=f"‖{name}‖", linewidth=_WIDE, **style.curve(k))
    ax.set(title="What is trained", ylabel="Frobenius norm")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="upper left")


def _attention(ax: Axes, path: Path, b: int) -> None:
    least = path.top_attention[:, b].min(axis=1)
    ax.plot(path.steps, path.top_attention[:, b], color=style.QUIET, linewidth=0.7, alpha=0.7)
    ax.plot(path.steps, least, color=style.INK, linewidth=_WIDE)
    title = "Attention on the top token"
    if changed := int(path.changed[b].max(initial=0)):
        ax.axvline(changed, color=style.MARGIN, linewidth=style.LINE, linestyle=":")
        title = "Attention (dotted: last change)"
    ax.set(title=title, ylim=(0, 1.03), ylabel="probability; thick: least sure input")


def _limit(ax: Axes, path: Path, found: Outcome, b: int, proved: Since | None) -> None:
    best = found.certificate
    if best is None or best.W is None:
        label = "no norm is predicted" if best is None else f"no limit here: {best.status}"
        ax.text(0.5, 0.5, label, transform=ax.transAxes, ha="center")
        ax.set(title="Way to the limit", yticks=[])
        return
    W = path.matrices()[:, b]
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.maximum(1 - np.asarray(measures.correlation(W, best)), _FLOOR)
        short = np.maximum(1 - np.asarray(measures.margin_share(W, best)), _FLOOR)
    colour = style.colour(best.norm.name)
    ax.plot(path.steps, apart, color=colour, label="1 − correlation", linewidth=_WIDE)
    if proved is not None and proved.proof.theorem == "tube":
        later = slice(proved.record, None)
        bound = proved.proof.bound_at(W[later])
        ax.plot(path.steps[later], bound, color=style.PROVED, linewidth=_WIDE,
                label="the same, proved bound")  # fmt: skip
    label = "1 − certified margin share"
    ax.plot(path.steps, short, color=style.INK, ls="dashed", linewidth=style.LINE, label=label)
    ax.plot([], [], ls="none", label=f"gap of the certificate: {max(best.gap, _FLOOR):.1e}")
    drawn = np.concatenate([line.get_ydata() for line in ax.lines])
    drawn = drawn[np.isfinite(drawn)]
    top = np.log10(drawn.max(initial=1.0))
    low = min(np.log10(drawn.min(initial=1.0)), top - 2)
    # The lowest third is kept free for the legend.
    ax.set(yscale="log", ylim=(10 ** (low - 0.5 * (top - low)), 10 ** (top + 0.05 * (top - low))))
    predicted = best.norm.name == found.limit.norm
    ax.set_title(f"Way to the {best.norm.name} {'limit' if predicted else 'solution'}")
    ax.legend(frameon=False, loc="lower left", borderaxespad=0.2, borderpad=0.2)


# Letters of a name in the legend.
_NAME = 40


def comparison_picture(found: Comparison, *, look: str = "screen") -> Figure:
    """A panel per norm, one for the direction, one for the proofs; a curve per run.

    In each norm the runs whose limit theory places there are drawn thick: these should reach 0. The
    direction is drawn of runs whose limit is unique. The last two panels are left out where no run
    has anything to show there.
    """
    names = [name if len(name) <= _NAME else name[: _NAME - 1] + "…" for name in found.names]
    shown = [(k, run, run.path) for k, run in enumerate(found.runs) if run.path is not None]
    last = max((int(path.steps[-1]) for _, _, path in shown), default=1)
    unique = [(k, run, path) for k, run, path in shown if _has_direction(run)]
    covered = any(run.outcome is not None and run.outcome.proof for _, run, _ in shown)
    count = len(found.norms) + bool(unique) + covered
    across = 2 if look == "paper" else 3 if count in (3, 5, 6) else 4
    rows = -(-count // across)
    with style.styled(look):
        high = 1.45 * rows + 0.16 * (len(names) + 1) + 0.1
        size = (style.COLUMN, high) if look == "paper" else (11.0, 0.9 + 2.5 * rows)
        pads = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.03, hspace=0.04)
        figure = Picture(figsize=size, look=look, layout=pads)
        axes = figure.subplots(rows, across, squeeze=False).ravel().tolist()
        for spare in axes[count:]:
            spare.remove()
        axes = axes[:count]
        for ax, norm in zip(axes, found.norms, strict=False):
            for k, run, path in shown:
                wide = 2.0 if run.norm == norm else 1.1
                _distance(ax, path, run.shares[norm], k, wide)
            _label(ax, f"{norm} norm", "1 − margin share")
        for k, run, path in unique:
            _distance(axes[len(found.norms)], path, run.correlation, k, 1.4)
        if unique:
            _label(axes[len(found.norms)], "Own limit", "1 − correlation")
        if covered:
            _proofs(axes[-1], shown, [names[k] for k, _, _ in shown])
        for k, ax in enumerate(axes):
            step_axis(ax, last)
            if look == "paper":  # few numbers, so that they stand apart
                powers = range(int(np.log10(max(last, 1))) + 1)
                ax.set_xticks([10**p for p in powers if p % 2 == 0 or last < 1000])
            if not (covered and ax is axes[-1]) and k + across < count:
                ax.set_xlabel("")
        _legend(figure, [(k, run) for k, run, _ in shown], names, look)
        if look == "screen":
            headline(figure, _comparison_headline(found))
        return finish(figure, look)


def _has_direction(run: ComparedRun) -> bool:
    """Whether the limit of a run has one direction, from which the run can be apart."""
    best = None if run.outcome is None else run.outcome.certificate
    one = best is not None and bool(np.isfinite(best.norm.ball(1.0, 1.0)))
    return one and bool(np.isfinite(run.correlation).any())


def _distance(ax: Axes, path: Path, share: Floats, k: int, wide: float) -> None:
    """The line 1 − share along a run."""
    apart = np.maximum(1 - share, _FLOOR)
    ax.plot(path.steps, apart, linewidth=style.LINE * wide, zorder=1 + wide, **style.curve(k))


def _label(ax: Axes, title: str, what: str) -> None:
    """Name a panel of distances, on a logarithmic axis that goes down to the least of them."""
    least = min((float(np.nanmin(line.get_ydata(), initial=0.1)) for line in ax.lines), default=0.1)
    ax.set(title=title, ylabel=what, yscale="log", ylim=(max(0.6 * least, _FLOOR), 2.0))


def _proofs(ax: Axes, shown: list[tuple[int, ComparedRun, Path]], names: list[str]) -> None:
    """A bar for each run from the step on from which it is proved to converge."""
    for row, (k, run, path) in enumerate(shown):
        if run.proved is not None:
            since, end = run.proved.step, int(path.steps[-1])
            ax.barh(row, end - since, left=since, height=0.3, color=style.curve(k)["color"])
            ax.plot(since, row, "|", color=style.INK, markersize=8)
        else:
            proof = None if run.outcome is None else run.outcome.proof
            label = "no theorem" if proof is None else "not proved"
            place = ax.get_yaxis_transform()
            ax.text(0.04, row, label, transform=place, va="center", fontsize="small")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_title("Proved since")
    ax.tick_params(axis="y", length=0)


def _legend(
    figure: Figure, shown: list[tuple[int, ComparedRun]], names: list[str], look: str
) -> None:
    lines = [Line2D([], [], linewidth=style.LINE * 1.6, **style.curve(k)) for k, _ in shown]
    labels = [
        f"{names[k]} ~ {r.nearest or 'none'}" if r.norm is None else f"{names[k]} → {r.norm}"
        for k, r in shown
    ]
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


def sentences_picture(found: SentenceOutcome, *, look: str = "screen") -> Figure:
    """Loss, direction and norm of each matrix that was trained on sentences.

    Three panels per row; per column in print, where the headline is left to the caption.
    """
    run = found.run
    paths = [(n, p) for n, p in (("W_ov", run.decoder), ("W_kq", run.attention)) if p is not None]
    with style.styled(look):
        size = (10.0, 0.6 + 2.9 * len(paths))
        figure, grid = sheet(look, rows=len(paths), columns=3, size=size, across=len(paths))
        grid = grid.T if look == "paper" else grid
        if look == "screen":
            steps = " and ".join(dict.fromkeys(f"{int(path.steps[-1]):,}" for _, path in paths))
            headline(figure, f"{run.model}, {paths[-1][1].config['optimizer']}: {steps} steps")
        for axes, (name, path) in zip(grid, paths, strict=True):
            W = path.weights[name][:, 0]
            with np.errstate(all="ignore"):
                apart = np.asarray(bregman(W, found.certificates[name].W, 2.0))
                norm = np.linalg.norm(W, axis=(1, 2))
            above, label = path.loss[:, 0], "loss"
            if name == "W_kq" and found.infimum is not None and path is not run.decoder:
                above, label = excesses(run, path, found.infimum), "L − L⋆"
            _draw_row(list(axes), name, path.steps, (label, above), apart, norm)
        return figure


def _draw_row(
    axes: Sequence[Axes], name: str, steps: Ints, loss: tuple[str, Floats], apart: Floats, norm: Any
) -> None:
    """One matrix: its loss, 1 − correlation with the solution, and its norm, at steps (R,).

    An exponential law is straight in the first, a power of the step in the second.
    """
    first, direction, size = axes
    _curve(first, steps, loss[1])
    _curve(size, steps, norm)
    first.set(yscale="log", ylabel=loss[0], title=f"{name}: loss")
    direction.set(xscale="log", ylabel="1 − correlation", title=f"{name}: direction")
    if np.nanmax(apart, initial=-1.0) >= _EXACT:
        _curve(direction, steps, np.maximum(apart, _EXACT))
        direction.set_yscale("log")
    else:
        known = bool(np.isfinite(apart).any())
        label = f"exact (below {_EXACT:g})" if known else "not known"
        direction.text(0.5, 0.5, label, transform=direction.transAxes, ha="center")
        direction.set(xlim=(1, max(float(steps[-1]), 2.0)), yticks=[])
    size.set(ylabel=f"‖{name}‖", title=f"{name}: norm")
    for ax in axes:
        ax.set_xlabel("step")


def _curve(ax: Axes, steps: Ints, values: Floats) -> None:
    """The positive values over the steps after the first."""
    shown = (steps > 0) & np.isfinite(values) & (values > 0)
    ax.plot(steps[shown], values[shown], color=style.MARGIN, linewidth=_WIDE)
