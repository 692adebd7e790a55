"""A: prompt and decoder together, in descent and on the regularization path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets import EXAMPLES
from attsvm.experiments.group import Group, cosine, selected_by
from attsvm.experiments.studies.shared.example_starts import thinned
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import relaxed
from attsvm.theory.regularization_path.paths import regpath

# Radius of the decoder as a power of the prompt's, and the problem the prompt should meet.
CASES = {
    "tight, r = √R": ("joint-tight", 0.5, "whole"),
    "tight, r = R": ("joint-tight", 1.0, "whole"),
    "relaxed, r = √R": ("joint-relaxed", 0.5, "whole"),
    "relaxed, r = R": ("joint-relaxed", 1.0, "relaxed"),
}


def _given(name: str) -> tuple[Tokens, Selection, dict[str, Certificate]]:
    """The tokens of the example, the selection that is learned, and the solutions of the prompt's
    problem, whole and relaxed, and of the decoder's (labels)."""
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    keep = Selection.of(tokens, arrays["alpha"])
    problems = {"whole": Problem.of(tokens, keep), "relaxed": relaxed(tokens, keep),
                "labels": Problem.of_labels(tokens, keep)}  # fmt: skip
    return tokens, keep, {part: solve(problem) for part, problem in problems.items()}


def _columns(p: Any, v: Any, given: Any) -> dict[str, Any]:
    """right: inputs of which p (R, d) selects the token; cosines of p and v to the solutions."""
    tokens, keep, best = given
    return {
        "right": np.array([(selected_by(tokens, x[:, None]) == keep.indices).sum() for x in p]),
        "cosine_whole": np.array([cosine(x[:, None], best["whole"]) for x in p]),
        "cosine_relaxed": np.array([cosine(x[:, None], best["relaxed"]) for x in p]),
        "cosine_v": np.array([cosine(x[:, None], best["labels"]) for x in v]),
        "gap": max(float(c.gap) for c in best.values()),
    }


def descended(group: Group, example: str, problem: str) -> dict[str, Any]:
    """Normalized descent on p and v, each by its own norm, from the published start, by record;
    limit: the solution of the problem that p should meet."""
    arrays, given = EXAMPLES[example](), _given(example)
    init = {"p": arrays["p0"], "v": arrays["v0"]}
    path = train(given[0], model="joint-prompt", lr=0.1, steps=1000, init=init)
    places = thinned(path.steps, 200)
    p, v = path.weights["p"][places, 0], path.weights["v"][places, 0]
    best = given[2][problem].require()
    return {
        "seed": group.seeds[0],
        "step": path.steps[places],
        "p1": p[:, 0],
        "p2": p[:, 1],
        **_columns(p, v, given),
        "limit1": np.asarray(best.W)[0, 0],
        "limit2": np.asarray(best.W)[1, 0],
        "half_square": float(best.upper) ** 2 / 2,
    }


def on_path(group: Group, case: str, radii: Sequence[float]) -> dict[str, Any]:
    """The least joint loss with ‖p‖ ≤ R, ‖v‖ ≤ r(R): a row for each radius; size_p, size_v: norms
    over their radii."""
    name, power, _ = CASES[case]
    given, R = _given(name), np.array(radii)
    path = regpath(given[0], model="joint-prompt", radii=radii, keep=given[1],
                   second=lambda R: R**power, starts=1)  # fmt: skip
    p, v = path.weights["p"], path.weights["v"]
    return {
        "seed": group.seeds[0],
        "radius": R,
        **_columns(p, v, given),
        "size_p": np.linalg.norm(p, axis=1) / R,
        "size_v": np.linalg.norm(v, axis=1) / R**power,
    }


