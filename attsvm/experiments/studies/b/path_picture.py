"""B: W z of two inputs moves along the lines of the max-margin problem, in two pictures."""

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
from attsvm.experiments.studies.shared.random_instances import standing
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The model, its blocks, and the norm of its limit.
MODELS = {"weight": "frobenius", "factored": "nuclear"}


def instance(name: str) -> tuple[Tokens, Any]:
    """Tokens and head of the published draw."""
    arrays = EXAMPLES[name]()
    return Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"]), arrays["v"]


def run(config: Config) -> Result:
    """Normalized descent on W from 0, and on K, Q from Q = 0 and a small random K."""
    tokens, v = instance(config["example"])
    K = 0.1 * np.random.default_rng(config["seed"]).standard_normal((2, 2))
    starts: dict[str, dict[str, Any]] = {
        "weight": {"W": np.zeros((2, 2))},
        "factored": {"K": K, "Q": np.zeros((2, 2))},
    }
    out: Result = {}
    for model, norm in MODELS.items():
        path = train(
            tokens, model=model, head=v, lr=config["lr"], steps=config["steps"], init=starts[model]
        )
        out |= {f"{model}.steps": path.steps}
        out |= {f"{model}.{name}": block[:, 0] for name, block in path.weights.items()}
        keep = Selection.of(tokens, path.selection[0])
        out |= saved_solutions(f"{model}.best", [solve(Problem.of(tokens, keep), norm)])
    return out


def matrices(model: str, result: Result) -> Floats:
    """W of each record (R, 2, 2)."""
    if model == "weight":
        return result["weight.W"]
    return result["factored.K"] @ result["factored.Q"].transpose(0, 2, 1)


def check(config: Config, result: Result) -> Finding:
    """Each model keeps locally optimal tokens, in the direction of its own norm's problem."""
    tokens, v = instance(config["example"])
    tests, gaps = [], []
    for model, norm in MODELS.items():
        W = matrices(model, result)[-1]
        keep = Selection.of(tokens, selected(tokens, W))
        best = recertified(f"{model}.best", [Problem.of(tokens, keep)], norm, result)[0]
        gaps.append(worst_gap([best]))
        where, _ = standing(tokens, v, W, norm)
        tests += [
            equals(
                f"{model}: attention rests on locally optimal tokens (1: yes)",
                float(where in ("global", "local")),
                1,
            ),
            at_least(
                f"{model}: correlation to the certified {norm} solution",
                cosine(W, best),
                config["correlation"],
            ),
        ]
        for i in range(tokens.n):
            z = tokens.queries[i]
            limit = np.full(2, np.nan) if best.W is None else best.W @ z
            angle = cosine_of(limit, W @ z)
            tests.append(
                at_least(
                    f"{model}: cosine of W z to its line, input {i}", angle, config["correlation"]
                )
            )
    tests.append(at_most("largest certified gap", max(gaps), 1e-6))
    return Finding(
        tuple(tests),
        "the published draw, start W = 0, and Q = 0 with a random K of "
        "deviation 0.1 (the published K is not seeded alone)",
        2,
        max(gaps),
    )


def drawn_in(points: Floats) -> Floats:
    """Points (..., 2) with radius r moved to log(1 + r): angles stay, and far ends are in sight."""
    radius = np.linalg.norm(points, axis=-1, keepdims=True)
    return points * np.divide(np.log1p(radius), radius, out=np.ones_like(radius), where=radius > 0)


