"""Beyond: under decoupled weight decay logits have a ceiling, known beforehand."""

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
    Test,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.mirror_runs import thinned
from attsvm.experiments.studies.shared.proof import worst_gap
from attsvm.experiments.studies.shared.steepest_runs import certified, drawn, solutions
from attsvm.norms import norm_of
from attsvm.training.models import model_of
from attsvm.training.optimizers import schedule_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Model and optimizer: the norm of a block's step, and the norm of W in which the gap is bounded.
CASES = {
    "weight ngd": ("frobenius", "frobenius"),
    "weight sign": ("max", "max"),
    "weight spectral": ("spectral", "spectral"),
    "factored ngd": ("frobenius", "nuclear"),
    "factored spectral": ("spectral", "spectral"),
}
NORMS = ("frobenius", "max", "spectral", "nuclear")


def run(config: Config) -> Result:
    """Every optimizer with and without decay, and the solutions in each norm."""
    tokens, heads, _ = drawn(config)
    out = solutions(config, NORMS)
    for case in CASES:
        model, optimizer = case.split()
        for name, decay in (("decay", config["decay"][model]), ("free", 0.0)):
            path = train(
                tokens,
                model=model,
                optimizer=optimizer,
                head=heads,
                loss="linear",
                lr=config["lr"][model],
                decay=decay,
                steps=config["steps"],
                schedule="sqrt",
                seed=config["seed"],
            )
            keep = thinned(path.steps)
            out[f"{case}.{name}.steps"] = path.steps[keep]
            out |= {f"{case}.{name}.{k}": block[keep] for k, block in path.weights.items()}
    return out


def _blocks(result: Result, case: str, name: str) -> dict[str, Floats]:
    """The blocks (R, B, ...) of a run."""
    names = ("W",) if case.startswith("weight") else ("K", "Q")
    return {block: result[f"{case}.{name}.{block}"] for block in names}


def _gaps(config: Config, result: Result, case: str, name: str) -> Floats:
    """The least selection gap (R, B): the least logit lead of a best token."""
    problems = drawn(config)[2]
    blocks = _blocks(result, case, name)
    model = model_of(case.split()[0])
    records = range(len(result[f"{case}.{name}.steps"]))
    W = np.stack([model.matrix({k: a[r] for k, a in blocks.items()}) for r in records])
    return np.array([[float(p.margins(row[b]).min()) for b, p in enumerate(problems)] for row in W])


def _radii(config: Config, result: Result, case: str, name: str = "decay") -> dict[str, Floats]:
    """R_t (R, B) of each block: ‖θ₀‖ Π + (1 − Π)/λ, Π = Π_s (1 − λη_s), in the step's norm.

    Without decay ‖θ₀‖ + Σ_s η_s.
    """
    model = case.split()[0]
    decay, norm = config["decay"][model], norm_of(CASES[case][0])
    eta = config["lr"][model] * np.array([schedule_of("sqrt")(s) for s in range(config["steps"])])
    steps = result[f"{case}.{name}.steps"]
    if name == "free":
        left, added = np.ones((len(steps), 1)), np.cumsum([0.0, *eta])[steps][:, None]
    else:
        left = np.cumprod([1.0, *(1 - decay * eta)])[steps][:, None]
        added = (1 - left) / decay
    return {
        block: left * np.asarray(norm.value(a[0])) + added
        for block, a in _blocks(result, case, name).items()
    }


def ceilings(config: Config, result: Result, case: str) -> Floats:
    """The ceiling (R, B) on the least selection gap: γ* Π R_t, γ* = 1/lower bound of the norm."""
    best = certified(config, result, (CASES[case][1],))[CASES[case][1]]
    lowest = np.array([float(c.lower) for c in best])
    return np.prod(list(_radii(config, result, case).values()), axis=0) / lowest


