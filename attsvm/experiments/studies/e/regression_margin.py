"""E: under the squared loss, inputs that attain their target need half a margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm.experiments.group import Drawn, Group, cosine
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, info
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many


def scored(
    seeds: Sequence[int], data: str = "solved", n: int = 6, T: int = 8, d: int = 10
) -> Drawn:
    """Keys and queries uniform on the sphere; values uniform on (0, 0.9), and one value 1 in every
    input (data "solved") or in every other one ("mixed"); the head is 1."""
    tokens = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, T, d])
        parts = rng.standard_normal((n, T + 1, d))
        parts /= np.linalg.norm(parts, axis=2, keepdims=True)
        values = rng.uniform(0, 0.9, (n, T, 1))
        every = 1 if data == "solved" else 2
        values[::every, 0] = 1.0
        tokens.append(Tokens(values, keys=parts[:, :T], queries=parts[:, T], labels=np.ones(n)))
    return Drawn(tokens, np.ones((len(tokens), 1)))


def measure(group: Group) -> dict[str, Any]:
    """Correlation with the solution of half margins, and with that of whole ones."""
    kept = group.selected
    at = [np.take_along_axis(t.X[:, :, 0], a[:, None], 1)[:, 0]
          for t, a in zip(group.tokens, kept, strict=True)]  # fmt: skip
    need = [np.where(values == 1, 0.5, 1.0) for values in at]
    half = solve_many(
        [Problem.of(t, a, b=b) for t, a, b in zip(group.tokens, kept, need, strict=True)],
        "frobenius",
    )
    whole = group.solved(kept)
    early = group.path.matrices()[np.searchsorted(group.path.steps, group.run["steps"] // 10)]
    return {
        "half": np.array([cosine(W, c) for W, c in zip(group.ends, half, strict=True)]),
        "whole": np.array([cosine(W, c) for W, c in zip(group.ends, whole, strict=True)]),
        "early": np.array([cosine(W, c) for W, c in zip(early, half, strict=True)]),
        "solved": np.array([(b == 0.5).sum() for b in need]),
        "best": (kept == group.best).all(axis=1),
        "norm": np.linalg.norm(group.ends, axis=(1, 2)),
        "gap": np.array([max(a.gap, b.gap) for a, b in zip(half, whole, strict=True)]),
    }


def checks(table: Table, thresholds: Any) -> Checks:
    """Both directions, where all inputs attain their target and where some do."""
    solved = table[table.solved == thresholds["n"]]
    mixed = table[(table.solved > 0) & (table.solved < thresholds["n"])]
    yield at_least("all solved: median correlation", solved.whole.median(), 0.999)
    yield at_least("mixed: median correlation with half margins", mixed.half.median(), 0.999)
    yield at_least("mixed: least correlation with half margins", mixed.half.min(), 0.98)
    yield at_most("mixed: median correlation with whole margins", mixed.whole.median(), 0.98)
    yield at_least("mixed: runs nearer to half margins, share", (mixed.half > mixed.whole).mean(),
                   0.95)  # fmt: skip
    yield info("all solved: least correlation", solved.whole.min())
    yield info("mixed: least correlation with half margins, a tenth of the steps",
               mixed.early.min())  # fmt: skip
    yield info("least norm at the end", table.norm.min())
    judged = len(solved) + len(mixed)
    yield Premises(
        judged,
        f"{judged} of {len(table)} runs: {len(solved)} end at a token of value 1 in every input, "
        f"{len(mixed)} in some; {int(table.best.sum())} at the best tokens",
    )
    if judged < len(table):
        yield Note(f"{len(table) - judged} runs end at no token of value 1 and are not judged")


STUDY = Study(
    id="E.regression-margin",
    title="Half margins under the squared loss",
    kind="question",
    source="derived",
    statement="After Gonon, Cordonnier and Boumal 2026 (arXiv:2602.07562): with the loss ½(1 − f)² "
    "attention still turns to a max-margin direction. An input whose selected token has value 1 is "
    "pulled by e^(−2m) at the margin m, and one whose value is less by e^(−m): the direction is "
    "that of the least norm with a margin of ½ on the former and 1 on the latter.",
    family=scored,
    grid={"data": ["solved", "mixed"]},
    run={"n": 6, "T": 8, "d": 10, "loss": "squared", "lr": 1.0, "schedule": "sqrt",
         "steps": 400_000},
    seeds=100,
    first=1000,
    measure=measure,
    checks=checks,
    gap=1e-7,
    thresholds={"n": 6},
    quick={"seeds": 20, "run": {"steps": 100_000}},
    figure={
        "kind": "scatter",
        "x": "1 - whole",
        "y": "1 - half",
        "lines": "data",
        "log": "xy",
        "diagonal": True,
        "xlabel": "1 − correlation with whole margins",
        "ylabel": "1 − correlation with half margins",
    },
)  # fmt: skip
