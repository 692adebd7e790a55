"""B: descent on W and on its factors ends at the max-margin solution of the selected tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared.attending_runs import (
    end_of,
    last,
    selected_problems,
    uniform_starts,
)
from attsvm.experiments.studies.shared.published import EPS, factored_run
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.solvers.solve_many import solve_many

# Runs on W, on factors as published with a ridge, and on factors in exact arithmetic without one;
# and the norm of the solution that each is expected at.
MODELS = {"weight": "frobenius", "ridge": "nuclear", "factored": "nuclear"}
NAMES = {"weight": "W", "ridge": "factors, published ridge", "factored": "factors, no ridge"}
NORMS = ("frobenius", "nuclear")
# How ours should compare, the number, and its error: at step 1000 read off the figure to 0.005. At
# step 2000 nothing is published: the numbers are of an independent implementation, rounded.
_PUBLISHED: dict[str, list[Any]] = {
    "weight frobenius 1000": ["≥", 0.99, 0.005],
    "weight nuclear 1000": ["=", 0.86, 0.005],
    "weight frobenius 2000": ["≥", 0.996, 0.0005],
    "ridge nuclear 2000": ["≥", 0.997, 0.0005],
    "ridge frobenius 2000": ["<", 0.9, 0.0],
}
_READ = [1000, 2000]
# A mean of fewer runs is not judged.
_LEAST = 10


def measure(group: Group) -> Parts:
    """The correlations along every model's run with both solutions of what it selects at its end.

    One row per run and record: every fourth one, and those of the published steps; end and gap are
    of the end.
    """
    run, parts = group.run, list[dict[str, Any]]()
    d = group.tokens[0].d
    for model, blocks in {"weight": ("W",), "factored": ("K", "Q")}.items():
        first = uniform_starts(group.seeds, {name: (d, d) for name in blocks}, run["start"])
        path = train(
            group.tokens, model=model, head=group.heads, lr=run["lr"], steps=run["steps"],
            init=first,
        )  # fmt: skip
        wanted = np.isin(path.steps, _READ) | (np.arange(len(path.steps)) % 4 == 0)
        steps = path.steps[wanted]
        parts += _parts(group, model, steps, path.matrices()[wanted])
        if model == "factored":
            # The published loop, with its ridge, from the same start.
            K, Q = factored_run(group.tokens, group.heads, (first["K"], first["Q"]), lr=run["lr"],
                                marks=steps, ridge=EPS)  # fmt: skip
            parts += _parts(group, "ridge", steps, K @ Q.swapaxes(2, 3))
    return parts


def _parts(group: Group, model: str, steps: Any, W: Floats) -> Parts:
    """The rows of one model's runs W (R, B, d, d)."""
    problems = selected_problems(group.tokens, W[-1])
    found = {norm: solve_many(problems, norm) for norm in NORMS}
    return [
        {
            "seed": seed,
            "run": model,
            "step": steps,
            **{n: np.array([cosine(M, best[b]) for M in W[:, b]]) for n, best in found.items()},
            "end": end_of(group.tokens[b], group.heads[b], W[-1, b], found[MODELS[model]][b]),
            "gap": max(float(best[b].gap) for best in found.values()),
        }
        for b, seed in enumerate(group.seeds)
    ]


def checks(table: Table, thresholds: Any) -> Checks:
    """The four mean correlations at the published steps, and where each run ends."""
    count = table.seed.nunique()
    for model in MODELS:
        rows = table[table.run == model]
        for norm in NORMS:
            for step in _READ:
                what = f"{NAMES[model]}: mean correlation to the {norm} solution at step {step}"
                asked = _PUBLISHED.get(f"{model} {norm} {step}")
                yield from _judged(what, rows[norm][rows.step == step], asked)
        ends = last(rows).end
        yield at_least(f"{NAMES[model]}: share of runs that end at locally optimal tokens",
                       ends.isin(("global", "local")).mean(), thresholds["local"])  # fmt: skip
    yield Premises(
        count if count >= _LEAST else 0,
        f"{count} seeds, each with the problems of the tokens it selects at the end; a mean needs "
        f"{_LEAST}")  # fmt: skip


def _judged(what: str, cosines: Any, published: list[Any] | None) -> Checks:
    """The mean against a known one, [how, number, error of its reading], and its own error.

    how: ≥ (as near at least), = or <. Ours is a mean over draws: three standard errors of it are
    allowed where it should reach a number, and asked for where it should stay below one.
    """
    mean, error = float(cosines.mean(skipna=False)), float(cosines.sem(skipna=False))
    if published is None or len(cosines) < _LEAST:
        yield info(what, mean)
        return
    how, number, reading = published
    within = round(reading + 3 * error, 4)
    source = "figure" if reading >= 0.005 else "independent run"
    what = f"{what}, {source} {how} {number:g}, within three standard errors"
    if how == "=":
        yield equals(what, mean, number, within=within)
    else:
        yield (at_least if how == "≥" else at_most)(what, mean, number - within)


def published(point: Mapping[str, Any]) -> float:
    """The known mean of a curve at a step; nan where there is none."""
    known = _PUBLISHED.get(f"{point['run']} {point['column']} {point['step']}")
    return known[1] if known else float("nan")


STUDY = Study(
    id="B.local-convergence",
    title="Descent ends at the solution of what it selects",
    kind="figure",
    source="figure",
    statement="On random instances, normalized descent on W ends near the Frobenius max-margin "
    "solution of the tokens it selects and away from the nuclear one (mean correlations 0.99 and "
    "0.86 after 1,000 steps, read off the figure); on factors K, Q with a ridge of 2.2e-16 it is "
    "the other way round. Nearly all runs end at locally optimal tokens. An independent run has "
    "0.996 for W after 2,000 steps, and for the factors 0.997 to the nuclear solution and below "
    "0.9 to the Frobenius one.",
    family="sphere",
    run={"n": 6, "T": 8, "d": 10, "steps": 2000},
    seeds=100,
    group=20,
    measure=measure,
    checks=checks,
    gap=1e-6,
    # Nearly all: nine in ten.
    thresholds={"local": 0.9},
    quick={"seeds": 20},
    figure={
        "kind": "curves",
        "where": lambda t: t.step > 0,
        "x": "step",
        "value": list(NORMS),
        "panels": "run",
        "band": "half",
        "log": "x",
        "published": published,
        "ylabel": "correlation (median, middle half)",
    },
    differs="0.997 comes out again with the published ridge, which stops the runs: they stay at "
    "‖W‖ = 122 from step 200 on. Exact gradients without a ridge are at 0.983 by step 2,000 and "
    "still rise; plain float gradients decay to 0.87 from rounding alone.",
    theorem="code: local_converge",
    size="as published",
)
