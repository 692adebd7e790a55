"""Beyond: spectral steps on factors lead where spectral steps on the weight lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.proof import worst_gap
from attsvm.experiments.studies.shared.steepest_runs import (
    arrived,
    certified,
    shares,
    solutions,
    trained,
)
from attsvm.theory.measures import rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORMS = ("spectral", "nuclear", "frobenius")


def run(config: Config) -> Result:
    """Spectral descent on the weight and on factors of several widths."""
    out = solutions(config, NORMS)
    out["weight"] = trained(config, "weight", "spectral")
    for width in config["widths"]:
        out[f"width {width}"] = trained(config, "factored", "spectral", width=width)
    return out


def _found(config: Config, result: Result) -> tuple[dict[str, dict[str, Floats]], float]:
    """The shares (B,) of each run in each norm, and the largest gap."""
    best = certified(config, result, NORMS)
    names = ["weight", *(f"width {width}" for width in config["widths"])]
    found = {name: {norm: shares(result[name], best[norm]) for norm in NORMS} for name in names}
    return found, max(worst_gap(c) for c in best.values())


def check(config: Config, result: Result) -> Finding:
    """From the width of the solution's rank on, the spectral share is that of the weight."""
    found, gap = _found(config, result)
    ranks = np.asarray(rank(result["best.spectral.W"]))
    whole = float(np.median(found["weight"]["spectral"]))
    tests = [
        at_least("weight: median spectral share", whole, config["share"]),
        noted("largest rank of the certified spectral solutions", float(ranks.max())),
    ]
    judged = 0
    for width in config["widths"]:
        name = f"width {width}"
        value = {norm: float(np.median(found[name][norm])) for norm in NORMS}
        if width < ranks.max():
            tests.append(noted(f"{name}, below the rank: median spectral share", value["spectral"]))
            continue
        judged += len(ranks)
        tests += [
            at_least(f"{name}: median spectral share", value["spectral"], config["share"]),
            at_least(
                f"{name}: spectral share less the larger of the others",
                value["spectral"] - max(value[n] for n in NORMS if n != "spectral"),
                0.0,
            ),
            at_most(
                f"{name}: distance of the median share to the weight's",
                abs(value["spectral"] - whole),
                0.02,
            ),
            noted(f"{name}: least spectral share", float(found[name]["spectral"].min())),
        ]
    counts = {name: arrived(config, result[name]) for name in found}
    tests += [noted(f"{name}: runs that select the best tokens", n) for name, n in counts.items()]
    tests.append(at_most("largest certified gap", gap, 1e-6))
    premises = f"{judged} runs of width at least the solutions' largest rank, {ranks.max()}"
    astray = [f"{name} {len(ranks) - n}" for name, n in counts.items() if n < len(ranks)]
    note = "runs that end at other tokens count with share 0: " + ", ".join(astray)
    return Finding(tuple(tests), premises, judged, gap, note if astray else "")


def plot(config: Config, result: Result) -> Figure:
    """The margin shares by width, one mark per instance, in three norms."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    found, _ = _found(config, result)
    figure, (axes,) = panels(1)
    for j, norm in enumerate(NORMS):
        for k, row in enumerate(found.values()):
            place = k + 0.22 * (j - 1) + np.linspace(-0.06, 0.06, len(row[norm]))
            axes.plot(place, row[norm], ".", color=CYCLE[j], markersize=4)
            axes.plot(
                [place[0], place[-1]],
                [np.median(row[norm])] * 2,
                color=CYCLE[j],
                linewidth=2.5,
                label=norm if k == 0 else None,
            )
    axes.set_xticks(range(len(found)), list(found))
    axes.set(
        xlabel="model: the weight, or factors of this width",
        ylim=(None, 1.02),
        ylabel="certified margin share",
        title="Spectral descent (dots: instances, bars: medians)",
    )
    figure.legend(loc="outside right center", frameon=False, title="norm")
    return figure


_FULL = {
    "seeds": list(range(12)),
    "seed": 1,
    "steps": 6000,
    "share": 0.98,
    "widths": [2, 5, 10, 20],
}

CLAIM = Claim(
    id="beyond.factored-spectral",
    title="Spectral descent does not notice the factors",
    kind="question",
    trust="measured",
    statement="Spectral descent on the factors of K Qᵀ maximizes the margin in the spectral norm "
    "of the product, in the median as nearly as it does on the weight itself, once the width "
    "reaches the rank of the solution.",
    full=_FULL,
    quick={**_FULL, "seeds": list(range(4)), "steps": 1500, "share": 0.95, "widths": [2, 5]},
    run=run,
    check=check,
    plot=plot,
    reference="fan2025spectral",
)
