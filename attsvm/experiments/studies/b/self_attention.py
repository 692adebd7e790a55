"""B: a token of the input as its query changes nothing in the limit."""

from __future__ import annotations

from attsvm.experiments.studies.b.sequence_attention import QUERIES, attending_study
from attsvm.experiments.studies.shared.attending_runs import direction_figure

STUDY = attending_study(
    id="B.self-attention",
    title="The first token as query",
    kind="theorem",
    source="paper",
    statement="The first token of an input may be its query (Theorem 1; Theorem 7 holds for "
    "any): normalized descent on W then ends at the Frobenius max-margin solution of locally "
    "optimal tokens, as it does with queries of their own.",
    family="sphere",
    grid={"queries": list(QUERIES)},
    run={"n": 6, "T": 8, "d": 10, "steps": 3000},
    seeds=100,
    group=25,
    quick={"seeds": 20},
    figure=direction_figure(
        "queries", "step (query: the first token of each input, or a free one)"
    ),
    theorem="v1, Theorems 1 and 7",
)
