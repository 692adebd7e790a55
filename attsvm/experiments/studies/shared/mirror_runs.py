"""Normalized mirror descent in several exponents on the same instances: what two studies share.

Each exponent p has its own run, its own selected tokens, and its own certified ℓp solution at
those tokens; the p-run is compared with the solutions of all runs by the directional divergence
in exponent p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, selected_by
from attsvm.experiments.table import joined
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.measures import bregman

if TYPE_CHECKING:
    from pandas import DataFrame

# Records of a run that are kept by default, evenly spread over the log-spaced grid.
_KEPT = 40


def norm_name(p: str) -> str:
    """The name of the entrywise norm of exponent p."""
    return "frobenius" if float(p) == 2 else f"l{p}"


def problems(tokens: Sequence[Tokens], W: Floats) -> list[Problem]:
    """The problem of each instance at the tokens that W (B, d, dq) selects."""
    return [
        Problem.of(t, Selection.of(t, selected_by(t, M))) for t, M in zip(tokens, W, strict=True)
    ]


def thinned(steps: Ints | Floats, most: int = _KEPT) -> list[int]:
    """Up to `most` records, evenly spread over the grid, the first and the last included."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [int(k) for k in places]


@dataclass(frozen=True)
class MirrorRun:
    """The run of exponent p on B instances.

    steps (R,), W (R, B, d, d): records that are kept; alpha (B, n): the tokens selected at the
    end; best: the certified ℓp solutions of their problems.
    """

    p: str
    steps: Ints
    W: Floats
    alpha: Ints
    best: list[Certificate]


def mirror_run(
    group: Group, p: str, *, lr: float, steps: int, init: Any = "zero", kept: int = 20
) -> MirrorRun:
    """Normalized mirror descent of exponent p, and the solutions at the tokens it ends with."""
    path = train(
        group.tokens, optimizer=f"nmirror:{p}", head=group.heads, lr=lr, steps=steps, init=init
    )
    places = thinned(path.steps, kept)
    W = path.matrices()[places]
    alpha = np.stack([selected_by(t, M) for t, M in zip(group.tokens, W[-1], strict=True)])
    return MirrorRun(p, path.steps[places], W, alpha, group.solved(alpha, norm_name(p)))


def run_rows(group: Group, runs: Mapping[str, MirrorRun]) -> dict[str, Any]:
    """A row for each run, instance and record: the divergences from the solutions of all runs.

    tokens: those selected at the end; right: how many of them are the best ones; to_NAME: the
    divergence in the run's exponent from the solution of the run of this name, nan where none is
    certified; gap: that of the run's own solution, infinite where none is certified.
    """
    blocks = []
    for name, run in runs.items():
        R, B = run.W.shape[:2]
        away = {f"to_{q}": _divergence(run.W, other.best, run.p) for q, other in runs.items()}
        blocks.append({
            "seed": np.repeat(group.seeds, R),
            "run": np.full(R * B, name),
            "step": np.tile(run.steps, B),
            "tokens": np.repeat([tokens_text(alpha) for alpha in run.alpha], R),
            "right": np.repeat((run.alpha == group.best).sum(axis=1), R),
            **{column: values.T.ravel() for column, values in away.items()},
            "gap": np.repeat([float(c.gap) for c in run.best], R),
        })  # fmt: skip
    return joined(blocks, "mirror runs")


def tokens_text(alpha: Ints) -> str:
    """The selected tokens of all inputs, as a column of texts has them."""
    return " ".join(map(str, alpha.tolist()))


def _divergence(W: Floats, targets: list[Certificate], p: str) -> Floats:
    """The divergence (R, B) of each iterate from its instance's solution."""
    columns = [
        np.full(len(W), np.nan)
        if c.W is None or not np.isfinite(c.gap)
        else np.asarray(bregman(W[:, b], np.asarray(c.W), float(p)))
        for b, c in enumerate(targets)
    ]
    return np.stack(columns, axis=1)


def ends_of(table: DataFrame) -> dict[str, DataFrame]:
    """The rows of the last record of each run, by seed."""
    last = table[table.step == table.groupby("run").step.transform("max")]
    return {name: rows.set_index("seed") for name, rows in last.groupby("run", sort=False)}
