"""Trained weights against the problem of what they select, for any way of making queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Parts, cosine, selected_by, share, thinned
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.study import Checks, Table, at_least, info
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED
from attsvm.training.optimizers.optimizer import Blocks


def uniform_starts(seeds: Sequence[int], shapes: dict[str, tuple[int, int]], start: int) -> Blocks:
    """Uniform first blocks of these shapes (B, ...), each instance's from its own seed."""
    streams = [np.random.default_rng([start, seed]) for seed in seeds]
    out: Blocks = {}
    for name, shape in shapes.items():
        edge = 1.0 / np.sqrt(shape[0])
        out[name] = np.stack([s.uniform(-edge, edge, shape) for s in streams])
    return out


def selected_problems(stack: Sequence[Tokens], W: Floats) -> list[Problem]:
    """The problem of the tokens that each W (B, d, dq) attends to most."""
    return [
        Problem.of(tokens, Selection.of(tokens, selected_by(tokens, M)))
        for tokens, M in zip(stack, W, strict=True)
    ]


def end_of(tokens: Tokens, v: Floats, W: Floats, found: Certificate) -> str:
    """Where W stands, found being the certificate of the tokens it attends to most.

    undecided: some input spreads its attention; saturated: the selection is not locally optimal;
    local, global: the selection is certified so, and training may still leave it; unknown: the
    certificate is too weak.
    """
    s = attention(tokens, W)
    verdict = verdict_on(tokens, Selection.of(tokens, s.argmax(axis=1)), v, found)
    if s.max(axis=1).min() < DECIDED:
        return "undecided"
    if verdict.locally is None:
        return "saturated" if verdict.kind == "infeasible" else "unknown"
    if not verdict.locally:
        return "saturated"
    return "global" if verdict.globally else "local"


def attending(
    stack: list[Tokens], heads: Floats, seeds: Sequence[int], run: dict[str, Any]
) -> tuple[Parts, Floats]:
    """Normalized descent from a uniform start, against the problem of what it selects at the end.

    A part per instance, a row per record; `end`, `share` and `gap` are of the end. Returns the last
    W (B, d, dq) as well.
    """
    d, dq = stack[0].d, stack[0].queries.shape[1]
    first = uniform_starts(seeds, {"W": (d, dq)}, run["start"])
    path = train(stack, head=heads, lr=run["lr"], steps=run["steps"], init=first)
    rows = thinned(path.steps, 24)
    W = path.weights["W"][rows]
    found = solve_many(selected_problems(stack, W[-1]))
    parts = [
        {
            "seed": seed,
            "step": path.steps[rows],
            "correlation": (correlations := np.array([cosine(M, c) for M in W[:, b]])),
            "away": 1 - correlations,
            "end": end_of(stack[b], heads[b], W[-1, b], c),
            "share": share(W[-1, b], c),
            "gap": float(c.gap),
        }
        for b, (seed, c) in enumerate(zip(seeds, found, strict=True))
    ]
    return parts, W[-1]


def last(table: Table) -> Table:
    """The rows of the last step."""
    return table[table.step == table.step.max()]


def checks_on_ends(name: str, ends: Table, thresholds: Any) -> Checks:
    """The checks on one family of runs, from its rows of the last step."""
    places = ends.end.value_counts(normalize=True)
    local = places.get("global", 0.0) + places.get("local", 0.0)
    yield at_least(f"{name}: mean correlation to the solution of the selected tokens",
                   ends.correlation.mean(skipna=False), thresholds["correlation"])  # fmt: skip
    yield at_least(f"{name}: share of runs that end at locally optimal tokens", local,
                   thresholds["local"])  # fmt: skip
    yield info(f"{name}: share of runs that end at the best tokens", places.get("global", 0.0))


def direction_figure(lines: str, xlabel: str = "step") -> dict[str, Any]:
    """1 − correlation over the steps, one curve for each value of a column."""
    return {
        "kind": "curves",
        "x": "step",
        "value": "away",
        "lines": lines,
        "band": "half",
        "log": "xy",
        "ylabel": "1 − correlation (median, middle half)",
        "xlabel": xlabel,
    }
