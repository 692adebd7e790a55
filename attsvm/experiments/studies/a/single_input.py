"""A: one input of three tokens: from every start the prompt goes to a locally optimal token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.datasets import EXAMPLES
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Motion,
    Result,
    Track,
    at_least,
    at_most,
    equals,
    frame_choice,
)
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.convergence import basin
from attsvm.theory.optima import optimality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = [1.0, 0.5, 0.0, -0.5, -1.0, -1.5]


def instance(name: str) -> tuple[Tokens, Any]:
    """The tokens of the example and the head that scores them."""
    arrays = EXAMPLES[name]()
    return Tokens(arrays["X"], keys=arrays["keys"], labels=arrays["y"]), arrays["v"]


def problems(tokens: Tokens) -> list[Problem]:
    """The problem of each of the three tokens."""
    return [Problem.of(tokens, Selection.of(tokens, [t])) for t in range(tokens.T)]


def run(config: Config) -> Result:
    """Normalized descent from each start, and from a grid of starts for the map of basins."""
    tokens, v = instance(config["example"])
    starts = np.array([[0.0, c, 0.0] for c in config["starts"]])
    path = train(
        [tokens] * len(starts),
        model="prompt",
        head=v,
        lr=config["lr"],
        steps=config["steps"],
        init={"p": starts},
    )
    edge = np.linspace(-config["reach"], config["reach"], config["grid"])
    grid = np.array([[x, y, 0.0] for y in edge for x in edge])
    map_path = train(
        [tokens] * len(grid),
        model="prompt",
        head=v,
        lr=config["lr"],
        steps=config["steps"],
        init={"p": grid},
    )
    certificates = [solve(problem) for problem in problems(tokens)]
    return {
        "steps": path.steps,
        "p": path.weights["p"],
        "map.steps": map_path.steps,
        "map.p": map_path.weights["p"],
        "map.top": map_path.top[:, :, 0],
        **saved_solutions("best", certificates),
    }


def check(config: Config, result: Result) -> Finding:
    """Every start ends at the token the config names, in its certified direction."""
    tokens, v = instance(config["example"])
    best = recertified("best", problems(tokens), "frobenius", result)
    gap = worst_gap(best)
    ends = result["p"][-1]
    chosen = [int(selected(tokens, p[:, None])[0]) for p in ends]
    cosines = [cosine(p[:, None], best[t]) for p, t in zip(ends, chosen, strict=True)]
    local = [
        optimality(tokens, Selection.of(tokens, [t]), v).locally is True for t in range(tokens.T)
    ]
    wanted = config["ends"]
    map_end = [int(selected(tokens, p[:, None])[0]) for p in result["map.p"][-1]]
    tests = [
        equals(
            "starts that end at the token named", sum(map(int.__eq__, chosen, wanted)), len(wanted)
        ),
        at_least(
            "least cosine to the certified direction", float(np.min(cosines)), config["cosine"]
        ),
        equals(
            "½‖p‖² of the best token",
            float(best[0].upper) ** 2 / 2,
            config["half_square"],
            within=5e-6,
        ),
        equals("locally optimal tokens", sum(local), len(set(wanted))),
        equals(
            "grid starts whose end is not locally optimal", sum(not local[t] for t in map_end), 0
        ),
        at_most("largest certified gap", gap, 1e-9),
    ]
    return Finding(
        tuple(tests),
        f"{len(wanted)} published starts, {len(map_end)} of a grid",
        len(wanted) + len(map_end),
        gap,
    )


def plot(config: Config, result: Result) -> Figure:
    """The paths of the prompt over the tokens, and the map of basins."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    tokens, v = instance(config["example"])
    figure, (left, right) = panels(2)
    keys = np.asarray(tokens.keys)[0]
    best = result["best.W"][:, :, 0]
    for t in sorted(set(config["ends"])):
        ray = best[t] / np.linalg.norm(best[t])
        left.plot(
            [0, 6 * ray[0]],
            [0, 6 * ray[1]],
            "--",
            color=CYCLE[t],
            linewidth=1,
            label=f"certified direction of token {t}",
        )
    early = result["steps"] <= 200
    for b in range(result["p"].shape[1]):
        p = result["p"][early, b]
        t = config["ends"][b]
        first = b == config["ends"].index(t)
        name = f"path that ends at token {t}, from •" if first else None
        left.plot(
            p[:, 0],
            p[:, 1],
            "o-",
            markevery=[0],
            markersize=4,
            color=CYCLE[t],
            linewidth=1.2,
            label=name,
        )
    left.plot(keys[:, 0], keys[:, 1], "k^", markersize=5, label="tokens")
    left.set(xlim=(-2.5, 6), ylim=(-2, 6), xlabel="p₁", ylabel="p₂", title="First 200 steps")
    left.legend(frameon=False, fontsize=7.5)
    start, end = result["map.p"][0], result["map.top"][-1]
    wide = np.linspace(-3.2 * config["reach"], 3.2 * config["reach"], 41)
    for t in sorted(set(config["ends"])):
        held = _held(tokens, v, t, config["lr"], wide)
        if not held.any():
            continue
        right.contourf(
            wide,
            wide,
            held,
            levels=[0.5, 1.5],
            colors=[CYCLE[t]],
            alpha=0.25,
        )
        right.plot([], [], "s", color=CYCLE[t], alpha=0.25, label=f"proved to end at token {t}")
    for t in range(tokens.T):
        here = end == t
        if here.any():
            right.scatter(
                start[here, 0],
                start[here, 1],
                s=4,
                marker="s",
                color=CYCLE[t],
                label=f"ends at token {t}",
            )
    right.set(
        xlabel="p₁ at the start",
        ylabel="p₂ at the start",
        title="Where each start ends",
        aspect="equal",
    )
    right.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _held(tokens: Tokens, v: Any, t: int, lr: float, edge: Floats) -> Floats:
    """1 where a start (p₁, p₂, 0) lies in the certified basin of token t, 0 elsewhere."""
    held = basin(tokens, [t], head=v, lr=lr)
    return np.array([[float(held.holds([x, y, 0.0])) for x in edge] for y in edge])


