"""E: margins under normalized queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group, gaps_of, norms_of
from attsvm.experiments.study import (
    Checks,
    Note,
    Premises,
    Study,
    Table,
    at_least,
    at_most,
    info,
)
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import equal_scores
from attsvm.training.models.qk_norm import inputs_alone, unit_keys

# A ratio of margins above 1 by no more is rounding and the gap of the solutions.
ROUNDING = 1e-6


def measure(group: Group) -> dict[str, Any]:
    """The margin of each input beside the best it has alone, at the tokens that the run selects."""
    kept = group.selected
    problems, margins = [], []
    for b, tokens in enumerate(group.tokens):
        params = {name: block[b : b + 1] for name, block in group.path.at(-1).items()}
        for part, a in zip(inputs_alone(params, unit_keys(tokens)), kept[b], strict=True):
            problem = Problem.of(part.tokens, Selection.of(part.tokens, [a]))
            problems.append(problem)
            margins.append(problem.margins(part.W / np.linalg.norm(part.W)).min())
    solved = solve_many(problems, "frobenius")
    shape = len(group), -1
    own, best = np.array(margins).reshape(shape), 1 / norms_of(solved).reshape(shape)
    tau = group.path.weights["tau"][:, :, 0]
    half = int(np.searchsorted(group.path.steps, group.run["steps"] // 2))
    return {
        "worst": own.min(axis=1) / best.min(axis=1),
        "least": (own / best).min(axis=1),
        "most": (own / best).max(axis=1),
        "tau": tau[-1],
        "growth": tau[-1] / tau[half],
        "best": (kept == group.best).all(axis=1),
        "independent": [np.linalg.matrix_rank(t.queries) == t.n for t in group.tokens],
        "equal_scores": [
            equal_scores(t, v) for t, v in zip(group.tokens, group.heads, strict=True)
        ],
        "gap": gaps_of(solved).reshape(shape).max(axis=1),
    }


def checks(table: Table, thresholds: Any) -> Checks:
    """The least margin is nearly the best possible, those of easier inputs are not."""
    rows = table[table.independent & table.equal_scores]
    yield at_least(
        "least margin over the least best margin, least of all runs",
        rows.worst.min(),
        thresholds["worst"],
    )
    yield at_most(
        "least share of its own best margin, median of the runs",
        rows.least.median(),
        thresholds["least"],
    )
    yield at_most("largest share of an input's best margin", rows.most.max(), 1 + ROUNDING)
    yield info("least τ at the end", rows.tau.min())
    yield info("least growth of τ over the last half of the steps", rows.growth.min())
    yield info("runs at the best tokens", rows.best.sum())
    yield Premises(
        len(rows),
        f"{len(rows)} of {len(table)} instances with independent queries and equal other scores",
    )
    low, high = np.percentile(rows.least, [5, 95])
    yield Note(f"The least share is between {low:.2f} and {high:.2f} in nine of ten runs.")


STUDY = Study(
    id="E.qk-norm",
    title="Margins under normalized queries and keys",
    kind="question",
    source="measured",
    statement="With logits τ k̂_tᵀ W z/‖W z‖, unit keys k̂, and W and τ trained by normalized "
    "descent, τ → ∞. With independent queries the least margin of the unit vectors W z/‖W z‖ over "
    "all inputs tends to the least γ_i, the best margin that input i has alone; easier inputs stop "
    "short of theirs.",
    family="sphere",
    run={
        **{"n": 4, "T": 4, "d": 6, "equal_scores": True, "model": "qk-norm", "loss": "linear"},
        **{"init": "normal:0.3", "steps": 100_000},
    },
    seeds=100,
    first=1000,
    measure=measure,
    checks=checks,
    gap=1e-7,
    thresholds={"worst": 0.97, "least": 0.95},
    quick={"seeds": 20, "run": {"steps": 20_000}},
    figure={
        "kind": "scatter",
        "x": "least",
        "y": "worst",
        "xlabel": "least share of an input's own best margin",
        "ylabel": "least margin over the least best margin",
    },
    reference="tarzanagh2023svm",
)
