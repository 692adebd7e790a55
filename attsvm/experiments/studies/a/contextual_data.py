"""A: on data of several contexts, attention learns to find the tokens that carry the label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm.datasets.instances import contextual_arrays
from attsvm.experiments.group import Drawn, Group, Parts, cosines, selected_by, share_among, thinned
from attsvm.experiments.studies.a.regularization_path import unsettled
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals
from attsvm.problem.tokens import Tokens
from attsvm.theory.landscape import initial_gradient_condition

# What is asked, by name: a prompt for all, the context's query of each input, or its first token.
FORMS = {"prompt": "prompt", "given": "query of the context", "first": "query: first token"}


def family(
    seeds: Sequence[int], form: str, noise: float, flips: float, n: int, T: int, d: int,
    contexts: int,
) -> Drawn:  # fmt: skip
    """Inputs of several contexts; relevant: the token near the centre; flipped: a wrong label."""
    tokens, heads, relevant, flipped = [], [], [], []
    for seed in seeds:
        arrays = contextual_arrays(
            n, T, d, contexts=contexts, token_noise=noise, label_noise=flips, seed=seed
        )
        X, z, v, y = (np.asarray(arrays[name]) for name in ("X", "z", "v", "y"))
        queries: Any = {"prompt": None, "given": z, "first": "first"}[form]
        tokens.append(Tokens(X, queries=queries, labels=y))
        heads.append(v)
        # The query is the centre of the context, which only the relevant token is near.
        relevant.append(np.einsum("ntd,nd->nt", X, z).argmax(axis=1))
        flipped.append(np.sign(X[np.arange(n), relevant[-1]] @ v) != y)
    about = {"relevant": np.stack(relevant), "flipped": np.stack(flipped)}
    return Drawn(tokens, np.stack(heads), about=about)


def measure(group: Group, records: int) -> Parts:
    """A row for each instance and record of normalized descent from zero.

    standing: whether all best tokens are the relevant ones; separable; unsettled: neither solved
    nor proved infeasible; led: whether the gradient at zero prefers the best tokens; right: whether
    all best tokens are selected; cosine; clean, flipped: shares of the inputs of either kind that
    select their relevant token (nan: none).
    """
    path, about = group.path, group.drawn.about
    places = thinned(path.steps, records)
    found, W = group.solved(group.best), path.matrices()[places]
    parts = []
    for b, (tokens, v, c) in enumerate(zip(group.tokens, group.heads, found, strict=True)):
        chosen = selected_by(tokens, W[:, b])
        kept, flipped = chosen == about["relevant"][b], about["flipped"][b]
        parts.append({
            "seed": group.seeds[b],
            "step": path.steps[places],
            "standing": (group.best[b] == about["relevant"][b]).all(),
            "separable": c.W is not None,
            "unsettled": unsettled(c),
            "led": initial_gradient_condition(tokens, v).sign > 0,
            "gap": float(c.gap) if c.W is not None else np.nan,
            "right": (chosen == group.best[b]).all(axis=1),
            "cosine": cosines(W[:, b], c),
            "clean": share_among(kept, ~flipped),
            "flipped": share_among(kept, flipped),
        })  # fmt: skip
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """Clean settings are judged inside the premises; the noisy ones are drawn."""
    ends = table[table.step == table.step.max()]
    counts = []
    judged = 0
    for form, rows in ends.groupby("form", sort=False):
        title = FORMS[form]
        premise = rows[rows.standing & rows.separable & (rows.flips == 0)]
        led, reached = premise[premise.led], premise[premise.right]
        judged += len(reached) + int((~led.right).sum())
        counts.append(f"{title}: {len(premise)}, of which {len(led)} led")
        yield equals(
            f"{title}: led instances that select all relevant tokens", led.right.sum(), len(led)
        )
        yield at_least(f"{title}: instances that select all relevant tokens", len(reached), 1)
        # 40,000 steps of 0.1 are a way of 4,000: 0.999 lets 180 of it be spent on other tokens.
        yield at_least(
            f"{title}: least cosine of those to the certified direction",
            reached.cosine.min() if len(reached) else np.inf,
            0.999,
        )
    unknown = int(ends.unsettled.sum())
    yield equals("problems neither solved nor proved infeasible", unknown, 0)
    yield Premises(
        judged,
        "clean labels, best tokens relevant and separable; led: the gradient at zero prefers all "
        "best tokens. " + "; ".join(counts),
    )


STUDY = Study(
    id="A.contextual-data",
    title="Several contexts: attention finds the relevant tokens",
    kind="question",
    source="measured",
    statement="Each input belongs to one of three contexts; one of its tokens lies near the centre "
    "of the context and carries the label, the others are noise. With clean labels, normalized "
    "descent from zero selects the relevant token of every input wherever the first gradient "
    "prefers them all, and where it selects them it follows their max-margin direction, for one "
    "prompt, for the query of the context, and for self-attention from the first token.",
    family=family,
    grid={
        "form model": [("prompt", "prompt"), ("given", "weight"), ("first", "weight")],
        "noise flips": [(0.25, 0.0), (0.5, 0.0), (1.0, 0.0), (1.5, 0.0), (0.5, 0.1), (0.5, 0.2)],
    },
    run={"n": 12, "T": 6, "d": 12, "contexts": 3, "lr": 0.1, "steps": 40_000, "records": 16},
    seeds=10,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={
        "seeds": 4,
        "grid": {"noise flips": [(0.5, 0.0), (1.0, 0.0), (0.5, 0.2)]},
        "run": {"steps": 20_000},
    },
    figure={
        "kind": "curves",
        "where": lambda t: t.step == t.step.max(),
        "x": "noise",
        "value": {"clean": "right label", "flipped": "flipped label"},
        "lines": "form",
        "panels": "flips",
        "middle": "mean",
        "xlabel": "size of the other tokens",
        "ylabel": "share of inputs at their relevant token",
    },
)