def check(config: Config, result: Result) -> Finding:
    """Norms and gaps stay below their bounds at every record, and end near them."""
    best = certified(config, result, NORMS)
    gap = max(worst_gap(c) for c in best.values())
    tests: list[Test] = []
    for case, (step, _) in CASES.items():
        radii = _radii(config, result, case)
        norm = norm_of(step)
        over = max(
            float((np.stack([np.asarray(norm.value(M)) for M in a[1:]]) / radii[block][1:]).max())
            for block, a in _blocks(result, case, "decay").items()
        )
        ceiling = ceilings(config, result, case)
        held, free = (_gaps(config, result, case, name) for name in ("decay", "free"))
        half = int(np.argmax(result[f"{case}.decay.steps"] >= config["steps"] / 2))
        loose = int(np.argmax(result[f"{case}.free.steps"] >= config["steps"] / 2))
        reach = np.prod(list(_radii(config, result, case, "free").values()), axis=0)
        near = config["attained"]
        grown = (held[-1] / held[half]) / (ceiling[-1] / ceiling[half])
        went = (free[-1] / free[loose]) / (reach[-1] / reach[loose])
        tests += [
            at_most(f"{case}: largest norm over its bound R_t", over, 1 + 1e-9),
            at_most(
                f"{case}: largest gap over its ceiling",
                float((held[1:] / ceiling[1:]).max()),
                1 + 1e-9,
            ),
            at_least(
                f"{case}: median gap over its ceiling at the end",
                float(np.median(held[-1] / ceiling[-1])),
                near,
            ),
            noted(f"{case}: runs that select the best tokens", int((held[-1] > 0).sum())),
            noted(
                f"{case}: growth of the gap over the second half, with decay",
                float(np.median(held[-1] / held[half])),
            ),
            # It stops where the ceiling does, and goes on with the bound ‖θ₀‖ + Σ η without one,
            # about √2 for a weight and 2 for factors.
            at_most(
                f"{case}: the same over the growth of the ceiling",
                float(np.median(grown)),
                1 / near,
            ),
            at_least(
                f"{case}: without decay, the same over the growth of ‖θ₀‖ + Σ η",
                float(np.median(went)),
                near,
            ),
            at_least(
                f"{case}: growth without decay over that with it",
                float(np.median(free[-1] / free[loose]) / np.median(held[-1] / held[half])),
                1.0,
            ),
        ]
    tests.append(at_most("largest certified gap", gap, norm_of("nuclear").tolerance))
    count = len(config["seeds"]) * len(CASES)
    premises = f"{count} runs of optimizers whose steps have norm η, separable at the best tokens"
    return Finding(tuple(tests), premises, count, gap)


def plot(config: Config, result: Result) -> Figure:
    """The least selection gap over its last ceiling, with and without decay."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, axes = panels(len(CASES), sharey=True, figsize=(12, 4.2))
    for k, case in enumerate(CASES):
        top = ceilings(config, result, case)
        steps = result[f"{case}.decay.steps"]
        for j, (name, label) in enumerate((("decay", "with decay"), ("free", "without decay"))):
            gaps = _gaps(config, result, case, name) / top[-1]
            axes[k].plot(
                result[f"{case}.{name}.steps"], np.median(gaps, axis=1), color=CYCLE[j], label=label
            )
        axes[k].plot(steps, np.median(top / top[-1], axis=1), "k--", linewidth=1, label="ceiling")
        axes[k].set(xlabel="step", title=case, ylim=(-0.1, 1.6))
    axes[0].set_ylabel("least selection gap / last ceiling (median)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


_FULL = {
    # Near: nine tenths.
    "seeds": list(range(10)),
    "seed": 1,
    "steps": 6000,
    "attained": 0.9,
    "lr": {"weight": 1.0, "factored": 0.3},
    "decay": {"weight": 0.02, "factored": 0.1},
}

CLAIM = Claim(
    id="beyond.logit-ceiling",
    title="Weight decay puts a ceiling on logits",
    kind="question",
    trust="derived",
    statement="For an optimizer whose steps have norm η, decoupled decay λ keeps the parameters "
    "below "
    "R = ‖θ₀‖Π(1−λη) + (1 − Π(1−λη))/λ in that norm, so the least selection gap never exceeds "
    "the best margin times R (times R_K R_Q for factors). With steps falling like t^−½ runs come "
    "near this ceiling and stop there, while without decay the logits go on growing. With "
    "constant steps they stop lower: sign descent at .70 of it, factors at .74 to .80.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": list(range(3)),
        "steps": 1500,
        "decay": {"weight": 0.04, "factored": 0.2},
    },
    run=run,
    check=check,
    plot=plot,
)
