"""B: tokens of the input as queries: the first one, or every position of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm.experiments.group import Drawn, Group, Parts
from attsvm.experiments.studies.shared.attending_runs import (
    attending,
    checks_on_ends,
    direction_figure,
    last,
)
from attsvm.experiments.study import Checks, Premises, Study, Table
from attsvm.problem.tokens import Tokens

MASKS = ("all positions", "causal")
QUERIES = {"first": "self-attention", "free": "cross-attention"}


def sequences(
    seeds: Sequence[int], S: int = 3, L: int = 6, d: int = 12, mask: str = MASKS[0]
) -> Drawn:
    """S sequences of L unit tokens, a random label at every position, and a unit head."""
    stack, heads = [], []
    for seed in seeds:
        draw = np.random.default_rng(seed)
        X, v = draw.standard_normal((S, L, d)), draw.standard_normal(d)
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        labels = draw.choice([-1.0, 1.0], size=S * L)
        stack.append(Tokens.sequence(X, causal=mask == "causal", labels=labels))
        heads.append(v / np.linalg.norm(v))
    return Drawn(stack, np.stack(heads))


def measure(group: Group) -> Parts:
    """The correlation along the run with the solution of what is selected at its end."""
    return attending(group.tokens, group.heads, group.seeds, group.run)[0]


def checks(table: Table, thresholds: Any) -> Checks:
    """Runs of every kind end at the solution of locally optimal tokens."""
    ends = last(table)
    for kind, rows in ends.groupby("mask" if "mask" in ends else "queries", sort=False):
        yield from checks_on_ends(QUERIES.get(kind, kind), rows, thresholds)
    yield Premises(len(ends), f"{len(ends)} runs, each with the problem of the tokens it selects "
                   "at the end")  # fmt: skip


attending_study = partial(
    Study,
    measure=measure,
    checks=checks,
    gap=1e-8,
    thresholds={"correlation": 0.99, "local": 0.9},
)

STUDY = attending_study(
    id="B.sequence-attention",
    title="Every position a query",
    kind="question",
    source="measured",
    statement="When every position of a sequence is a query over the shared tokens, with or "
    "without a causal mask, normalized descent on W ends at the Frobenius max-margin solution "
    "of locally optimal tokens. The papers treat one query per input and leave this open.",
    family=sequences,
    grid={"mask": list(MASKS)},
    run={"S": 3, "L": 6, "d": 12, "steps": 10_000},
    seeds=40,
    group=10,
    quick={"seeds": 10},
    figure=direction_figure("mask"),
)
