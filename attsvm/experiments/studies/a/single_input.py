"""A: one input of three tokens: from every start the prompt goes to a locally optimal token."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts, cosine, selected_by
from attsvm.experiments.studies.shared.example_starts import STARTS, example_starts, thinned
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve
from attsvm.theory.optima import optimality


def measure_one(group: Group) -> Parts:
    """A row for each published start and record, and two for each start of the grid.

    token: the one that p selects; end: the one at the last record, ray its certified direction;
    local: whether token is locally optimal, and local_tokens how many are; cosine: to its certified
    direction; half_square: ½‖p‖² of the best token's problem.
    """
    path, tokens = group.path, group.tokens[0]
    each = [Selection.of(tokens, [t]) for t in range(tokens.T)]
    best = [solve(Problem.of(tokens, one)) for one in each]
    local = np.array([optimality(tokens, one, group.heads[0]).locally is True for one in each])
    some, ends = thinned(path.steps, 200), np.array([0, len(path.steps) - 1])
    parts = []
    for b, seed in enumerate(group.seeds):
        places = some if seed < len(STARTS) else ends
        p = path.weights["p"][places, b]
        token = np.array([int(selected_by(tokens, x[:, None])[0]) for x in p])
        ray = np.asarray(best[token[-1]].W)[:, 0]
        away = [cosine(x[:, None], best[t]) for x, t in zip(p, token, strict=True)]
        parts.append({
            "seed": seed, "step": path.steps[places], "p1": p[:, 0], "p2": p[:, 1],
            "token": token, "end": token[-1], "ray1": ray[0], "ray2": ray[1],
            "local": local[token], "cosine": away, "local_tokens": local.sum(),
            "half_square": float(best[0].upper) ** 2 / 2,
            "gap": max(float(c.gap) for c in best),
        })  # fmt: skip
    return parts


def checks_one(table: Table, thresholds: Any) -> Checks:
    """Every start ends at the token that is named, in its certified direction."""
    last = table[table.step == table.step.max()]
    ends, grid = last[last.seed < len(STARTS)], last[last.seed >= len(STARTS)]
    known, wanted = ends.iloc[0], thresholds["ends"]
    yield equals("starts that end at the token named", (ends.token == wanted).sum(), len(wanted))
    yield at_least("least cosine to the certified direction", ends.cosine.min(), 0.9994)
    yield equals("½‖p‖² of the best token", known.half_square, 0.49505, within=5e-6)
    yield equals("locally optimal tokens", known.local_tokens, len(set(wanted)))
    yield equals("grid starts whose end is not locally optimal", (~grid.local).sum(), 0)
    yield Premises(len(last), f"{len(ends)} published starts, {len(grid)} of a grid")


FIGURE = {
    "kind": "paths",
    "where": lambda t: (t.seed < len(STARTS)) & (t.step <= 200),
    "x": "p1",
    "y": "p2",
    "each": "seed",
    "ray": ("ray1", "ray2"),
    "xlabel": "p₁",
    "ylabel": "p₂",
}
RUN = {"model": "prompt", "init": "drawn"}
example_study = partial(
    Study,
    kind="figure",
    source="code",
    family=example_starts,
    theorem="notebook",
    size="as published",
    published=True,
)
_one = partial(
    example_study,
    seeds=len(STARTS) + 31**2,
    group=500,
    measure=measure_one,
    checks=checks_one,
    gap=1e-9,
    quick={"seeds": len(STARTS) + 15**2, "run": {"edge": 15}},
    figure={**FIGURE, "lines": "end", "title": "First 200 steps, by the token at the end"},
)

STUDIES = (
    _one(
        id="A.single-input-global",
        title="One input: all starts select the best token",
        statement="On the three-token instance whose other tokens tie, normalized descent on the "
        "prompt ends at the best token from every published start, in the direction of its "
        "max-margin problem.",
        run={**RUN, "example": "single-input-global", "reach": 2.5, "edge": 31},
        thresholds={"ends": [0] * 6},
    ),
    _one(
        id="A.single-input-local",
        title="One input: a second token becomes locally optimal",
        statement="With the third token's score at 0 the second token is locally optimal as well, "
        "and starts far enough on its side end there, in the direction of its own max-margin "
        "problem.",
        run={**RUN, "example": "single-input-local", "reach": 2.5, "edge": 31},
        thresholds={"ends": [0, 0, 0, 0, 1, 1]},
    ),
)
