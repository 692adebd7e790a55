"""C: each exponent of mirror descent ends nearest to the solution in its own norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared.mirror_runs import ends_of, mirror_run, run_rows
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals

# Steps of each exponent; those of p = 3 are a parameter.
STEPS = {"1.1": 1500, "1.75": 1500, "2": 2000}
EXPONENTS = (*STEPS, "3")
# The exponents that are run a second time, from another W(0): the seed of their starts.
OWN = {"1.75": 1, "2": 2}
# The means read off the picture, ± 0.005: p = 3 to the solution of each exponent.
IMAGE = {"3": 0.008, "2": 0.18, "1.75": 0.21}


def start_of(group: Group, stream: int) -> dict[str, Floats]:
    """W(0) ~ N(0, 1) of each instance, from its own place of the stream; seeds begin with 1."""
    streams = [np.random.default_rng([stream, max(seed - 1, 0)]) for seed in group.seeds]
    d = group.tokens[0].d
    return {"W": np.stack([draw.standard_normal((d, d)) for draw in streams])}


def measure(group: Group, lr: float, longest: int) -> Parts:
    """Each exponent's run from the same W(0), and runs from starts of their own, by record."""
    steps = {**STEPS, "3": longest}
    runs = {
        p: mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, 0)) for p in EXPONENTS
    }
    for p, stream in OWN.items():
        own = mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, stream))
        runs[f"own {p}"] = replace(own, steps=own.steps[-1:], W=own.W[-1:])
    return run_rows(group, runs)


def checks(table: Table, thresholds: Any) -> Checks:
    """Own exponent the nearest in the mean, the median, and wherever the selections agree."""
    ends = ends_of(table)
    tokens = pandas.DataFrame({name: rows.tokens for name, rows in ends.items()})
    agree = tokens[list(EXPONENTS)].nunique(axis=1) == 1
    for p in EXPONENTS:
        away = ends[p][[f"to_{q}" for q in EXPONENTS]].rename(columns=lambda name: name[3:])
        others = away.drop(columns=p)
        mean, median = away.mean(skipna=False), away.median(skipna=False)
        nearest = away[p] < others.min(axis=1, skipna=False)
        yield at_most(f"p = {p}: own mean over the least other mean",
                      mean[p] / mean.drop(p).min(skipna=False), 1.0)  # fmt: skip
        yield at_most(f"p = {p}: own median over the least other median",
                      median[p] / median.drop(p).min(skipna=False), 1.0)  # fmt: skip
        # There the problems are of the same tokens, and each run tends to its own.
        yield equals(f"p = {p}: share with own p the nearest, where the selections agree",
                     nearest[agree].mean(), 1.0)  # fmt: skip
    for q, wanted in thresholds["image"].items():
        away = ends["3"][f"to_own {q}" if q in OWN else f"to_{q}"]
        # The reading is good to 0.005, and both it (100 instances, starts unknown) and ours are
        # means: three standard errors of their difference.
        error = away.std() * np.sqrt(1 / len(away) + 1 / 100)
        yield equals(f"p = 3: mean divergence to ℓ{q} against the picture, own starts",
                     away.mean(skipna=False), wanted,
                     within=round(0.005 + 3 * float(error), 4))  # fmt: skip
    certified = np.isfinite(sum(ends[p][f"to_{p}"] for p in EXPONENTS))
    yield at_least("instances with all solutions certified", certified.sum(), len(agree))
    yield Premises(
        len(agree),
        f"{len(agree)} published instances, all separable at the tokens selected; the "
        f"{len(EXPONENTS)} exponents select the same tokens in {int(agree.sum())} of them",
    )


def published(row: Mapping[str, Any]) -> float:
    """The published mean, read off the end of the run of p = 3; nan elsewhere."""
    at_end = row["run"] == "3" and row["step"] == 20_000
    return IMAGE.get(row["column"][3:], np.nan) if at_end else np.nan


STUDY = Study(
    id="C.cross-p-divergence",
    title="Every exponent meets its own solution",
    kind="figure",
    source="figure",
    statement="Averaged over random instances, the iterates of normalized ℓp mirror descent are "
    "nearer, in the directional divergence of exponent p, to the ℓp solution than to those of the "
    "other exponents, each solution taken at the tokens that its own run selects.",
    family=published_family,
    run={"lr": 0.1, "longest": 20_000},
    seeds=100,
    first=1,
    group=25,
    measure=measure,
    checks=checks,
    gap=1e-8,
    thresholds={"image": IMAGE},
    # The reading of p = 3 to its own solution is of 20,000 iterations.
    quick={
        "seeds": 10,
        "run": {"longest": 4000},
        "thresholds": {"image": {"2": 0.18, "1.75": 0.21}},
    },
    figure={
        "kind": "curves",
        "x": "step",
        "value": {f"to_{p}": f"to ℓ{p}" for p in EXPONENTS},
        "panels": "run",
        "where": lambda table: table.run.isin(EXPONENTS) & (table.step > 0),
        "middle": "mean",
        "published": published,
        "log": "xy",
        "xlabel": "iteration",
        "ylabel": "directional divergence in exponent p",
    },
    differs="The released runs do not seed W(0), so their means mix instances on which the "
    "exponents select different tokens. With own starts the means of the picture (p = 3 to ℓ2 and "
    "ℓ1.75) come out again; with one W(0) for all they are smaller by a third to a half. p = 1.1, "
    "the exponent of the published runs on real data, is ours here.",
    size="as published",
)
