"""Normalized mirror descent in several exponents on the same instances: what two studies share.

Each exponent p has its own run, its own selected tokens, and its own certified ℓp solution at
those tokens; the p-run is compared with the solutions of all runs by the directional divergence
in exponent p.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, thinned
from attsvm.experiments.study import Table
from attsvm.next_token.problems import Columns
from attsvm.theory.measures import bregman


def norm_name(p: str) -> str:
    """The name of the entrywise norm of exponent p."""
    return "frobenius" if float(p) == 2 else f"l{p}"


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
    alpha = path.selection.reshape(len(group), -1)
    return MirrorRun(
        p, path.steps[places], path.matrices()[places], alpha, group.solved(alpha, norm_name(p))
    )


def run_rows(group: Group, runs: Mapping[str, MirrorRun]) -> Parts:
    """A row for each run, instance and record: the divergences from the solutions of all runs.

    tokens: those selected at the end; right: how many of them are the best ones; to_NAME: the
    divergence in the run's exponent from the solution of the run of this name, nan where none is
    certified; gap: that of the run's own solution, infinite where none is certified.
    """
    return [
        {
            "seed": seed,
            "run": name,
            "step": run.steps,
            "tokens": " ".join(map(str, run.alpha[b])),
            "right": (run.alpha[b] == group.best[b]).sum(),
            **{f"to_{q}": divergence(run.W[:, b], r.best[b], run.p) for q, r in runs.items()},
            "gap": float(run.best[b].gap),
        }
        for name, run in runs.items()
        for b, seed in enumerate(group.seeds)
    ]  # fmt: skip


def divergence(W: Floats, best: Certificate | Columns, p: str) -> Floats:
    """The divergence of each W (R, d, dq) in exponent p from the solution; nan without one."""
    if best.W is None or not np.isfinite(best.gap):
        return np.full(len(W), np.nan)
    return np.asarray(bregman(W, best.W, float(p)))


def ends_of(table: Table) -> dict[str, Table]:
    """The rows of the last record of each run, by seed."""
    last = table[table.step == table.groupby("run").step.transform("max")]
    return {name: rows.set_index("seed") for name, rows in last.groupby("run", sort=False)}
