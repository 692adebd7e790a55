"""B: a token of the input as its query changes nothing in the limit."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import Claim, Config, seeds_of
from attsvm.experiments.studies.shared.attending_runs import checker, plotter, runner
from attsvm.experiments.studies.shared.random_instances import self_attending, stacked
from attsvm.problem.tokens import Tokens


def _first(config: Config) -> tuple[list[Tokens], Floats]:
    """The first token of each input is its query."""
    pairs = [self_attending(config["shape"], seed) for seed in seeds_of(config)]
    return [tokens for tokens, _ in pairs], np.stack([v for _, v in pairs])


def _cross(config: Config) -> tuple[list[Tokens], Floats]:
    """The same tokens with queries of their own."""
    return stacked(config["shape"], seeds_of(config))


_FAMILIES = {"self-attention": _first, "cross-attention": _cross}
_FULL = {
    "shape": [6, 8, 10],
    "seeds": 100,
    "start": 0,
    "lr": 0.1,
    "steps": 3000,
    "correlation": 0.99,
    "local": 0.9,
}

CLAIM = Claim(
    id="B.self-attention",
    title="The first token as query",
    kind="theorem",
    trust="read",
    statement="The first token of an input may be its query (Theorem 1; Theorem 7 holds for any): "
    "normalized descent on W then ends at the Frobenius max-margin solution of locally optimal "
    "tokens, as it does with queries of their own.",
    full=_FULL,
    quick={**_FULL, "seeds": 20},
    run=runner(_FAMILIES),
    check=checker(_FAMILIES),
    plot=plotter(list(_FAMILIES)),
    reference="tarzanagh2023svm",
    numbered="v1, Theorems 1 and 7",
)
