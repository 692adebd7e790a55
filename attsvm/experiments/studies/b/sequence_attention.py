"""B: every position of a sequence as a query, over all tokens or those before it."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import Claim, Config, seeds_of
from attsvm.experiments.studies.shared.attending_runs import checker, plotter, runner
from attsvm.problem.tokens import Tokens


def sequences(config: Config, *, causal: bool) -> tuple[list[Tokens], Floats]:
    """Sequences of unit tokens, a random label at every position, and a unit head."""
    S, L, d = config["shape"]
    stack, heads = [], []
    for seed in seeds_of(config):
        draw = np.random.default_rng(seed)
        X, v = draw.standard_normal((S, L, d)), draw.standard_normal(d)
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        labels = draw.choice([-1.0, 1.0], size=S * L)
        stack.append(Tokens.sequence(X, causal=causal, labels=labels))
        heads.append(v / np.linalg.norm(v))
    return stack, np.stack(heads)


def _all(config: Config) -> tuple[list[Tokens], Floats]:
    return sequences(config, causal=False)


def _causal(config: Config) -> tuple[list[Tokens], Floats]:
    return sequences(config, causal=True)


_FAMILIES = {"all positions": _all, "causal": _causal}
_FULL = {
    "shape": [3, 6, 12],
    "seeds": 40,
    "start": 0,
    "lr": 0.1,
    "steps": 10_000,
    "correlation": 0.99,
    "local": 0.9,
}

CLAIM = Claim(
    id="B.sequence-attention",
    title="Every position a query",
    kind="question",
    trust="measured",
    statement="When every position of a sequence is a query over the shared tokens, with or "
    "without a causal mask, normalized descent on W ends at the Frobenius max-margin solution of "
    "locally optimal tokens. The papers treat one query per input and leave this open.",
    full=_FULL,
    quick={**_FULL, "seeds": 10},
    run=runner(_FAMILIES),
    check=checker(_FAMILIES),
    plot=plotter(list(_FAMILIES)),
    reference="tarzanagh2023svm",
)
