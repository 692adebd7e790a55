"""A: normalized steps make the norm grow linearly, plain steps logarithmically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.studies.a.multi_input import instance
from attsvm.experiments.studies.claim import Claim, Config, Finding, Result, at_most, equals
from attsvm.problem.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(config: Config) -> Result:
    """Both optimizers from p = 0 on the three-input draw."""
    tokens, v = instance("multi-input-planar")
    out: Result = {}
    for optimizer in ("gd", "ngd"):
        path = train(
            tokens,
            model="prompt",
            optimizer=optimizer,
            head=v,
            lr=config["lr"][optimizer],
            steps=config["steps"],
        )
        out |= {f"{optimizer}.steps": path.steps, f"{optimizer}.p": path.weights["p"][:, 0]}
    return out


def _missing(p: Floats) -> Floats:
    """log of the mean attention off the best tokens (R,), from the weights (R, d)."""
    tokens, v = instance("multi-input-planar")
    best = Selection.best(tokens, v).indices
    logits = np.einsum("ntd,rd->rnt", np.asarray(tokens.keys), p)
    others = logits.copy()
    others[:, np.arange(tokens.n), best] = -np.inf
    off = np.logaddexp.reduce(others, axis=2) - np.logaddexp.reduce(logits, axis=2)
    return np.asarray(np.logaddexp.reduce(off, axis=1) - np.log(tokens.n))


def _unexplained(x: Any, y: Any) -> float:
    """1 − R² of the straight line through y over x; nan where y does not change."""
    if np.ptp(y) == 0:
        return float("nan")
    return float(1 - np.corrcoef(x, y)[0, 1] ** 2)


def _slope(x: Any, y: Any) -> float:
    """The slope of the straight line through y over x."""
    return float(np.polyfit(x, y, 1)[0])


# A law is told from its rival when it leaves unexplained at most this share of what that one does.
APART = 0.01


def check(config: Config, result: Result) -> Finding:
    """Late ‖p‖ is straight in t and not in log t under ngd, and the other way round under gd.

    The margins grow with ‖p‖, so that attention off the best tokens falls exponentially in t under
    ngd and, with ‖p‖ ≈ ‖p^mm‖ log t, like 1/t under gd.
    """
    late = {
        optimizer: result[f"{optimizer}.steps"] >= config["late"] for optimizer in ("gd", "ngd")
    }
    t = {
        optimizer: result[f"{optimizer}.steps"][seen].astype(float)
        for optimizer, seen in late.items()
    }
    p = {optimizer: result[f"{optimizer}.p"] for optimizer in late}
    size = {optimizer: np.linalg.norm(p[optimizer][late[optimizer]], axis=1) for optimizer in late}
    off = {optimizer: _missing(p[optimizer]) for optimizer in late}
    lost = {optimizer: off[optimizer][late[optimizer]] for optimizer in late}
    line = {optimizer: _unexplained(t[optimizer], size[optimizer]) for optimizer in late}
    curve = {optimizer: _unexplained(np.log(t[optimizer]), size[optimizer]) for optimizer in late}
    shown = {
        optimizer: int(np.argmax(result[f"{optimizer}.steps"] >= config["shown"]))
        for optimizer in late
    }
    tests = (
        equals(
            "ngd: power of t in ‖p‖, late",
            _slope(np.log(t["ngd"]), np.log(size["ngd"])),
            1.0,
            within=0.02,
        ),
        at_most(
            "ngd: unexplained by a line in t over that by one in log t, late",
            line["ngd"] / curve["ngd"],
            APART,
        ),
        equals(
            "ngd: ‖p‖/(ηt) at the end",
            size["ngd"][-1] / (config["lr"]["ngd"] * t["ngd"][-1]),
            1.0,
            within=0.02,
        ),
        at_most(
            "gd: unexplained by a line in log t over that by one in t, late",
            curve["gd"] / line["gd"],
            APART,
        ),
        # A power of t has ‖p‖ straight in t^a; a logarithm has a → 0.
        at_most(
            "gd: unexplained by a line in log t over that by one in t^(1/4), late",
            curve["gd"] / _unexplained(t["gd"] ** 0.25, size["gd"]),
            0.1,
        ),
        at_most(
            "ngd: log of the attention off the best tokens, unexplained by a line in t over that "
            "by one in log t",
            _unexplained(t["ngd"], lost["ngd"]) / _unexplained(np.log(t["ngd"]), lost["ngd"]),
            APART,
        ),
        equals(
            "gd: power of 1/t in the attention off the best tokens",
            -_slope(np.log(t["gd"]), lost["gd"]),
            1.0,
            within=0.05,
        ),
        at_most(
            f"ngd's attention off the best tokens over gd's, at step {config['shown']}",
            float(np.exp(off["ngd"][shown["ngd"]] - off["gd"][shown["gd"]])),
            0.1,
        ),
    )
    return Finding(tests, "the published draw, both optimizers from p = 0", 2, 0.0)


def plot(config: Config, result: Result) -> Figure:
    """Attention on the best tokens and ‖p‖, both over the steps."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    for k, optimizer in enumerate(("gd", "ngd")):
        steps, p = result[f"{optimizer}.steps"], result[f"{optimizer}.p"]
        name = f"{optimizer}, step size {config['lr'][optimizer]:g}"
        left.semilogx(steps[1:], -np.expm1(_missing(p)[1:]), color=CYCLE[k], label=name)
        right.loglog(steps[1:], np.linalg.norm(p[1:], axis=1), color=CYCLE[k], label=name)
    left.set(xlabel="step", ylabel="mean probability of the best tokens", title="Attention")
    right.set(xlabel="step", ylabel="‖p‖", title="Norm")
    left.legend(frameon=False)
    return figure


_FULL = {"lr": {"gd": 1.0, "ngd": 0.1}, "steps": 20_000, "late": 1000, "shown": 200}

CLAIM = Claim(
    id="A.gd-against-ngd",
    title="Plain and normalized descent",
    kind="figure",
    trust="code",
    statement="From the same start, the norm of the prompt grows about linearly under normalized "
    "descent and about logarithmically under plain descent, and attention saturates accordingly: "
    "what the best tokens lack falls exponentially in the step under the one and like its inverse "
    "under the other.",
    full=_FULL,
    quick={**_FULL, "steps": 5000, "late": 500},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published, run on from 200 steps to 20,000",
)
