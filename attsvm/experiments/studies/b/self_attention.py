"""B: a token of the input as its query changes nothing in the limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.attending_runs import (
    attending,
    checks_on_ends,
    direction_figure,
    last,
)
from attsvm.experiments.study import Found, Premises, Study, Table, at_most

NAMES = {"first": "self-attention", "free": "cross-attention"}


def measure(group: Group) -> dict[str, Any]:
    """The correlation along the run with the solution of what is selected at its end."""
    return attending(group.tokens, group.heads, group.seeds, group.run)[0]


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """Both kinds of queries end at the solution of locally optimal tokens."""
    ends = last(table)
    for queries, name in NAMES.items():
        yield from checks_on_ends(name, ends[ends.queries == queries], thresholds)
    yield at_most("largest certified gap", ends.gap.max(), 1e-8)
    yield Premises(
        len(ends),
        f"{len(ends)} runs, each with the problem of the tokens it selects at the end",
        ends.gap.max(),
    )


STUDY = Study(
    id="B.self-attention",
    title="The first token as query",
    kind="theorem",
    source="paper",
    statement="The first token of an input may be its query (Theorem 1; Theorem 7 holds for any): "
    "normalized descent on W then ends at the Frobenius max-margin solution of locally optimal "
    "tokens, as it does with queries of their own.",
    family="sphere",
    grid={"queries": list(NAMES)},
    run={"n": 6, "T": 8, "d": 10, "lr": 0.1, "steps": 3000, "start": 0},
    seeds=100,
    group=25,
    measure=measure,
    checks=checks,
    thresholds={"correlation": 0.99, "local": 0.9},
    quick={"seeds": 20},
    figure=direction_figure(
        "queries", "step (query: the first token of each input, or a free one)"
    ),
    reference="tarzanagh2023svm",
    theorem="v1, Theorems 1 and 7",
)