def descent_checks(table: Table, thresholds: Any) -> Checks:
    """p ends in the direction that is named, v in that of its own problem."""
    end = table.iloc[-1]
    yield equals("inputs that select their second token", end.right, 3)
    yield at_least("cosine of p to its certified direction",
                   end[f"cosine_{thresholds['problem']}"], 0.999)  # fmt: skip
    yield at_least("cosine of v to its certified direction", end.cosine_v, 0.9999)
    off = end[["limit1", "limit2"]].to_numpy(dtype=float) - thresholds["limit"]
    yield at_most("distance of the certified p to the closed form",
                  float(np.linalg.norm(off)), 1e-8)  # fmt: skip
    yield equals("½‖p‖² of the certified p", end.half_square, thresholds["half_square"],
                 within=5e-6)  # fmt: skip
    if thresholds["problem"] == "relaxed":
        yield at_least("cosine to the relaxed less that to the unrelaxed p",
                       end.cosine_relaxed - end.cosine_whole, 0.01)  # fmt: skip
    yield Premises(1, "the published instance and start")


def path_checks(table: Table, thresholds: Any) -> Checks:
    """Each path ends in the direction its speed calls for; v in that of the label margin."""
    last = table[table.radius == table.radius.max()]
    for case, end in last.set_index("case").iterrows():
        target = CASES[str(case)][2]
        reached = end[f"cosine_{target}"] if end.right == 3 else np.nan
        yield at_least(f"{case}: cosine of p to the {target} problem", reached, 0.999)
        yield at_least(f"{case}: cosine of v", end.cosine_v, 0.999)
        yield equals(f"{case}: ‖p‖/R at the end", end.size_p, 1.0, within=1e-6)
        yield equals(f"{case}: ‖v‖/r(R) at the end", end.size_v, 1.0, within=1e-6)
    yield Premises(len(last), "both published instances; on the relaxed one an input supports "
                   "nothing, and the general form is judged all the same")  # fmt: skip


_study = partial(Study, published=True)
_descent = partial(
    _study,
    kind="figure",
    source="code",
    measure=descended,
    checks=descent_checks,
    gap=1e-9,
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
    theorem="notebook",
    size="as published",
)

STUDIES = (
    _descent(
        id="A.joint-tight",
        title="Prompt and decoder: all inputs support the decoder",
        statement="Normalized descent on prompt and decoder together, with every selected token a "
        "support vector of the decoder, ends in both max-margin directions, the prompt's "
        "unrelaxed.",
        run={"example": "joint-tight", "problem": "whole"},
        thresholds={"problem": "whole", "limit": [4 / 3, 1 / 3], "half_square": 0.944444},
    ),
    _descent(
        id="A.joint-relaxed",
        title="Prompt and decoder: one input does not support the decoder",
        statement="When one selected token is no support vector of the decoder, the prompt of the "
        "published descent ends in the direction of the relaxed problem, which asks that input for "
        "a margin of 0 only, and not in that of the unrelaxed one.",
        run={"example": "joint-relaxed", "problem": "relaxed"},
        thresholds={"problem": "relaxed", "limit": [1.0, 0.0], "half_square": 0.5},
    ),
    _study(
        id="A.joint-path",
        title="Joint regularization path: the decoder's radius decides",
        kind="theorem",
        source="paper",
        statement="Minimising the logistic loss with ‖p‖ ≤ R and ‖v‖ ≤ r, both growing, where "
        "attention off the selected tokens costs label margin, v tends to the max-margin decoder "
        "and p to the prompt of least norm with a margin of 1 on the inputs that support the "
        "decoder and of 0 on the others. This is on the regularization path alone, and how r "
        "grows with R is not said.",
        grid={"case": list(CASES)},
        run={"radii": [1.0, 3.0, 10.0, 30.0, 100.0]},
        measure=on_path,
        checks=path_checks,
        gap=1e-9,
        quick={"run": {"radii": [3.0, 30.0]}},
        figure={
            "kind": "curves",
            "x": "radius",
            "value": {
                "1 - cosine_whole": "whole problem",
                "1 - cosine_relaxed": "relaxed problem",
            },
            "panels": "case",
            "log": "xy",
            "xlabel": "R",
            "ylabel": "1 − cosine of p",
        },
        differs="How r grows decides where an input does not support the decoder: with r = R the "
        "path ends at the relaxed solution, with r = √R at the unrelaxed one; both are judged. "
        "Strictly the premise leaves no such input: a little of its attention can go elsewhere at "
        "no cost in label margin.",
        theorem="slides",
    ),
)
