"""C: each exponent of mirror descent ends nearest to the solution in its own norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.mirror_runs import ends_of, mirror_run, run_rows
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Found, Premises, Study, at_least, at_most, equals, info
from attsvm.norms import norm_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Steps of each exponent; those of p = 3 are a parameter.
STEPS = {"1.1": 1500, "1.75": 1500, "2": 2000}
EXPONENTS = (*STEPS, "3")
# The exponents that are run a second time, from another W(0): the seed of their starts.
OWN = {"1.75": 1, "2": 2}


def start_of(group: Group, stream: int) -> dict[str, Floats]:
    """W(0) ~ N(0, 1) of each instance, from its own place of the stream; seeds begin with 1."""
    streams = [np.random.default_rng([stream, max(seed - 1, 0)]) for seed in group.seeds]
    d = group.tokens[0].d
    return {"W": np.stack([draw.standard_normal((d, d)) for draw in streams])}


def measure(group: Group, lr: float, longest: int) -> dict[str, Any]:
    """Each exponent's run from the same W(0), and runs from starts of their own, by record."""
    steps = {**STEPS, "3": longest}
    runs = {
        p: mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, 0)) for p in EXPONENTS
    }
    for p, stream in OWN.items():
        own = mirror_run(group, p, lr=lr, steps=steps[p], init=start_of(group, stream))
        runs[f"own {p}"] = replace(own, steps=own.steps[-1:], W=own.W[-1:])
    return run_rows(group, runs)


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
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
        yield info(f"p = {p}: share with own p the nearest, of all", nearest.mean())
        for q in EXPONENTS:
            yield info(f"p = {p}: mean divergence to ℓ{q}", mean[q])
            yield info(f"p = {p}: median divergence to ℓ{q}", median[q])
    for q, wanted in thresholds["image"].items():
        away = ends["3"][f"to_own {q}" if q in OWN else f"to_{q}"]
        # The reading is good to 0.005, and both it (100 instances, starts unknown) and ours are
        # means: three standard errors of their difference.
        error = away.std() * np.sqrt(1 / len(away) + 1 / 100)
        yield equals(f"p = 3: mean divergence to ℓ{q} against the picture, own starts",
                     away.mean(skipna=False), wanted,
                     within=round(0.005 + 3 * float(error), 4))  # fmt: skip
    for names, starts in (([f"own {q}" for q in OWN], "the exponents agree, own starts"),
                          (list(OWN), "the same exponents agree, shared start")):  # fmt: skip
        same = tokens[names].eq(tokens["3"], axis=0).all(axis=1)
        yield info(f"share of instances on which {starts}", same.mean())
    yield info("share of instances on which all exponents agree, shared start", agree.mean())
    certified = np.isfinite(sum(ends[p][f"to_{p}"] for p in EXPONENTS))
    yield at_least("instances with all solutions certified", certified.sum(), len(agree))
    yield at_most("largest certified gap", table.gap.max(skipna=False), norm_of("l3").tolerance)
    yield Premises(
        len(agree),
        f"{len(agree)} published instances, all separable at the tokens selected; the "
        f"{len(EXPONENTS)} exponents select the same tokens in {int(agree.sum())} of them",
        table.gap.max(),
    )


def figure(table: DataFrame, study: Study) -> Figure:
    """Mean and median divergence over the iterations, a panel an exponent; published means."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, axes = panels(2, rows=2, sharey=True)
    for ax, p in zip(axes, EXPONENTS, strict=True):
        steps = table[(table.run == p) & (table.step > 0)].groupby("step")
        for colour, q in zip(CYCLE, EXPONENTS, strict=False):
            away = steps[f"to_{q}"]
            ax.loglog(away.mean(), color=colour, label=f"to ℓ{q}, mean")
            ax.loglog(away.median(), ":", color=colour, label=f"to ℓ{q}, median")
        ax.set(xlabel="iteration", title=f"Mirror descent, p = {p}")
        ax.set_ylabel("directional divergence in exponent p")
    # The published means are of 20,000 iterations of p = 3, each exponent from starts of its own.
    own = ends_of(table)["3"]
    for colour, q in zip(CYCLE, EXPONENTS, strict=False):
        if q in OWN:
            axes[-1].plot(study.run["longest"], own[f"to_own {q}"].mean(), "o", color=colour,
                          fillstyle="none")  # fmt: skip
        if q in study.thresholds["image"]:
            axes[-1].plot(20_000, study.thresholds["image"][q], "x", color=colour)
    axes[0].plot([], [], "ko", fillstyle="none", label="mean, own starts")
    axes[0].plot([], [], "kx", label="the same, published")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return drawn


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
    thresholds={"image": {"3": 0.008, "2": 0.18, "1.75": 0.21}},
    # The reading of p = 3 to its own solution is of 20,000 iterations.
    quick={
        "seeds": 10,
        "run": {"longest": 4000},
        "thresholds": {"image": {"2": 0.18, "1.75": 0.21}},
    },
    figure=figure,
    differs="The released runs do not seed W(0), so each exponent starts elsewhere, and their "
    "means mix instances on which the exponents select different tokens. With own starts the means "
    "of the picture (p = 3 to ℓ2 and ℓ1.75) come out again; with one W(0) for all exponents they "
    "are smaller by about a third to a half, and the exponents agree about twice as often. p = "
    "1.1, the exponent of the published runs on real data, is ours here: it meets its own solution "
    "within the steps of p = 1.75. How often they agree depends on the starts and is not judged: a "
    "share of 0.68 has been reported, without its starts.",
    reference="julistiono2024mirror",
    size="as published",
)
