"""A: prompt and decoder trained together on three inputs of two tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets import EXAMPLES
from attsvm.experiments.group import Group, cosine, selected_by
from attsvm.experiments.studies.shared.example_starts import thinned
from attsvm.experiments.study import Found, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import relaxed


def instance(name: str) -> tuple[Tokens, Selection]:
    """The tokens of the example and the selection that is learned."""
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    return tokens, Selection.of(tokens, arrays["alpha"])


def solutions(name: str) -> dict[str, Certificate]:
    """The solutions of the prompt's problem, whole and relaxed, and of the decoder's."""
    tokens, keep = instance(name)
    return {
        "whole": solve(Problem.of(tokens, keep)),
        "relaxed": solve(relaxed(tokens, keep)),
        "labels": solve(Problem.of_labels(tokens, keep)),
    }


def measure(group: Group, example: str, problem: str, lr: float, steps: int) -> dict[str, Any]:
    """Normalized descent on p and v, each by its own norm, from the published start, by record.

    right: inputs that select their second token; cosine_: of p to the whole and the relaxed
    problem, and of v; limit: the solution of the problem that p should meet.
    """
    arrays = EXAMPLES[example]()
    tokens, keep = instance(example)
    init = {"p": arrays["p0"], "v": arrays["v0"]}
    path = train(tokens, model="joint-prompt", lr=lr, steps=steps, init=init)
    places = thinned(path.steps, 200)
    p, v = path.weights["p"][places, 0], path.weights["v"][places, 0]
    best = solutions(example)
    limit = np.asarray(best[problem].require().W)[:, 0]
    rows = len(places)
    return {
        "seed": np.full(rows, group.seeds[0]),
        "step": path.steps[places],
        "p1": p[:, 0],
        "p2": p[:, 1],
        "right": np.array([(selected_by(tokens, x[:, None]) == keep.indices).sum() for x in p]),
        "cosine_whole": np.array([cosine(x[:, None], best["whole"]) for x in p]),
        "cosine_relaxed": np.array([cosine(x[:, None], best["relaxed"]) for x in p]),
        "cosine_labels": np.array([cosine(x[:, None], best["labels"]) for x in v]),
        "limit1": np.full(rows, limit[0]),
        "limit2": np.full(rows, limit[1]),
        "half_square": np.full(rows, float(best[problem].upper) ** 2 / 2),
        "gap": np.full(rows, max(float(c.gap) for c in best.values())),
    }


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """p ends in the direction that is named, v in that of its own problem."""
    end = table.iloc[-1]
    yield equals("inputs that select their second token", end.right, 3)
    yield at_least("cosine of p to its certified direction",
                   end[f"cosine_{thresholds['problem']}"], thresholds["cosine"])  # fmt: skip
    yield at_least("cosine of v to its certified direction", end.cosine_labels, 0.9999)
    off = end[["limit1", "limit2"]].to_numpy(dtype=float) - thresholds["limit"]
    yield at_most("distance of the certified p to the closed form",
                  float(np.linalg.norm(off)), 1e-8)  # fmt: skip
    yield equals("½‖p‖² of the certified p", end.half_square, thresholds["half_square"],
                 within=5e-6)  # fmt: skip
    yield at_most("largest certified gap", end.gap, 1e-9)
    if thresholds["problem"] == "relaxed":
        yield at_least("cosine to the relaxed less that to the unrelaxed p",
                       end.cosine_relaxed - end.cosine_whole, 0.01)  # fmt: skip
    yield Premises(1, "the published instance and start", float(end.gap))


def _study(id: str, title: str, statement: str, example: str, expected: dict[str, Any]) -> Study:
    """The study of one example, whose prompt meets the expected problem."""
    return Study(
        id=id,
        title=title,
        kind="figure",
        source="code",
        statement=statement,
        run={"example": example, "problem": expected["problem"], "lr": 0.1, "steps": 1000},
        measure=measure,
        checks=checks,
        thresholds={**expected, "cosine": 0.999},
        figure={
            "kind": "paths",
            "where": lambda t: t.step <= 200,
            "x": "p1",
            "y": "p2",
            "each": "seed",
            "ray": ("limit1", "limit2"),
            "xlabel": "first coordinate of p",
            "ylabel": "second coordinate of p",
            "title": "Prompt, 200 steps",
        },
        reference="tarzanagh2023maxmargin",
        theorem="notebook",
        size="as published",
        published=True,
    )


STUDIES = (
    _study(
        "A.joint-tight",
        "Prompt and decoder: all inputs support the decoder",
        "Normalized descent on prompt and decoder together, with every selected token a support "
        "vector of the decoder, ends in both max-margin directions, the prompt's unrelaxed.",
        "joint-tight",
        {"problem": "whole", "limit": [4 / 3, 1 / 3], "half_square": 0.944444},
    ),
    _study(
        "A.joint-relaxed",
        "Prompt and decoder: one input does not support the decoder",
        "When one selected token is no support vector of the decoder, the prompt of the published "
        "descent ends in the direction of the relaxed problem, which asks that input for a margin "
        "of 0 only, and not in that of the unrelaxed one.",
        "joint-relaxed",
        {"problem": "relaxed", "limit": [1.0, 0.0], "half_square": 0.5},
    ),
)
