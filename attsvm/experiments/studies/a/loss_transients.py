"""A: the loss decides the transient, not the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
)
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, selected
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("linear", "logistic")
HEAD = (0.0, 0.0, 1.0)


def _tokens(gain: float) -> Tokens:
    X = np.array([[[0.0, 0, 0], [1, 1, gain]], [[0, 0, 0], [1, -1, 1]]])
    return Tokens(X, keys=X * [1, 1, 0], labels=[1, 1])


def _problem() -> Problem:
    tokens = _tokens(1.0)
    return Problem.of(tokens, Selection.of(tokens, [1, 1]))


def run(config: Config) -> Result:
    """Both losses at every gain of the first input, from p = 0."""
    stack = [_tokens(gain) for gain in config["gains"]]
    out: Result = dict(saved_solutions("best", [solve(_problem())]))
    for loss in LOSSES:
        path = train(
            stack, model="prompt", head=HEAD, loss=loss, lr=config["lr"], steps=config["steps"]
        )
        out |= {f"{loss}.steps": path.steps, f"{loss}.p": path.weights["p"]}
    return out


def _lead(p: Floats) -> Floats:
    """The logit margin of the first input less that of the second: 2 p₂."""
    return 2.0 * p[..., 1]


def limit_lead(loss: str, gain: float) -> float:
    """The lead at which both inputs pull p₂ equally, once attention is saturated.

    The pull of an input of gain c and margin m is c |ℓ'(c)| e^−m: the leads are log c for the
    linear loss and log c (1 + e)/(1 + e^c) for the logistic one, above and below 0 for c > 1.
    """
    if loss == "linear":
        return float(np.log(gain))
    return float(np.log(gain) + np.logaddexp(0.0, 1.0) - np.logaddexp(0.0, gain))


def check(config: Config, result: Result) -> Finding:
    """All gains and losses end at (1, 0); on the way the linear loss leads the high-gain input."""
    best = recertified("best", [_problem()], "frobenius", result)[0]
    tests = []
    for loss in LOSSES:
        p = result[f"{loss}.p"]
        tests.append(
            at_least(
                f"{loss}: least cosine to (1, 0) at the end",
                float(np.min([cosine(x[:, None], best) for x in p[-1]])),
                0.999,
            )
        )
        right = [bool((selected(_tokens(1.0), x[:, None]) == 1).all()) for x in p[-1]]
        tests.append(equals(f"{loss}: gains that select both tokens", sum(right), len(right)))
    # A gain of 1 leads nowhere. The others have made half of their way when they are shown, where
    # so many steps can make it: 2 |p₂| is at most twice their length.
    reach = 2 * config["lr"] * config["shown"]
    gains = [(b, gain) for b, gain in enumerate(config["gains"]) if gain > 1]
    for loss, side in (("linear", "high"), ("logistic", "low")):
        p = result[f"{loss}.p"]
        shown = int(np.argmax(result[f"{loss}.steps"] >= config["shown"]))
        limits = np.array([limit_lead(loss, gain) for _, gain in gains])
        leads = {k: _lead(p[k])[[b for b, _ in gains]] for k in (shown, -1)}
        tests += [
            at_least(
                f"{loss}: least lead of the {side}-gain input, shown, as a share of its limit or "
                "of what the steps can reach",
                (leads[shown] / np.clip(limits, -reach, reach)).min(),
                0.5,
            ),
            at_most(
                f"{loss}: largest error of the lead at the end, as a share of its limit",
                np.abs(leads[-1] / limits - 1).max(),
                0.01,
            ),
        ]
    tests += [
        at_most("largest certified gap", float(best.gap), 1e-9),
    ]
    return Finding(
        tuple(tests),
        f"{len(config['gains'])} gains, two losses, from p = 0",
        2 * len(config["gains"]),
        float(best.gap),
    )


def plot(config: Config, result: Result) -> Figure:
    """The paths of the prompt under both losses, by gain."""
    from matplotlib import colormaps

    from attsvm.experiments.studies.shared.drawing import panels

    figure, axes = panels(2, sharey=True)
    shade = colormaps["viridis"]
    gains = config["gains"]
    for ax, loss in zip(axes, LOSSES, strict=True):
        p = result[f"{loss}.p"]
        drawn = result[f"{loss}.steps"] <= 300
        for b, gain in enumerate(gains):
            colour = shade(0.9 * b / max(len(gains) - 1, 1))
            ax.plot(p[drawn, b, 0], p[drawn, b, 1], color=colour, label=f"gain {gain:g}")
        ax.axhline(0.0, color="#444444", linestyle="--", linewidth=1, label="neither leads")
        ax.set(xlabel="p₁", title=f"{loss} loss, 300 steps")
    axes[0].set_ylabel("p₂ (above 0: the high-gain input leads)")
    axes[1].legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


_FULL = {
    "gains": [float(c) for c in range(1, 11)] + [100.0],
    "lr": 0.1,
    "steps": 50_000,
    "shown": 200,
}

CLAIM = Claim(
    id="A.loss-transients",
    title="Two losses, one limit",
    kind="figure",
    trust="code",
    statement="The linear and the logistic loss share the limit (1, 0) whatever the gain of the "
    "first input, but on the way the linear loss favours the high-gain input and the logistic loss "
    "the low-gain one: by a margin of log c and of log (1 + e^c)/(c (1 + e)) for a gain of c, "
    "which stays while the norm grows.",
    full=_FULL,
    quick={**_FULL, "gains": [1.0, 3.0, 10.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published, run on from 1,000 steps to 50,000",
)
