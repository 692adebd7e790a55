"""A: normalized steps make the norm grow linearly, plain steps logarithmically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.claims.a.multi_input import instance
from attsvm.claims.claim import Claim, Config, Finding, Result, at_least, at_most, equals
from attsvm.claims.shared.work import train
from attsvm.ground.arrays import Floats
from attsvm.problem.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config) -> Result:
    """Both rules from p = 0 on the three-input draw."""
    tokens, v = instance("multi-input-planar")
    out: Result = {}
    for rule in ("gd", "ngd"):
        path = train(
            tokens, model="prompt", rule=rule, head=v, lr=config["lr"][rule], steps=config["steps"]
        )
        out |= {f"{rule}.steps": path.steps, f"{rule}.p": path.weights["p"][:, 0]}
    return out


def _attention(p: Floats) -> Floats:
    """The mean probability of the best tokens at each record (R,), from the weights (R, d)."""
    tokens, v = instance("multi-input-planar")
    best = Selection.best(tokens, v).indices
    logits = np.einsum("ntd,rd->rnt", np.asarray(tokens.keys), p)
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    return s[:, np.arange(tokens.n), best].mean(axis=1)


def _straight(x: Any, y: Any) -> float:
    """R² of the straight line through y over x."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def check(config: Config, result: Result) -> Finding:
    """‖p‖ is straight in t under ngd, and in log t under gd; ngd is surer at the same step."""
    size = {rule: np.linalg.norm(result[f"{rule}.p"], axis=1) for rule in ("gd", "ngd")}
    steps = {rule: result[f"{rule}.steps"] for rule in ("gd", "ngd")}
    late = steps["gd"] >= config["late"]
    seen = {rule: int(np.argmax(steps[rule] >= 200)) for rule in steps}
    sure = {rule: _attention(result[f"{rule}.p"])[seen[rule]] for rule in steps}
    tests = (
        at_least("ngd: R² of ‖p‖ over t", _straight(steps["ngd"], size["ngd"]), 0.999),
        equals(
            "ngd: ‖p‖/(ηt) at the end",
            size["ngd"][-1] / (config["lr"]["ngd"] * steps["ngd"][-1]),
            1.0,
            within=0.02,
        ),
        at_least(
            "gd: R² of ‖p‖ over log t, late",
            _straight(np.log(steps["gd"][late]), size["gd"][late]),
            0.99,
        ),
        at_most("gd: ‖p‖ as a share of ngd's, at the end", size["gd"][-1] / size["ngd"][-1], 0.5),
        at_least(
            "ngd's attention on the best tokens less gd's, at step 200",
            sure["ngd"] - sure["gd"],
            0.0,
        ),
    )
    return Finding(tests, "the published draw, both rules from p = 0", 2, 0.0)


def plot(config: Config, result: Result) -> Figure:
    """Attention on the best tokens and ‖p‖, both over the steps."""
    from attsvm.claims.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    for k, rule in enumerate(("gd", "ngd")):
        steps, p = result[f"{rule}.steps"], result[f"{rule}.p"]
        name = f"{rule}, step size {config['lr'][rule]:g}"
        left.semilogx(steps[1:], _attention(p)[1:], color=CYCLE[k], label=name)
        right.loglog(steps[1:], np.linalg.norm(p[1:], axis=1), color=CYCLE[k], label=name)
    left.set(xlabel="step", ylabel="mean probability of the best tokens", title="Attention")
    right.set(xlabel="step", ylabel="‖p‖", title="Norm")
    left.legend(frameon=False)
    return figure


_FULL = {"lr": {"gd": 1.0, "ngd": 0.1}, "steps": 20_000, "late": 1000}

CLAIM = Claim(
    id="A.gd-against-ngd",
    title="Plain and normalized descent",
    kind="figure",
    trust="code",
    statement="From the same start, the norm of the prompt grows about linearly under normalized "
    "descent and about logarithmically under plain descent, and attention saturates accordingly.",
    full=_FULL,
    quick={**_FULL, "steps": 5000, "late": 500},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
