"""Random instances of the averaged experiments, their starts, and where trained weights stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.group import selected_by
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED
from attsvm.training.models.gradient.attention import attend
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.optimizers.optimizer import Blocks


def attention(tokens: Tokens, W: Floats) -> Floats:
    """The attention (n, T) under W (d, dq)."""
    b = Batch.of(tokens)
    logs, _, _ = attend(b.keys, b.values, b.queries, b.present, np.ascontiguousarray(W)[None])
    return np.exp(logs[0])


def best_problem(tokens: Tokens, v: Any) -> Problem:
    """The problem of the best tokens under the head v."""
    return Problem.of(tokens, Selection.best(tokens, v))


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
    """The kind of the tokens that W attends to most, by their certificate (global, local, neither,
    infeasible or undecided); spread where some input has no attention of 0.999 on any token."""
    s = attention(tokens, W)
    if s.max(axis=1).min() < DECIDED:
        return "spread"
    return verdict_on(tokens, Selection.of(tokens, s.argmax(axis=1)), v, found).kind
