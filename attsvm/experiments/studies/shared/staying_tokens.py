"""Heads that keep several tokens of an input: what both multi-token claims share.

Kept tokens O_i have a limit of their attention, the others lose it. Then, with logits that differ
by log-ratios of the limit inside O_i (finite part) and by R or more outside (direction),

    W ≈ W^fin + R W^mm

is proposed. R is chosen by least squares, or so that the correlation with W is largest.

With the limit taken from the run's own attention at W, as in the released code, W^fin is the
projection of W on the span of its ties. Then the two fits are one, and the sum is never farther
from W than the direction alone: only a limit from elsewhere tests it, a closed form or an earlier
step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.certificate import Certificate, certify
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.studies.claim import Config, Result, seeds_of
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Head, Quadratic, Relu

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("finite", "direction", "one")
# The predictions of W that are compared: two fits of one proposal, and two without a finite part.
FIT, BEST, DIRECTION, ONE = range(4)
NAMES = (
    "finite part + direction, least squares",
    "finite part + direction, largest correlation",
    "direction alone",
    "one token",
)


# Heads by their names in a config: relu as it is read, relu-v as in the released code.
_HEADS = {"relu": "1ᵀReLU(o)", "relu-v": "1ᵀReLU(Vᵀo)", "quadratic": "v·o − λ‖o‖²"}


@dataclass(frozen=True)
class StayingCell:
    """One head, one loop (exact or published) and one dimension."""

    head: str
    loop: str
    d: int

    @property
    def name(self) -> str:
        """The name under which its arrays are kept."""
        return f"{self.head}.{self.loop}.{self.d}"

    @property
    def title(self) -> str:
        """Its name in tests and pictures."""
        return f"{_HEADS[self.head]}, {self.loop}, d = {self.d}"


def cells(config: Config) -> list[StayingCell]:
    """Every cell of a config."""
    return [
        StayingCell(head, loop, d)
        for head in config["heads"]
        for loop in config["loops"]
        for d in config["dimensions"]
    ]


def drawn(config: Config, cell: StayingCell) -> int:
    """How many instances of a cell are drawn."""
    return int(config["seeds"] * config["draws"].get(str(cell.d), 1))


def instances(config: Config, cell: StayingCell) -> tuple[list[Tokens], Head]:
    """The instances of a cell and their heads; with a quadratic head those within its premises."""
    n, T = config["size"]
    stack, heads = [], []
    for seed in seeds_of({**config, "seeds": drawn(config, cell)}):
        a = sphere_arrays(n, T, cell.d, seed=seed)
        draw = np.random.default_rng([seed, cell.d])
        X, y = a["X"], a["y"]
        if cell.head == "quadratic":
            # Orthonormal tokens: the nearest to the draw.
            U, _, Vt = np.linalg.svd(X, full_matrices=False)
            tokens = Tokens(U @ Vt, queries=a["z"], labels=np.ones(n))
            if not clear(config, tokens, a["v"]):
                continue
            heads.append(a["v"])
        else:
            V = draw.standard_normal((cell.d, cell.d))
            heads.append(np.eye(cell.d) if cell.head == "relu" else V / np.linalg.norm(V))
            if (y > 0).all():  # published: at least one label is −1
                y[draw.integers(n)] = -1.0
            tokens = Tokens(X, queries=a["z"], labels=y)
        stack.append(tokens)
    shape = (-1, cell.d) if cell.head == "quadratic" else (-1, cell.d, cell.d)
    return stack, head_of_rows(config, np.reshape(np.array(heads), shape))


def head_of_rows(config: Config, rows: Floats) -> Head:
    """The head of these weights, (B, d, d) or (B, d)."""
    return Relu(rows) if rows.ndim == 3 else Quadratic(rows, config["penalty"])


def water_level(tokens: Tokens, v: Floats, penalty: float, *, among: Bools | None = None) -> Floats:
    """The attention (n, T) that maximises v·o − λ‖o‖² for orthonormal tokens: (γ − ν)₊/(2λ).

    among (n, T): the tokens that may have any; all without it.
    """
    out = np.zeros((tokens.n, tokens.T))
    for i, scores in enumerate(np.asarray(tokens.X) @ v):
        may = np.ones(tokens.T, dtype=bool) if among is None else among[i]
        high = np.sort(scores[may])[::-1]
        levels = (np.cumsum(high) - 2 * penalty) / np.arange(1, len(high) + 1)
        k = int(np.flatnonzero(high > levels)[-1])
        out[i, may] = np.maximum(scores[may] - levels[k], 0.0) / (2 * penalty)
    return out


def clear(config: Config, tokens: Tokens, v: Floats) -> bool:
    """Whether the closed form drops some token, and none nearer than `clear` to the edge."""
    limit = water_level(tokens, v, config["penalty"])
    scores = np.asarray(tokens.X) @ v
    level = (scores - 2 * config["penalty"] * limit)[np.arange(tokens.n), limit.argmax(axis=1)]
    near = np.abs(scores - level[:, None]) < config["clear"]
    return not near.any() and not (limit > 0).all()


def kept_tokens(config: Config, tokens: Tokens, head: Head, b: int, s: Floats) -> Bools | None:
    """O_i as booleans (n, T); None when the run is outside the premises.

    relu: by the published filter on the attention s, none between the two thresholds and some
    below. quadratic: of the tokens with attention those that the closed form gives some.
    """
    low, high = config["filter"]
    kept = s >= high
    if isinstance(head, Quadratic):
        among = None if kept.all() else kept
        return water_level(tokens, head.v[b], head.penalty, among=among) > 0
    if ((s > low) & (s < high)).any():
        return None
    return None if kept.all() else kept


def limit_of(tokens: Tokens, head: Head, b: int, kept: Bools, s: Floats) -> Floats:
    """The limit of attention (n, T): the closed form among the kept tokens, or else s itself."""
    if isinstance(head, Quadratic):
        return water_level(tokens, head.v[b], head.penalty, among=kept)
    return s


def problems(tokens: Tokens, kept: Bools, s: Floats) -> dict[str, Problem]:
    """The finite part, the direction, and the one-token problem of a run with the limit s."""
    keep = Selection.of(tokens, kept)
    # Without several kept tokens nothing is asked of the finite part, which is then zero.
    none = keep.single
    return {
        "finite": Problem.of(tokens, keep, b=np.zeros(tokens.n))
        if none
        else Problem.finite(tokens, keep, s),
        "direction": Problem.of(tokens, keep),
        "one": Problem.of(tokens, Selection.of(tokens, s.argmax(axis=1))),
    }


@dataclass(frozen=True, eq=False)
class ComparedTokens:
    """One accepted run: the instance, its certificates by part, 1 − correlation of the four
    predictions at each record (R, 4), and the attention where it is judged (n, T)."""

    place: int
    best: dict[str, Certificate]
    away: Floats
    s: Floats

    @property
    def several(self) -> bool:
        """Whether some input keeps several tokens."""
        return self.best["finite"].problem.ties > 0


def judged_records(config: Config, steps: Ints) -> list[int]:
    """Of kept records, those that are judged, by share of the steps."""
    return [int(np.abs(steps - share * config["steps"]).argmin()) for share in config["at"]]


def _recertified(name: str, k: int, problem: Problem, result: Result) -> Certificate:
    """The Certificate of the k-th solution, whose multipliers are padded with zeros."""
    W = result[f"{name}.W"][k]
    lam = result[f"{name}.multipliers"][k, : problem.m]
    mu = result[f"{name}.ties"][k, : problem.ties]
    return certify(problem, "frobenius", None if np.isnan(W).any() else W, lam, mu)


def compared(
    config: Config, result: Result, cell: StayingCell, at: int = -1
) -> list[ComparedTokens]:
    """The accepted runs of a cell, from the saved weights; solutions certified again.

    at: which of the judged records the runs are accepted at and their problems are of.
    """
    stack, head = instances(config, cell)
    steps, W = result[f"{cell.name}.steps"], result[f"{cell.name}.W"]
    k = judged_records(config, steps)[at]
    name = f"{cell.name}.{steps[k]}"
    out: list[ComparedTokens] = []
    for b, tokens in enumerate(stack):
        s = attention(tokens, W[k, b])
        kept = kept_tokens(config, tokens, head, b, s)
        if kept is None:
            continue
        best = {
            part: _recertified(f"{name}.{part}", len(out), problem, result)
            for part, problem in problems(tokens, kept, limit_of(tokens, head, b, kept, s)).items()
        }
        out.append(ComparedTokens(b, best, _away(W[: k + 1, b], best), s))
    return out


def off_sum(W: Floats, finite: Floats, direction: Floats) -> tuple[float, float]:
    """1 − correlation of W with W^fin + R W^mm, R by least squares and by largest correlation.

    With a = ⟨W, W^fin⟩ and b = ⟨W, W^mm⟩/‖W^mm‖, and the two parts orthogonal, the correlation is
    at most √(a²/‖W^fin‖² + b²)/‖W‖ where a > 0, and else |b|/‖W‖, in the limit of large |R|: it is
    never below that of the direction alone.
    """
    size, length = float(np.linalg.norm(W)), float(np.linalg.norm(finite))
    unit = direction / np.linalg.norm(direction)
    along = float(np.vdot(W, unit))
    fit = finite + np.vdot(W - finite, unit) * unit
    inner = float(np.vdot(W, finite)) / length if length > 1e-12 else 0.0
    best = np.hypot(inner, along) if inner > 0 else abs(along)
    return 1 - float(np.vdot(W, fit) / np.linalg.norm(fit)) / size, 1 - float(best) / size


def _away(W: Floats, best: dict[str, Certificate]) -> Floats:
    """1 − correlation of W (R, d, d) with the predictions, (R, 4); nan without a solution."""
    finite, direction, one = (best[part].W for part in PARTS)
    out = np.full((len(W), 4), np.nan)
    if finite is None or direction is None or one is None:
        return out
    for r, M in enumerate(W):
        size = float(np.linalg.norm(M))
        if size > 0:
            out[r, [FIT, BEST]] = off_sum(M, np.asarray(finite), np.asarray(direction))
            for k, target in ((DIRECTION, direction), (ONE, one)):
                out[r, k] = 1 - np.vdot(M, target) / (size * np.linalg.norm(target))
    return out


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation of the predictions over the steps, runs that keep several tokens."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    shown, columns = cells(config), max(2, len(config["dimensions"]))
    rows = -(-len(shown) // columns)
    size = (max(10.0, 3 * columns), 1.2 + 3.2 * rows)
    figure, axes = panels(columns, rows=rows, sharey=True, figsize=size)
    dashes = ("-", ":", "-", "-")
    for place, (ax, cell) in enumerate(zip(axes, shown, strict=False)):
        runs = [r for r in compared(config, result, cell) if r.several]
        for k, name in enumerate(NAMES if runs else ()):
            band(
                ax,
                result[f"{cell.name}.steps"],
                np.maximum(np.array([r.away[:, k] for r in runs]).T, 1e-9),
                colour=CYCLE[k],
                label=name,
                linestyle=dashes[k],
            )
        ax.set(xscale="log", yscale="log", xlabel="step")
        ax.set_title(f"{cell.title}: {len(runs)} runs", fontsize=8.5)
        if place % columns == 0:
            ax.set_ylabel("1 − correlation (median, middle half)")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=2
    )
    return figure