def motion(config: Config, result: Result) -> Motion:
    """The map of basins as it forms: each start coloured by the token it attends to."""
    steps, start, top = result["map.steps"], result["map.p"][0], result["map.top"]
    frames = frame_choice(steps)
    tracks = [
        Track(
            f"start ({x:.2f}, {y:.2f})",
            [round(float(x), 4)],
            [round(float(y), 4)],
            "".join(str(int(t)) for t in top[frames, b]),
        )
        for b, (x, y, _) in enumerate(start)
    ]
    return Motion(
        "Which token each start attends to",
        [int(steps[f]) for f in frames],
        tracks,
        ["token 0", "token 1", "token 2"],
        "p₁ at the start",
        "p₂ at the start",
        trail=False,
    )


_GLOBAL = {
    "example": "single-input-global",
    "starts": STARTS,
    "ends": [0] * 6,
    "lr": 0.1,
    "steps": 1000,
    "reach": 2.5,
    "grid": 31,
    "cosine": 0.9994,
    "half_square": 0.49505,
}

GLOBAL = Claim(
    id="A.single-input-global",
    title="One input: all starts select the best token",
    kind="figure",
    trust="code",
    statement="On the three-token instance whose other tokens tie, normalized descent on the "
    "prompt ends at the best token from every published start, in the direction of its max-margin "
    "problem.",
    full=_GLOBAL,
    quick={**_GLOBAL, "grid": 15},
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published",
)

_LOCAL = {
    "example": "single-input-local",
    "starts": STARTS,
    "ends": [0, 0, 0, 0, 1, 1],
    "lr": 0.1,
    "steps": 1000,
    "reach": 2.5,
    "grid": 31,
    "cosine": 0.9994,
    "half_square": 0.49505,
}

LOCAL = Claim(
    id="A.single-input-local",
    title="One input: a second token becomes locally optimal",
    kind="figure",
    trust="code",
    statement="With the third token's score at 0 the second token is locally optimal as well, and "
    "starts far enough on its side end there, in the direction of its own max-margin problem.",
    full=_LOCAL,
    quick={**_LOCAL, "grid": 15},
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023maxmargin",
    numbered="notebook",
    size="as published",
)
