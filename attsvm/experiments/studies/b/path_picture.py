"""B: W z of two inputs moves along the lines of the max-margin problem, in two pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.datasets import EXAMPLES
from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared.attending_runs import end_of, selected_problems
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

# The model, and the norm of its limit.
MODELS = {"weight": "frobenius", "factored": "nuclear"}
# Records of a run in the table, at most.
RECORDS = 60


def measure(group: Group, example: str) -> Parts:
    """W z of each input along both runs, and the line that the certified W names.

    One row per model, record and input. x, y: W z; line_x, line_y: W z of the certified W;
    correlation: of W with the certified W.
    """
    arrays = EXAMPLES[example]()
    tokens, v = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"]), arrays["v"]
    rows: list[dict[str, Any]] = []
    for seed in group.seeds:
        K = 0.1 * np.random.default_rng(seed).standard_normal((2, 2))
        starts = {"weight": {"W": np.zeros((2, 2))}, "factored": {"K": K, "Q": np.zeros((2, 2))}}
        for model, norm in MODELS.items():
            path = train(
                tokens, model=model, head=v, lr=group.run["lr"], steps=group.run["steps"],
                init=starts[model],
            )  # fmt: skip
            W = path.matrices()[:, 0]
            (problem,) = selected_problems([tokens], W[-1:])
            found = solve(problem, norm)
            best = np.full((2, 2), np.nan) if found.W is None else np.asarray(found.W)
            end = end_of(tokens, v, W[-1], found)
            for k in np.unique(np.linspace(0, len(W) - 1, RECORDS).round().astype(int)):
                for i, z in enumerate(tokens.queries):
                    here, line = W[k] @ z, best @ z
                    rows.append({
                        "seed": seed, "model": model, "step": path.steps[k], "input": i,
                        "x": here[0], "y": here[1], "line_x": line[0], "line_y": line[1],
                        "correlation": cosine(W[k], found), "end": end, "gap": float(found.gap),
                    })  # fmt: skip
    return rows


def checks(table: Table, thresholds: Any) -> Checks:
    """Each model keeps locally optimal tokens, in the direction of its own norm's problem."""
    ends = table[table.step == table.step.max()]
    least = thresholds["correlation"]
    for model, norm in MODELS.items():
        rows = ends[ends.model == model]
        local = rows.end.isin(("global", "local")).all()
        yield equals(f"{model}: attention rests on locally optimal tokens (1: yes)", local, 1)
        yield at_least(f"{model}: correlation to the certified {norm} solution",
                       rows.correlation.min(skipna=False), least)  # fmt: skip
        here, line = rows[["x", "y"]].to_numpy(), rows[["line_x", "line_y"]].to_numpy()
        sizes = np.linalg.norm(here, axis=1) * np.linalg.norm(line, axis=1)
        for i, angle in zip(rows.input, (here * line).sum(axis=1) / sizes, strict=True):
            yield at_least(f"{model}: cosine of W z to its line, input {i}", angle, least)
    yield Premises(2, "the published draw, W = 0, and Q = 0 with a random K of deviation 0.1")


_study = partial(
    Study,
    kind="figure",
    source="code",
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"correlation": 0.99},
    figure={
        "kind": "paths",
        "x": "x",
        "y": "y",
        "each": ["model", "input"],
        "lines": "input",
        "panels": "model",
        "ray": ("line_x", "line_y"),
        "xlabel": "first coordinate of W z",
        "ylabel": "second coordinate of W z",
    },
    published=True,
    size="as published",
)

STUDIES = (
    _study(
        id="B.path-picture-1",
        title="Paths in the plane: two clouds of three tokens",
        statement="On the published draw with two clouds of three tokens, normalized descent moves "
        "W z of each input onto the line that the max-margin problem of the selected tokens names: "
        "the Frobenius problem for the weight, the nuclear one for the factors.",
        run={"example": "path-picture-1", "steps": 2000},
        theorem="code: visualization1",
    ),
    _study(
        id="B.path-picture-2",
        title="Paths in the plane: five tokens per input",
        statement="On the published draw with five tokens per input, normalized descent moves W z "
        "of each input onto the line that the max-margin problem of the selected tokens names: the "
        "Frobenius problem for the weight, the nuclear one for the factors.",
        run={"example": "path-picture-2", "steps": 2000},
        theorem="code: visualization2",
    ),
)
