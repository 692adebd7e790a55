"""Beyond: attention cannot saturate before the norm that its selection needs can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.random_instances import stacked
from attsvm.experiments.studies.shared.saturation import (
    first_saturated,
    least_steps,
    needed_lead,
    top_attention,
)
from attsvm.experiments.studies.shared.spaced_instances import picks, problems
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.outcome import DECIDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Place = tuple[float, float]  # decay, step size


def _places(config: Config) -> list[Place]:
    return [(decay, lr) for decay in config["decays"] for lr in config["lrs"]]


def _name(place: Place) -> str:
    return f"decay {place[0]:g} lr {place[1]:g}"


def _drawn(config: Config) -> tuple[list[Tokens], Floats]:
    return stacked(config["shape"], seeds_of(config))


def run(config: Config) -> Result:
    """Of every run its first saturated record and its last, and the solution at the first."""
    stack, heads = _drawn(config)
    every = range(len(stack))
    out: Result = {}
    for place in _places(config):
        name, (decay, lr) = _name(place), place
        path = train(
            stack, head=heads, optimizer="ngd", lr=lr, decay=decay, steps=_steps(config, lr)
        )  # fmt: skip
        seen = first_saturated(path)
        first = np.searchsorted(path.steps, seen.at)
        W = path.matrices()
        out[f"{name}.at"] = path.steps[first]
        out[f"{name}.W"] = np.stack([W[first, every], W[-1]])
        keep = picks(stack, out[f"{name}.W"][0])
        out |= saved_solutions(f"{name}.best", solve_many(problems(stack, keep)))
    return out


def _steps(config: Config, lr: float) -> int:
    """So many steps that lr times their number is the same for every lr."""
    return round(config["way"] / lr)


class SaturationValues(NamedTuple):
    """Of the runs at one place: whether they saturate (B,), when, and the least time that their
    certificates allow (B,); how many are too long for their decay; the certificates."""

    yes: Bools
    at: Floats
    least: Floats
    long: int
    certificates: list[Certificate]


def _seen(config: Config, result: Result, place: Place) -> SaturationValues:
    stack, _ = _drawn(config)
    name, (decay, lr) = _name(place), place
    W, at = result[f"{name}.W"], result[f"{name}.at"].astype(np.float64)
    found = recertified(f"{name}.best", problems(stack, picks(stack, W[0])), "frobenius", result)
    norms = np.array([float(c.lower) if np.isfinite(c.upper) else np.nan for c in found])
    ends = np.stack([at, np.full(len(at), float(_steps(config, lr)))])
    left = (1 - decay * lr) ** ends
    most = (1 - left) / decay if decay else lr * ends
    size = np.linalg.norm(W, axis=(2, 3))
    return SaturationValues(
        top_attention(stack, W[0]) >= DECIDED,
        at,
        np.array([least_steps(N, lr=lr, decay=decay) for N in norms]),
        int((size > most * (1 + 1e-9)).sum()),
        found,
    )


def check(config: Config, result: Result) -> Finding:
    """No run saturates before its certified least time, and most do soon after."""
    seen = {place: _seen(config, result, place) for place in _places(config)}
    every = [c for s in seen.values() for c in s.certificates]
    gap = worst_gap([c for c in every if np.isfinite(c.upper)])
    early = sum(int((s.at[s.yes] < s.least[s.yes]).sum()) for s in seen.values())
    forbidden = sum(int(np.isinf(s.least).sum()) for s in seen.values())
    ratios = {place: float(np.median((s.at / s.least)[s.yes])) if s.yes.any() else np.nan
              for place, s in seen.items()}  # fmt: skip
    tests: list[Test] = [
        equals("runs that saturate before the least time of their selection", early, 0),
        equals("weights longer than their steps allow", sum(s.long for s in seen.values()), 0),
        equals("selections without a certified norm", sum(c.W is None for c in every), 0),
        at_least("selections that their decay forbids to saturate", forbidden, 1),
        *(noted(f"{_name(p)}: share that saturates", float(s.yes.mean())) for p, s in seen.items()),
        *(noted(f"{_name(p)}: median time over the least", r) for p, r in ratios.items()),
        at_most("largest of these medians", np.nanmax(list(ratios.values())), config["slow"]),
    ]
    free = {lr: seen[0.0, lr] for lr in config["lrs"]}
    ways = [float(np.median(s.at * lr)) for lr, s in free.items()]
    tests += [
        at_least("without decay: share that saturates", min(s.yes.mean() for s in free.values()),
                 0.9),
        at_most("without decay: largest ratio of median way lr · time between step sizes",
                max(ways) / min(ways), 1.25),
    ]  # fmt: skip
    strong = config["slowing"]
    for lr in config["lrs"]:
        both = free[lr].yes & seen[strong, lr].yes
        later = (
            float(np.median((seen[strong, lr].at / free[lr].at)[both])) if both.any() else np.nan
        )
        tests.append(at_least(f"lr {lr:g}: median time with decay {strong:g} over without", later,
                              1.1))  # fmt: skip
    tests.append(at_most("largest certified gap", gap, norm_of("frobenius").tolerance))
    premises = (
        f"{len(every)} runs of normalized descent from zero on (n, T, d) = "
        f"{tuple(config['shape'])}; a lead of {needed_lead():.2f} is attention {DECIDED:g}"
    )
    return Finding(tuple(tests), premises, len(every), gap)


def plot(config: Config, result: Result) -> Figure:
    """The way to saturation over the step size, and each run's time over its least."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    figure, axes = panels(2)
    for k, decay in enumerate(config["decays"]):
        rows = [_seen(config, result, (decay, lr)) for lr in config["lrs"]]
        label = f"decay {decay:g}"
        ways = np.stack([np.where(s.yes, s.at, np.nan) for s in rows])
        ways *= np.array(config["lrs"])[:, None]
        if np.isfinite(ways).any(axis=1).all():
            band(axes[0], config["lrs"], ways, colour=CYCLE[k], label=label)
        for s in rows:
            here = s.yes & np.isfinite(s.least)
            axes[1].plot(s.least[here], s.at[here], ".", color=CYCLE[k], alpha=0.6)
    ends = np.array(axes[1].get_xlim())
    low = max(float(ends[0]), 1.0)
    axes[1].plot([low, ends[1]], [low, ends[1]], color="0.4", linewidth=1, label="least time")
    axes[0].set(xscale="log", xlabel="step size", ylabel="step size × steps to saturation",
                title="The way to saturation")  # fmt: skip
    axes[1].set(xscale="log", yscale="log", xlabel="least number of steps, certified",
                ylabel="steps to saturation", title="No run is earlier")  # fmt: skip
    axes[0].legend(frameon=False, fontsize=7.5, loc="upper left")
    axes[1].legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


_FULL = {
    "shape": [6, 8, 10],
    "seeds": 30,
    # The last forbids most selections to saturate; with the one before it runs are slower.
    "decays": [0.0, 0.01, 0.03, 0.1],
    "slowing": 0.03,
    "lrs": [0.03, 0.1, 0.3, 1.0],
    # lr times the number of steps.
    "way": 300.0,
    "slow": 3.0,
}

CLAIM = Claim(
    id="beyond.saturation-time",
    title="Attention saturates at the earliest when its norm can have been reached",
    kind="question",
    trust="derived",
    statement="Attention s on one token of every input needs ‖W‖ ≥ log(s/(1 − s)) N, N the least "
    "norm of the selection. So steps of norm η from zero take at least log(s/(1 − s)) N/η steps to "
    "saturate, or log(1 − λN log(s/(1 − s)))/log(1 − λη) with decay λ, and never do where that is "
    "no number. Runs of normalized descent take in the median at most three times as long, and "
    "their way η · steps does not depend on η.",
    full=_FULL,
    quick={**_FULL, "seeds": 8, "decays": [0.0, 0.03, 0.1], "lrs": [0.3, 1.0], "way": 200.0},
    run=run,
    check=check,
    plot=plot,
)
