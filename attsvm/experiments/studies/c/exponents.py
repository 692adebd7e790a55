"""C: runs of several exponents on the same instances: each ends at the solution in its own norm.

Each exponent p has its own run of normalized mirror descent, its own selected tokens, and its own
certified ℓp solution at those tokens; the p-run is compared with the solutions of all runs by the
directional divergence in exponent p.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, divergence, norm_name, thinned
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals


class MirrorRun(NamedTuple):
    """The run of exponent p on B instances.

    steps (R,), W (R, B, d, d): records that are kept; alpha (B, n): the tokens selected at the
    end; best: the certified ℓp solutions of their problems.
    """

    p: str
    steps: Ints
    W: Floats
    alpha: Ints
    best: list[Certificate]


def mirror_run(
    group: Group, p: str, *, lr: float, steps: int, init: Any = "zero", kept: int = 20
) -> MirrorRun:
    """Normalized mirror descent of exponent p, and the solutions at the tokens it ends with."""
    path = train(
        group.tokens, optimizer=f"nmirror:{p}", head=group.heads, lr=lr, steps=steps, init=init
    )
    places = thinned(path.steps, kept)
    alpha = path.selection.reshape(len(group), -1)
    return MirrorRun(
        p, path.steps[places], path.matrices()[places], alpha, group.solved(alpha, norm_name(p))
    )


def run_rows(group: Group, runs: Mapping[str, MirrorRun]) -> Parts:
    """A row for each run, instance and record: the divergences from the solutions of all runs.

    tokens: those selected at the end; right: how many of them are the best ones; to_NAME: the
    divergence in the run's exponent from the solution of the run of this name, nan where none is
    certified; gap: that of the run's own solution, infinite where none is certified.
    """
    return [
        {
            "seed": seed,
            "run": name,
            "step": run.steps,
            "tokens": " ".join(map(str, run.alpha[b])),
            "right": (run.alpha[b] == group.best[b]).sum(),
            **{f"to_{q}": divergence(run.W[:, b], r.best[b], run.p) for q, r in runs.items()},
            "gap": float(run.best[b].gap),
        }
        for name, run in runs.items()
        for b, seed in enumerate(group.seeds)
    ]  # fmt: skip


def ends_of(table: Table) -> dict[str, Table]:
    """The rows of the last record of each run, by seed."""
    last = table[table.step == table.groupby("run").step.transform("max")]
    return {name: rows.set_index("seed") for name, rows in last.groupby("run", sort=False)}


# ---------------------------------------------------------------- all exponents on random instances

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


def measure_cross(group: Group, lr: float, longest: int) -> Parts:
    """Each exponent's run from the same W(0), and runs from starts of their own, by record."""
    steps = {**STEPS, "3": longest}
    runs = {
        p: mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, 0)) for p in EXPONENTS
    }
    for p, stream in OWN.items():
        own = mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, stream))
        runs[f"own {p}"] = own._replace(steps=own.steps[-1:], W=own.W[-1:])
    return run_rows(group, runs)


def checks_cross(table: Table, thresholds: Any) -> Checks:
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


def published_cross(row: Mapping[str, Any]) -> float:
    """The published mean, read off the end of the run of p = 3; nan elsewhere."""
    at_end = row["run"] == "3" and row["step"] == 20_000
    return IMAGE.get(row["column"][3:], np.nan) if at_end else np.nan


STUDY_CROSS = Study(
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
    measure=measure_cross,
    checks=checks_cross,
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
        "published": published_cross,
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


# ---------------------------------------------------------------- one instance

# The published selection.
ALPHA = (3, 2, 6, 2, 6, 2)


def measure_one(group: Group, lr: float, longest: int) -> Parts:
    """Each exponent's run from W = 0, by record; published: inputs whose best token is so.

    W12, W34 are entries of the iterate, ray12, ray34 those of the run's certified solution.
    """
    steps = {"1.75": 1500, "2": 2000, "3": longest}
    runs = {p: mirror_run(group, p, lr=lr, steps=steps[p], kept=40) for p in steps}
    parts = run_rows(group, runs)
    for part, run in zip(parts, runs.values(), strict=True):
        part["published"] = (group.best[0] == ALPHA).sum()
        for i, j in ((1, 2), (3, 4)):
            part[f"W{i}{j}"] = run.W[:, 0, i, j]
            part[f"ray{i}{j}"] = np.asarray(run.best[0].require().W)[i, j]
    return parts


def checks_one(table: Table, thresholds: Any) -> Checks:
    """Every exponent selects the best tokens and ends nearest to its own solution."""
    inputs = len(ALPHA)
    yield equals("inputs whose best token is the published one", table.published.min(), inputs)
    ends = {p: rows.iloc[0] for p, rows in ends_of(table).items()}
    for p, end in ends.items():
        others = [end[f"to_{q}"] for q in ends if q != p]
        own = end[f"to_{p}"]
        yield equals(f"p = {p}: inputs that select their best token", end.right, inputs)
        yield at_most(f"p = {p}: own divergence", own, thresholds["most"])
        yield at_least(f"p = {p}: least other divergence over the own", min(others) / own, 1.0)
    yield Premises(1, "the published instance of seed 1, from W = 0")


STUDY_ONE = Study(
    id="C.single-instance",
    title="One instance: same tokens, three directions",
    kind="figure",
    source="code",
    statement="On the published single instance, started from W = 0, normalized mirror descent "
    "selects the best token of every input for p = 1.75, 2 and 3, and its direction ends nearest "
    "to the ℓp solution of its own exponent.",
    family=published_family,
    run={"lr": 0.1, "longest": 20_000},
    first=1,
    measure=measure_one,
    checks=checks_one,
    gap=1e-6,
    thresholds={"most": 0.006},
    quick={"run": {"longest": 10_000}},
    figure={
        "kind": "paths",
        "x": "W12",
        "y": "W34",
        "each": "run",
        "panels": "run",
        "ray": ["ray12", "ray34"],
        "xlabel": "W₁₂",
        "ylabel": "W₃₄",
    },
    size="as published",
    published=True,
)


STUDIES = (STUDY_CROSS, STUDY_ONE)
