"""A: training the weight for a fixed prompt is training the prompt, step for step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.studies.claim import Claim, Config, Finding, Result, at_most
from attsvm.problem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(config: Config, seed: int) -> tuple[Tokens, Tokens, Floats, Floats]:
    """The instance with and without its one query a, the head and a."""
    arrays = sphere_arrays(config["n"], config["T"], config["d"], seed=seed)
    a = np.random.default_rng([seed, 1]).standard_normal((config["d"],))
    with_query = Tokens(arrays["X"], queries=np.tile(a, (config["n"], 1)), labels=arrays["y"])
    return with_query, Tokens(arrays["X"], labels=arrays["y"]), arrays["v"], a


def run(config: Config) -> Result:
    """Plain descent on W for a fixed a with step η, and on q = W a with step η‖a‖²."""
    W, q = [], []
    for seed in config["seeds"]:
        whole, prompt, v, a = _draw(config, seed)
        path = train(
            whole, model="weight", optimizer="gd", head=v, lr=config["lr"], steps=config["steps"]
        )
        twin = train(
            prompt,
            model="prompt",
            optimizer="gd",
            head=v,
            lr=config["lr"] * float(a @ a),
            steps=config["steps"],
        )
        W.append(path.weights["W"][:, 0])
        q.append(twin.weights["p"][:, 0])
    return {"steps": path.steps, "W": np.stack(W), "q": np.stack(q)}


def _errors(config: Config, result: Result) -> tuple[Floats, Floats]:
    """Relative distances (seeds, R) of W a from q, and of W from q aᵀ/‖a‖²."""
    near, form = [], []
    for k, seed in enumerate(config["seeds"]):
        a = _draw(config, seed)[3]
        W, q = result["W"][k], result["q"][k]
        size = np.maximum(np.linalg.norm(q, axis=1), 1e-300)
        near.append(np.linalg.norm(W @ a - q, axis=1) / size)
        rank_one = q[:, :, None] * a / (a @ a)
        form.append(
            np.linalg.norm(W - rank_one, axis=(1, 2))
            / np.maximum(np.linalg.norm(rank_one, axis=(1, 2)), 1e-300)
        )
    return np.array(near), np.array(form)


def check(config: Config, result: Result) -> Finding:
    """W a = q and W = q aᵀ/‖a‖² at every record, to rounding."""
    near, form = _errors(config, result)
    moved = np.linalg.norm(result["q"][:, -1], axis=1).min()
    tests = (
        at_most("largest relative distance of W a from q", near[:, 1:].max(), 1e-12),
        at_most("largest relative distance of W from q aᵀ/‖a‖²", form[:, 1:].max(), 1e-12),
        at_most("1/‖q‖ at the end, largest", 1 / max(moved, 1e-300), 1e3),
    )
    count = len(config["seeds"])
    return Finding(tests, f"{count} random instances, W(0) = 0, fixed a ≠ 0", count, 0.0)


def plot(config: Config, result: Result) -> Figure:
    """The relative distance over the steps, one line per seed."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, level, panels

    figure, (axes,) = panels(1)
    near, form = _errors(config, result)
    for k in range(len(near)):
        axes.loglog(
            result["steps"][1:],
            np.maximum(near[k, 1:], 1e-17),
            color=CYCLE[0],
            label="W a against q, each instance" if k == 0 else None,
        )
        axes.loglog(
            result["steps"][1:],
            np.maximum(form[k, 1:], 1e-17),
            color=CYCLE[1],
            label="W against q aᵀ/‖a‖², each instance" if k == 0 else None,
        )
    level(axes, 1e-12, "asked: 1e-12")
    axes.set(xlabel="step", ylabel="relative distance", title="Weight and prompt, step for step")
    axes.legend(frameon=False)
    return figure


_FULL = {"n": 4, "T": 5, "d": 6, "seeds": list(range(10)), "lr": 0.1, "steps": 300}

CLAIM = Claim(
    id="A.prompt-weight-equivalence",
    title="Training the weight is training the prompt",
    kind="theorem",
    trust="derived",
    statement="For a fixed nonzero prompt a, plain descent on the weight moves along a only: "
    "q = W a follows plain descent on the prompt problem with step η‖a‖², and W = q aᵀ/‖a‖², at "
    "every step.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 1, 2]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
