"""B: a first gradient that prefers the best tokens leads to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared.plain_descent import (
    below_level,
    loss_and_pull,
    own_descent,
    proved_end,
    smoothness,
    three_inputs,
)
from attsvm.experiments.studies.shared.random_instances import best_problem, compact_sphere
from attsvm.experiments.study import (
    EXAMPLE,
    Checks,
    Note,
    Premises,
    Study,
    Table,
    at_least,
    equals,
)
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.landscape import initial_gradient_condition

# First steps of the example; 1/394 is its 1/L_W, 0.4 its 1/‖W^mm‖.
_FIRST = (0.0025, 0.4, 4.0, 64.0, 256.0)


def measure(group: Group, part: str, example_steps: int, random_steps: int) -> Parts:
    """example: plain descent after first steps of several lengths on the three-input example, the
    same for every seed. random: plain descent from W = 0.

    premise: the least margin of a best token under the first gradient. long_end: where a first step
    that is long enough is proved to lead. risen: whether the loss is not below that of W = 0.
    """
    if part == "example":
        rows = _example(example_steps)
    else:
        zeros = np.stack([_zero(t) for t in group.tokens])
        W = own_descent(group.tokens, group.heads, zeros, steps=random_steps).W[-1]
        found = group.solved(group.best)
        each = zip(group.seeds, group.tokens, group.heads, W, found, strict=True)
        rows = [{"seed": seed, **_random(t, v, M, c)} for seed, t, v, M, c in each]
    return rows


def _zero(tokens: Tokens) -> Floats:
    return np.zeros((int(tokens.X.shape[2]), int(tokens.queries.shape[1])))


def _first(tokens: Tokens, v: Floats) -> tuple[Floats, float]:
    """−∇L(0), and the least margin of a best token under it: positive where the premise holds."""
    pull = loss_and_pull(tokens, v, _zero(tokens))[1]
    return pull, float(np.min(best_problem(tokens, v).margins(pull)))


def _example(steps: int) -> Parts:
    """Runs from W(1) = −η(0)∇L(0) of the three-input example for each first step."""
    tokens, v = three_inputs()
    lr, problem = 1 / smoothness(tokens, v), best_problem(tokens, v)
    best = solve(problem)
    pull, premise = _first(tokens, v)
    count = len(_FIRST)
    path = own_descent([tokens] * count, np.stack([v] * count),
                       np.stack([x * pull for x in _FIRST]), steps=steps, records=40)  # fmt: skip
    out = []
    for k, eta in enumerate(_FIRST):
        about = {
            "seed": EXAMPLE, "first_step": eta, "premise": premise, "gap": float(best.gap),
            "end": proved_end(tokens, v, path.W[-1, k], lr),
        }  # fmt: skip
        for step, W in zip(path.steps, path.W[:, k], strict=True):
            margin, loss = float(problem.margins(W)[2]), loss_and_pull(tokens, v, W)[0]
            out.append({**about, "step": int(step), "margin": margin, "loss": loss})
    return out


def _random(tokens: Tokens, v: Floats, W: Floats, best: Any) -> dict[str, Any]:
    """What a run from W = 0 to W shows, and, inside the condition, a long first step."""
    lr = 1 / smoothness(tokens, v)
    pull, premise = _first(tokens, v)
    # The least power of two η(0) after which W(1) is below the loss level, where the limit is
    # proved for every step up to 1/L_W.
    long_end = "open"
    for start in 2.0 ** np.arange(-10, 41) if premise > 0 else ():
        at = below_level(tokens, v, start * pull)
        if at.excess < at.allowed:
            long_end = proved_end(tokens, v, start * pull, lr)
            break
    return {
        "premise": premise,
        "apart": (initial_gradient_condition(tokens, v).sign > 0) != (premise > 0),
        "end": proved_end(tokens, v, W, lr),
        "risen": loss_and_pull(tokens, v, W)[0] >= loss_and_pull(tokens, v, _zero(tokens))[0],
        "long_end": long_end,
        "gap": float(best.gap) if premise > 0 else np.nan,
    }


def checks(table: Table, thresholds: Any) -> Checks:
    """Proofs of where descent ends inside the condition, after short and long first steps."""
    example = table[table.part == "example"].drop_duplicates(["first_step", "step"])
    last = example.groupby("first_step").last()
    wrong = last[last.end == "elsewhere"]
    yield at_least("three-input example: least margin under the first gradient",
                   last.premise.min(), 1e-3)  # fmt: skip
    yield equals("its first steps after which it is proved to end elsewhere", len(wrong), 0)
    random = table[table.part == "random"].assign(met=lambda t: t.premise > 0)
    inside = random[random.met]
    yield equals("random runs inside the condition, proved to end elsewhere",
                 (inside.end == "elsewhere").sum(), 0)  # fmt: skip
    yield equals("instances inside on which no first step is long enough for a proof",
                 (inside.long_end != "best").sum(), 0)  # fmt: skip
    # By more than rounding.
    rises = example.groupby("first_step").loss.apply(lambda loss: (loss.diff() > 1e-14).any())
    yield equals("runs of the example whose loss rises", rises.sum(), 0)
    yield equals("random runs whose loss is not below that of W = 0", random.risen.sum(), 0)
    yield equals("instances where two computations of the condition differ", random.apart.sum(), 0)
    yield Premises(
        len(inside) + 1,
        f"{len(inside)} of {len(random)} random instances, and the example: the gradient at W = 0 "
        "prefers every best token",
    )
    if len(wrong):
        yield Note(
            "Theorem 6 of v1, whose proof leaves an inequality open. A small instance: three "
            "inputs of two tokens, one query, key differences (−2.5, −3, 2), (−1.5, 1.5, 0.5) and "
            "(4, −4, 0.125), scores the third coordinates; plain descent from W = 0, η = 1/L_W "
            f"after first steps of {wrong.index.min():g} to {wrong.index.max():g}. The first input "
            "lifts the third and is soon done; the second then turns W against it, and the run is "
            "proved to keep the worse token there for ever. It has equal scores: Theorem 4 fails "
            "from W = 0. After a first step that is long enough the limit is proved."
        )


STUDY = Study(
    id="B.initial-gradient-condition",
    title="A first gradient that prefers the best tokens",
    kind="question",
    source="paper",
    statement="If the gradient at W = 0 prefers the best token of every input to each other one, "
    "plain descent from there, with a first step of at most O(1/‖W^mm‖) and later ones of at most "
    "1/L_W, converges in direction to the max-margin solution of the best tokens. O(·) hides a "
    "constant, and the proof asks for a long first step and leaves an inequality open.",
    family=compact_sphere,
    grid={
        "part n T d": [
            ("example", 3, 2, 3),
            ("random", 2, 3, 2),
            ("random", 3, 4, 6),
            ("random", 3, 4, 24),
        ]
    },
    run={"example_steps": 100_000, "random_steps": 40_000},
    seeds=60,
    group=30,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={"run": {"example_steps": 60_000, "random_steps": 2000}, "seeds": 6},
    figure={
        "kind": "paths",
        "where": lambda t: (
            (t.part == "example") & (t.step > 0) & ~t.duplicated(["part", "first_step", "step"])
        ),
        "x": "step",
        "y": "margin",
        "each": "first_step",
        "lines": "first_step",
        "log": "x",
        "level": 0.0,
        "ylabel": "margin of the third input's best token",
        "title": "Three inputs from W = 0",
    },
    theorem="v1, Theorem 6",
)
