"""Beyond: normalized descent in plain floats leaves the direction that exact gradients keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.mirror_runs import problems, thinned
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.published import EPS, plain_run, published_stack
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The runs: exact gradients, the published formula without its eps, and with it.
PLAIN = {"plain": 0.0, "plain with eps": EPS}
RUNS = ("exact", *PLAIN)


def run(config: Config) -> Result:
    """The same start and step size in three arithmetics; solutions at the tokens each selects."""
    tokens, heads = published_stack(config["seeds"])
    path = train(tokens, head=heads, lr=config["lr"], steps=config["steps"], init="uniform")
    keep = thinned(path.steps)
    marks, W = path.steps[keep], path.weights["W"]
    out: Result = {"steps": marks, "exact.W": W[keep]}
    for name, eps in PLAIN.items():
        out[f"{name}.W"] = plain_run(tokens, heads, W[0], lr=config["lr"], marks=marks, eps=eps)
    for name in RUNS:
        out |= saved_solutions(f"{name}.best", solve_many(problems(tokens, out[f"{name}.W"][-1])))
    return out


def _found(config: Config, result: Result) -> dict[str, tuple[Floats, list[Certificate]]]:
    """The cosine (R, B) of each run to the solution at its own last tokens, and certificates."""
    tokens, _ = published_stack(config["seeds"])
    found = {}
    for name in RUNS:
        W = result[f"{name}.W"]
        best = recertified(f"{name}.best", problems(tokens, W[-1]), "frobenius", result)
        cosines = [[cosine(M, c) for M, c in zip(row, best, strict=True)] for row in W]
        found[name] = np.array(cosines), best
    return found


def check(config: Config, result: Result) -> Finding:
    """Exact: the certified direction. Plain: another one, or no way made beyond eps."""
    found = _found(config, result)
    end = {name: cosines[-1] for name, (cosines, _) in found.items()}
    length = {
        name: np.median(np.linalg.norm(result[f"{name}.W"][-1], axis=(1, 2)))
        / (config["lr"] * config["steps"])
        for name in RUNS
    }
    apart = np.asarray(correlation(result["plain.W"], result["exact.W"]))
    wrong = (apart < 0.99) & (result["steps"] > 0)[:, None]
    first = np.where(wrong.any(axis=0), result["steps"][wrong.argmax(axis=0)], np.inf)
    tests = (
        at_least(
            "exact: median cosine to the certified direction",
            np.median(end["exact"]),
            config["exact"],
        ),
        at_most(
            "plain: median cosine to the certified direction",
            np.median(end["plain"]),
            config["plain"],
        ),
        at_least(
            "plain: share of runs whose direction is wrong (cosine to exact < .99)",
            wrong[-1].mean(),
            0.99,
        ),
        at_least("exact: ‖W‖ as a share of the way made", length["exact"], 0.9),
        at_most("plain with eps: ‖W‖ as a share of the way made", length["plain with eps"], 0.5),
        noted("plain: median recorded iteration by which it is wrong", np.median(first)),
        noted("plain with eps: median cosine", np.median(end["plain with eps"])),
        noted("exact: least cosine", end["exact"].min()),
        noted("plain: least cosine", end["plain"].min()),
        at_most("largest certified gap of the exact runs", worst_gap(found["exact"][1]), 1e-9),
    )
    gap = max(worst_gap(best) for _, best in found.values())
    count = len(config["seeds"])
    return Finding(
        tests, f"{count} published instances, one start each, three arithmetics", count, gap
    )


def plot(config: Config, result: Result) -> Figure:
    """Cosine to the certified direction and length of W over the iterations."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    found = _found(config, result)
    figure, (left, right) = panels(2)
    steps = result["steps"]
    for k, name in enumerate(RUNS):
        band(left, steps[1:], found[name][0][1:], colour=CYCLE[k], label=name)
        size = np.linalg.norm(result[f"{name}.W"][1:], axis=(2, 3))
        band(right, steps[1:], size, colour=CYCLE[k], label=name)
    left.set(
        xscale="log",
        xlabel="iteration",
        ylabel="cosine to the certified direction",
        title="Direction (median, middle half)",
    )
    right.set(xscale="log", yscale="log", xlabel="iteration", ylabel="‖W‖", title="Length")
    right.legend(frameon=False)
    return figure


_FULL = {"seeds": list(range(100)), "lr": 0.1, "steps": 10_000, "exact": 0.999, "plain": 0.9}

CLAIM = Claim(
    id="beyond.float-drift",
    title="Plain floats drift away from the limit",
    kind="question",
    trust="measured",
    statement="Once attention saturates, the published gradient formula in double precision "
    "cancels to rounding noise: normalized, it walks away from the max-margin direction, and with "
    "an eps in the norm it stops. With exact gradients the same run converges to it.",
    full=_FULL,
    quick={**_FULL, "seeds": list(range(10)), "lr": 1.0, "steps": 3000},
    run=run,
    check=check,
    plot=plot,
)
