"""C: each exponent of mirror descent ends nearest to the solution in its own norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
)
from attsvm.experiments.studies.shared.mirror_runs import compared, run
from attsvm.norms import norm_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check(config: Config, result: Result) -> Finding:
    """Own exponent the nearest in the mean, the median, and wherever the selections agree."""
    found = compared(config, result)
    exponents = list(config["steps"])
    tests = []
    for p in exponents:
        end = {q: found.divergence[p, q][-1] for q in exponents}
        others = [q for q in exponents if q != p]
        tests += [
            at_most(
                f"p = {p}: own mean over the least other mean",
                end[p].mean() / min(end[q].mean() for q in others),
                1.0,
            ),
            at_most(
                f"p = {p}: own median over the least other median",
                np.median(end[p]) / min(np.median(end[q]) for q in others),
                1.0,
            ),
            # There the problems are of the same tokens, and each run tends to its own.
            equals(
                f"p = {p}: share with own p the nearest, where the selections agree",
                found.own_nearest(p, found.agree),
                1.0,
            ),
            noted(
                f"p = {p}: share with own p the nearest, of all",
                found.own_nearest(p, np.ones_like(found.agree)),
            ),
            *(noted(f"p = {p}: mean divergence to ℓ{q}", end[q].mean()) for q in exponents),
            *(noted(f"p = {p}: median divergence to ℓ{q}", np.median(end[q])) for q in exponents),
        ]
    for q, mean in config["image"].items():
        name = f"{q}.own" if q in config["own_starts"] else q
        ends = found.divergence["3", name][-1]
        # The reading is good to 0.005, and both it (100 instances, starts unknown) and ours are
        # means: three standard errors of their difference.
        error = ends.std(ddof=1) * np.sqrt(1 / len(ends) + 1 / 100)
        tests.append(
            equals(
                f"p = 3: mean divergence to ℓ{q} against the picture, own starts",
                ends.mean(),
                mean,
                within=round(0.005 + 3 * float(error), 4),
            )
        )
    apart = [found.alpha[f"{q}.own"] == found.alpha["3"] for q in config["own_starts"]]
    tests += [
        noted(
            "share of instances on which the exponents agree, own starts",
            np.all(apart, axis=(0, 2)).mean(),
        ),
        noted(
            "share of instances on which the same exponents agree, shared start",
            np.all(
                [found.alpha[q] == found.alpha["3"] for q in config["own_starts"]], axis=(0, 2)
            ).mean(),
        ),
        noted("share of instances on which all exponents agree, shared start", found.agree.mean()),
        at_least(
            "instances with all solutions certified",
            int(sum(np.isfinite(sum(found.divergence[p, p][-1] for p in exponents)))),
            len(config["seeds"]),
        ),
        at_most("largest certified gap", found.gap, norm_of("l3").tolerance),
    ]
    premises = (
        f"{len(config['seeds'])} published instances, all separable at the tokens selected; the "
        f"{len(exponents)} exponents select the same tokens in {int(found.agree.sum())} of them"
    )
    return Finding(tuple(tests), premises, len(config["seeds"]), found.gap)


def plot(config: Config, result: Result) -> Figure:
    """Mean and median divergence over the iterations, a panel an exponent."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    found = compared(config, result)
    exponents = list(config["steps"])
    figure, axes = panels(2, rows=(len(exponents) + 1) // 2, sharey=True)
    for k, p in enumerate(exponents):
        steps = result[f"{p}.steps"]
        for j, q in enumerate(exponents):
            d = found.divergence[p, q]
            axes[k].loglog(steps[1:], d[1:].mean(axis=1), color=CYCLE[j], label=f"to ℓ{q}, mean")
            axes[k].loglog(
                steps[1:], np.median(d[1:], axis=1), ":", color=CYCLE[j], label=f"to ℓ{q}, median"
            )
        axes[k].set(xlabel="iteration", title=f"Mirror descent, p = {p}")
        axes[k].set_ylabel("directional divergence in exponent p")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


_FULL = {
    "seeds": list(range(1, 101)),
    "seed": 0,
    "own_starts": {"1.75": 1, "2": 2},
    "init": "normal:1",
    "lr": 0.1,
    "steps": {"1.1": 1500, "1.75": 1500, "2": 2000, "3": 20_000},
    "image": {"3": 0.008, "2": 0.18, "1.75": 0.21},
}

CLAIM = Claim(
    id="C.cross-p-divergence",
    title="Every exponent meets its own solution",
    kind="figure",
    trust="image",
    statement="Averaged over random instances, the iterates of normalized ℓp mirror descent are "
    "nearer, in the directional divergence of exponent p, to the ℓp solution than to those of the "
    "other exponents, each solution taken at the tokens that its own run selects.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": list(range(1, 11)),
        "steps": {"1.1": 1500, "1.75": 1500, "2": 2000, "3": 4000},
        # The reading of p = 3 to its own solution is of 20,000 iterations.
        "image": {"2": 0.18, "1.75": 0.21},
    },
    run=run,
    check=check,
    plot=plot,
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
