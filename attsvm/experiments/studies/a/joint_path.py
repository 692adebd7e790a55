"""A: on the joint regularization path, how fast the decoder's radius grows decides the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.experiments.studies.a.joint import instance, problems
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
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.solvers.solve import solve
from attsvm.theory.landscape import label_margin_constant
from attsvm.theory.regularization_path.paths import regpath

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Radius of the decoder as a power of the prompt's, and the problem the prompt should meet.
CASES = {
    "tight, r = √R": ("joint-tight", 0.5, "whole"),
    "tight, r = R": ("joint-tight", 1.0, "whole"),
    "relaxed, r = √R": ("joint-relaxed", 0.5, "whole"),
    "relaxed, r = R": ("joint-relaxed", 1.0, "relaxed"),
}


def run(config: Config) -> Result:
    """The least joint loss with ‖p‖ ≤ R, ‖v‖ ≤ r(R), on both instances and for both speeds."""
    out: Result = {"radii": np.array(config["radii"])}
    for k, (name, power, _) in enumerate(CASES.values()):
        tokens, keep = instance(name)

        def second(R: float, power: float = power) -> float:
            return R**power

        path = regpath(
            tokens,
            model="joint-prompt",
            radii=config["radii"],
            keep=keep,
            second=second,
            starts=config["starts"],
        )
        out |= {f"{k}.{part}": a for part, a in path.weights.items()}
        out[f"{k}.residual"] = path.residual
        for part, problem in problems(name).items():
            out |= saved_solutions(f"{k}.{part}", [solve(problem)])
    return out


def check(config: Config, result: Result) -> Finding:
    """Each path ends in the direction its speed calls for; v in that of the label margin."""
    tests = []
    gaps = []
    for k, (case, (name, power, target)) in enumerate(CASES.items()):
        tokens, keep = instance(name)
        constant = label_margin_constant(tokens, keep)
        best = {
            part: recertified(f"{k}.{part}", [problem], "frobenius", result)[0]
            for part, problem in problems(name).items()
        }
        gaps.append(worst_gap(list(best.values())))
        p, v = result[f"{k}.p"][-1][:, None], result[f"{k}.v"][-1][:, None]
        right = bool((selected(tokens, p) == keep.indices).all())
        tests += [
            at_least(
                f"{case}: cosine of p to the {target} problem",
                cosine(p, best[target]) if right else float("nan"),
                0.999,
            ),
            at_least(f"{case}: cosine of v", cosine(v, best["labels"]), 0.999),
            equals(
                f"{case}: ‖p‖/R at the end",
                float(np.linalg.norm(p)) / config["radii"][-1],
                1.0,
                within=1e-6,
            ),
            equals(
                f"{case}: ‖v‖/r(R) at the end",
                float(np.linalg.norm(v)) / config["radii"][-1] ** power,
                1.0,
                within=1e-6,
            ),
            noted(f"{case}: label-margin constant", constant.constant),
        ]
    tests.append(at_most("largest certified gap", max(gaps), 1e-9))
    premises = (
        "the label-margin constant, estimated from above, is positive on the tight instance; on "
        "the other it is 0, as it must be where an input supports nothing, and the general form "
        "is judged all the same"
    )
    return Finding(tuple(tests), premises, len(CASES), max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine of p to both problems over R, one panel a case."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, axes = panels(4, figsize=(12, 4), sharey=True)
    for k, (case, (_, _, target)) in enumerate(CASES.items()):
        p = result[f"{k}.p"]
        for j, part in enumerate(("whole", "relaxed")):
            W = result[f"{k}.{part}.W"][0, :, 0]
            away = 1 - p @ W / np.linalg.norm(p, axis=1) / np.linalg.norm(W)
            label = f"{part} problem" + (" (expected)" if part == target else "")
            axes[k].loglog(
                result["radii"],
                np.maximum(away, 1e-9),
                ("s-", ".--")[j],  # the two may be one line
                color=CYCLE[j],
                markersize=5,
                label=label,
            )
        axes[k].set(xlabel="R", title=case)
        axes[k].xaxis.set_minor_formatter("")
        axes[k].legend(frameon=False, fontsize=7.5)
    axes[0].set_ylabel("1 − cosine of p to the certified direction")
    return figure


_FULL = {"radii": [1.0, 3.0, 10.0, 30.0, 100.0], "starts": 1}

CLAIM = Claim(
    id="A.joint-path",
    title="Joint regularization path: the decoder's radius decides",
    kind="theorem",
    trust="read",
    statement="Minimising the logistic loss with ‖p‖ ≤ R and ‖v‖ ≤ r, both growing, where "
    "attention off the selected tokens costs label margin, v tends to the max-margin decoder and p "
    "to the prompt of least norm with a margin of 1 on the inputs that support the decoder and of "
    "0 on the others. This is on the regularization path alone, and how r grows with R is not "
    "said.",
    full=_FULL,
    quick={"radii": [3.0, 30.0], "starts": 1},
    run=run,
    check=check,
    plot=plot,
    differs="How r grows decides where an input does not support the decoder: with r = R the path "
    "ends at the relaxed solution, with r = √R at the unrelaxed one; both are judged. Strictly the "
    "premise leaves no such input: a little of its attention can go elsewhere at no cost in label "
    "margin.",
    reference="tarzanagh2023maxmargin",
    numbered="slides",
)
