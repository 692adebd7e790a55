"""The picture of one training run: loss and gradient, attention, and the way to the limit."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path as FilePath

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm._utils.files import beside
from attsvm.errors import BadTokens, Unsupported
from attsvm.plotting import style
from attsvm.plotting.picture import finish, sheet
from attsvm.theory import measures
from attsvm.theory.convergence.prove import Since
from attsvm.theory.outcome import DECIDED, Outcome
from attsvm.training.path import Path

FORMATS = (".svg", ".png", ".pdf")
# Distances below this are rounding.
_FLOOR = 1e-16
_STATE = {
    "converges": "#009e73",
    "at a locally optimal selection": "#0072b2",
    "saturated": "#d55e00",
    "undecided": "#6b6b6b",
    "unknown": "#6b6b6b",
}


def draw_run(
    path: Path,
    found: Outcome,
    file: FilePath,
    *,
    instance: int = 0,
    proved: Since | None = None,
    look: str = "screen",
) -> None:
    """Write the picture of one instance's run, in one move, in the format of the file's ending.

    On top: the state that the run has reached, and since when. Left: the loss, and the norm of the
    gradient in powers of ten. Middle: attention on the top token of each input, with the last
    change of the selection. Right: distance of direction and of margin from the predicted limit.
    proved: the first record with a proof of convergence; its step is marked, and what is proved of
    the distance from there on is drawn beside what is measured. look: "screen" or "paper".
    """
    check_format(file)
    with style.styled(look):
        write_figure(picture(path, found, instance=instance, proved=proved, look=look), file)


def path_picture(
    path: Path, *, found: Outcome | None = None, instance: int = 0, look: str = "screen"
) -> Figure:
    """The picture of a path: with its outcome that of a run, else with the norms of its blocks."""
    if not 0 <= instance < path.size:
        raise BadTokens(f"instance is {instance}: the path has instances 0 to {path.size - 1}")
    if found is not None and not isinstance(found, Outcome):
        raise BadTokens(f"found is {type(found).__name__}: give the Outcome of the path")
    with style.styled(look):
        if found is not None:
            return picture(path, found, instance=instance, look=look)
        figure, grid = sheet(look, columns=3, size=(10.0, 4.0))
        axes = grid.ravel()
        _loss(axes[0], path, instance)
        _attention(axes[1], path, int(path.changed[instance].max(initial=0)), style.QUIET, instance)
        _norms(axes[2], path, instance)
        for ax in axes:
            step_axis(ax, int(path.steps[-1]))
    return finish(figure, look)


def picture(
    path: Path,
    found: Outcome,
    *,
    instance: int = 0,
    proved: Since | None = None,
    look: str = "screen",
) -> Figure:
    """The figure that `draw_run` writes; in print what the headline says is left to the caption."""
    figure, grid = sheet(look, columns=3, size=(10.0, 4.0))
    axes = grid.ravel()
    since = _since(path, found, instance) if proved is None else proved.step
    if proved is None and found.state == "converges":
        since = None  # proved at the end; since when was not asked
    if look == "screen":
        figure.suptitle(
            _headline(path, found, since),
            x=0.01,
            ha="left",
            weight="bold",
            fontsize=style.HEADING,
            color=_STATE[found.state] if path.diverged < 0 else _STATE["saturated"],
        )
    _loss(axes[0], path, instance)
    _attention(axes[1], path, found.changed, _STATE[found.state], instance)
    _limit(axes[2], path, found, instance, proved)
    for ax in axes:
        step_axis(ax, int(path.steps[-1]))
        if since is not None:
            ax.axvspan(since, ax.get_xlim()[1], color=_STATE[found.state], alpha=0.07, linewidth=0)
        if proved is not None and ax is not axes[2]:
            ax.axvline(proved.step, color=_STATE["converges"], linewidth=style.LINE)
    return finish(figure, look)


def step_axis(ax: Axes, last: int) -> None:
    """Logarithmic from step 1; step 0 takes a tenth of the width, so that labels stay apart."""
    last = max(last, 1)
    ax.set_xscale("symlog", linthresh=1, linscale=max(0.12 * np.log10(last), 0.1))
    ax.set_xlim(0, last * 1.1)
    ax.set_xlabel("step")


def _since(path: Path, found: Outcome, b: int) -> int | None:
    """The first record from which on every input is decided and its selection the last one."""
    held = (path.top_attention[:, b] >= DECIDED).all(axis=1)
    held &= (path.top[:, b] == path.top[-1, b]).all(axis=1) & (path.steps >= (found.changed or 0))
    if not held[-1]:
        return None
    loose = (~held).nonzero()[0]
    return int(path.steps[loose[-1] + 1 if len(loose) else 0])


def _headline(path: Path, found: Outcome, since: int | None) -> str:
    """What was run, and the state it has reached."""
    words = {"unknown": "decided", "converges": "converges, proved"}
    state = words.get(found.state, found.state)
    when = f"at step {int(path.steps[-1]):,}" if since is None else f"from step {since:,} on"
    ended = f"; diverged at step {path.diverged:,}" if path.diverged >= 0 else ""
    return f"{path.config['model']}, {path.config['optimizer']}: {state} {when}{ended}"


def check_format(file: FilePath) -> None:
    """Raises an error unless the file's ending names a format."""
    if file.suffix not in FORMATS:
        raise Unsupported(f"{file.name}: a figure ends in one of {', '.join(FORMATS)}")


def write_figure(figure: Figure, file: FilePath, *, title: str = "", about: str = "") -> None:
    """Write the figure in one move: a whole file appears, or none.

    title, about: what its metadata say of it: title and description of the Dublin Core in an SVG,
    Title and Description of a PNG, Title and Subject of a PDF.
    """
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    said = {"Title": title, "Subject" if file.suffix == ".pdf" else "Description": about}
    kept = {name: words for name, words in said.items() if words}
    drawn = BytesIO()  # drawing takes a second or two, writing does not
    figure.savefig(
        drawn, format=file.suffix[1:], dpi=style.DPI, metadata=undated.get(file.suffix, {}) | kept
    )
    with beside(file) as target:
        target.write_bytes(drawn.getvalue())


def place_parts(figure: Figure) -> None:
    """Place the parts of a figure once and for all, before it is written to several files.

    Else they are placed anew for each file, and it is drawn twice for it.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    with rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine(None)


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
        # The word stands on the side of the line that has more room.
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
        said = "no norm is predicted" if best is None else f"no limit here: {best.status}"
        ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center")
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