def plot(config: Config, result: Result) -> Figure:
    """The moving W z of both inputs over the tokens, and the correlations over the steps."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    tokens, _ = instance(config["example"])
    figure, axes = panels(3)
    X = np.asarray(tokens.X)
    for ax, (model, norm) in zip(axes, MODELS.items(), strict=False):
        W, steps = matrices(model, result), result[f"{model}.steps"]
        best = result[f"{model}.best.W"][0]
        for i in range(tokens.n):
            z = tokens.queries[i]
            path, ray = drawn_in(W @ z), best @ z / np.linalg.norm(best @ z)
            reach = np.linalg.norm(path, axis=1).max()
            ax.plot(
                [0, reach * ray[0]],
                [0, reach * ray[1]],
                "--",
                color=CYCLE[i],
                linewidth=1,
                label=f"certified W z, input {i}",
            )
            ax.plot(*path.T, color=CYCLE[i], linewidth=1.4, label=f"trained W z, input {i}")
            top = int(selected(tokens, W[-1])[i])
            ax.plot(*drawn_in(X[i]).T, "^", color=CYCLE[i], markersize=4)
            ax.plot(*drawn_in(X[i, top]), "*", color=CYCLE[i], markersize=10)
        ax.set(
            xlabel="first coordinate, radius as log(1 + r)",
            title=f"{model}, {config['steps']} steps",
        )
        ax.axis("equal")
        away = [1 - cosine_of(M, best) for M in W[1:]]
        axes[2].loglog(
            steps[1:], away, label=f"{model}, {norm}", color=CYCLE[2 + list(MODELS).index(model)]
        )
    axes[0].set_ylabel("second coordinate (▲ tokens, ★ selected)")
    axes[0].legend(
        frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2
    )
    axes[2].set(xlabel="step", ylabel="1 − correlation to the certified W", title="Direction")
    axes[2].legend(frameon=False, fontsize=7.5)
    return figure


def cosine_of(A: Floats, B: Floats) -> float:
    """⟨A, B⟩/(‖A‖‖B‖), nan for a zero matrix."""
    size = float(np.linalg.norm(A) * np.linalg.norm(B))
    return float(np.vdot(A, B)) / size if size > 0 else float("nan")


def motion(config: Config, result: Result) -> Motion:
    """W z of both inputs under both models as they move."""
    tokens, _ = instance(config["example"])
    steps = result["weight.steps"]
    frames = frame_choice(steps, 90)
    tracks, lines = [], []
    for k, model in enumerate(MODELS):
        W, best = matrices(model, result), result[f"{model}.best.W"][0]
        for i in range(tokens.n):
            path = drawn_in(W[frames] @ tokens.queries[i])
            tracks.append(
                Track(
                    f"{model}, input {i}",
                    [round(float(x), 4) for x in path[:, 0]],
                    [round(float(y), 4) for y in path[:, 1]],
                    str(k),
                )
            )
            ray = best @ tokens.queries[i]
            ray = ray / np.linalg.norm(ray) * np.linalg.norm(path, axis=1).max()
            lines.append(
                (f"certified W z, {model}, input {i}", [0.0, float(ray[0])], [0.0, float(ray[1])])
            )
    X = drawn_in(np.asarray(tokens.X))
    points = [
        (f"token {t} of input {i}", float(X[i, t, 0]), float(X[i, t, 1]))
        for i in range(tokens.n)
        for t in range(tokens.T)
    ]
    return Motion(
        "W z of both inputs, radius drawn as log(1 + r)",
        [int(s) for s in steps[frames]],
        tracks,
        list(MODELS),
        "first coordinate",
        "second coordinate",
        lines=lines,
        points=points,
    )


_FIRST = {
    "example": "path-picture-1",
    "lr": 0.1,
    "steps": 2000,
    "seed": 0,
    "correlation": 0.99,
}

FIRST = Claim(
    id="B.path-picture-1",
    title="Paths in the plane: two clouds of three tokens",
    kind="figure",
    trust="code",
    statement="On the published draw with two clouds of three tokens, normalized descent moves W z "
    "of each input onto the line that the max-margin problem of the selected tokens names: the "
    "Frobenius problem for the weight, the nuclear one for the factors.",
    full=_FIRST,
    quick=_FIRST,
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023svm",
    numbered="code: visualization1",
    size="as published",
)

_SECOND = {
    "example": "path-picture-2",
    "lr": 0.1,
    "steps": 2000,
    "seed": 0,
    "correlation": 0.99,
}

SECOND = Claim(
    id="B.path-picture-2",
    title="Paths in the plane: five tokens per input",
    kind="figure",
    trust="code",
    statement="On the published draw with five tokens per input, normalized descent moves W z of "
    "each input onto the line that the max-margin problem of the selected tokens names: the "
    "Frobenius problem for the weight, the nuclear one for the factors.",
    full=_SECOND,
    quick=_SECOND,
    run=run,
    check=check,
    plot=plot,
    motion=motion,
    reference="tarzanagh2023svm",
    numbered="code: visualization2",
    size="as published",
)
