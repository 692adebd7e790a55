"""The picture of a hunt: the instance that was found, and how the violation rose on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.plotting import style
from attsvm.plotting.run import check_format, write_figure
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

# Distinct under every common colour blindness (Okabe and Ito).
_CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKS = ("o", "s", "^", "D", "v", "P")


def draw_hunt(
    file: Path, arrays: Mapping[str, Any], rises: Sequence[tuple[int, float]], *, title: str
) -> None:
    """Write the picture of a hunt, in one move, in the format of the file's ending.

    arrays: the instance by the names of a problem file, empty where nothing was found. rises:
    (tried, largest violation so far).
    """
    check_format(file)
    with style.styled():
        figure = Figure(figsize=(8.0, 3.8), layout=ConstrainedLayoutEngine(wspace=0.07))
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.HEADING, fontweight="bold")
        if "X" in arrays:
            left, right = figure.subplots(1, 2)
            (_draw_order if "marks" in arrays else _draw_instance)(left, arrays)
        else:
            right = figure.subplots()
        _draw_rises(right, rises, found=bool(arrays))
        write_figure(figure, file)


def _draw_instance(axes: Axes, arrays: Mapping[str, Any]) -> None:
    X = np.asarray(arrays["X"], dtype=np.float64)
    if X.shape[2] > 2:
        _draw_table(axes, X)
        return
    if X.shape[2] == 1:
        X = np.concatenate([X, np.zeros_like(X)], axis=2)
        # Inputs in rows of their own: on one line they would hide each other.
        X[:, :, 1] -= np.arange(len(X))[:, None]
    labels = arrays.get("y", np.ones(len(X)))
    scores = None
    if "v" in arrays:
        scores = labels[:, None] * (np.asarray(arrays["X"]) @ arrays["v"]) + 0.0  # no −0
    places: dict[tuple[float, float], list[str]] = {}
    for i, tokens in enumerate(X):
        colour, mark = _CYCLE[i % len(_CYCLE)], _MARKS[i % len(_MARKS)]
        best = 0 if scores is None else int(scores[i].argmax())
        name = f"input {i}" + ("" if labels[i] == 1 else ", y = −1")
        axes.plot(*tokens.T, mark, color=colour, markersize=6, label=name, alpha=0.8)
        axes.plot(*tokens[best], mark, color=colour, markersize=13, fillstyle="none")
        for t, x in enumerate(tokens):
            said = f"{i}.{t}" + ("" if scores is None else f" ({scores[i, t]:g})".replace("-", "−"))
            places.setdefault((float(x[0]), float(x[1])), []).append(said)
    for place, words in places.items():
        axes.annotate("\n".join(words), place, xytext=(7, 6), textcoords="offset points",
                      fontsize=7)  # fmt: skip
    _draw_start(axes, arrays, X)
    what = "kept" if scores is None else "best"
    axes.set_title(f"Tokens input.token{'' if scores is None else ' (score)'}, ring: {what}")
    axes.set(xlabel="x₁", ylabel="x₂" if np.asarray(arrays["X"]).shape[2] > 1 else "")
    if np.asarray(arrays["X"]).shape[2] == 1:
        axes.set_yticks([])
    axes.margins(0.25)
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.16), ncol=3)


def _draw_start(axes: Axes, arrays: Mapping[str, Any], X: Any) -> None:
    """The direction of the start or point p0, as an arrow of the tokens' size."""
    if "p0" not in arrays or np.asarray(arrays["X"]).shape[2] != 2:
        return
    p = np.asarray(arrays["p0"], dtype=np.float64)
    size = float(np.linalg.norm(p))
    if size == 0:
        return
    x, y = max(float(np.abs(X).max()), 0.5) * p / size
    reach = (float(x), float(y))
    axes.plot(*reach, alpha=0.0)  # so that the arrow is inside the frame
    axes.annotate("", reach, (0, 0), arrowprops={"arrowstyle": "->", "color": style.INK})
    said = f"p₀ = ({p[0]:g}, {p[1]:g})".replace("-", "−")
    axes.annotate(said, reach, xytext=(6, -10), textcoords="offset points", fontsize=7.5)


def _draw_order(axes: Axes, arrays: Mapping[str, Any]) -> None:
    """Tokens of sentences at the height of their entry, an arrow from each to those below it."""
    X = np.asarray(arrays["X"], dtype=np.float64)
    best = solve(Problem.of(Tokens(X), [0] * len(X)))
    u = np.zeros(X.shape[2]) if best.W is None else np.asarray(best.W)[:, 0]
    for hi, lo in X.argmax(axis=2):
        axes.annotate("", (lo, u[lo]), (hi, u[hi]),
                      arrowprops={"arrowstyle": "->", "color": style.QUIET, "shrinkA": 9,
                                  "shrinkB": 9})  # fmt: skip
    axes.plot(np.arange(len(u)), u, "o", color=_CYCLE[0], markersize=15)
    for t, height in enumerate(u):
        axes.annotate(str(t), (t, height), ha="center", va="center", color="white", fontsize=8)
    axes.set_xticks(range(len(u)))
    axes.margins(0.12)
    axes.set_title("Tokens, an arrow: above")
    axes.set(xlabel="token (the last is the query)", ylabel="entry of the column")


def _draw_table(axes: Axes, X: Any) -> None:
    """Tokens of more than two dimensions: their entries, one row per token."""
    n, T, d = X.shape
    flat = X.reshape(n * T, d)
    most = max(float(np.abs(flat).max()), 1.0)
    axes.imshow(flat, cmap="PuOr", vmin=-2 * most, vmax=2 * most, aspect="auto")
    for i, row in enumerate(flat):
        for j, x in enumerate(row):
            axes.annotate(f"{x:g}".replace("-", "−"), (j, i), ha="center", va="center", fontsize=8)
    for i in range(1, n):
        axes.axhline(i * T - 0.5, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(n * T), [f"{i}.{t}" for i in range(n) for t in range(T)])
    axes.set_xticks(range(d))
    axes.set(xlabel="dimension", ylabel="input.token", title="Tokens")


def _draw_rises(axes: Axes, rises: Sequence[tuple[int, float]], *, found: bool) -> None:
    axes.set_title("Largest violation so far")
    axes.set(xlabel="instances tried", ylabel="violation")
    axes.axhline(0.0, color=style.FAINT, linewidth=1.0, zorder=0)
    if not rises:
        axes.annotate("no premises were met", (0.5, 0.5), xycoords="axes fraction", ha="center")
        return
    tried, best = np.array(rises, dtype=np.float64).T
    axes.step(tried, best, where="post", color=_CYCLE[0], marker=".")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-3)
    if found:
        axes.plot(tried[-1], best[-1], "o", color=_CYCLE[1])
        axes.annotate("found", (tried[-1], best[-1]), xytext=(-8, -3), ha="right",
                      textcoords="offset points", fontsize=7.5)  # fmt: skip
