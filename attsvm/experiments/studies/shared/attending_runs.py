"""Trained weights against the problem of what they select, for any way of making queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Config, Finding, Result, Test, at_least, at_most, noted
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    share,
    worst_gap,
)
from attsvm.experiments.studies.shared.random_instances import standing
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The instances of a config and their heads (B, d).
Instances = Callable[[Config], tuple[list[Tokens], Floats]]


def selected_problems(stack: list[Tokens], W: Floats) -> list[Problem]:
    """The problem of the tokens that each W (B, d, dq) attends to most."""
    return [
        Problem.of(tokens, Selection.of(tokens, selected(tokens, M)))
        for tokens, M in zip(stack, W, strict=True)
    ]


def measured(config: Config, stack: list[Tokens], heads: Floats, name: str) -> Result:
    """Normalized descent from a uniform start, thinned, and the problems of what it selects."""
    path = train(
        stack,
        head=heads,
        lr=config["lr"],
        steps=config["steps"],
        init="uniform",
        seed=config["start"],
    )
    rows = np.unique(np.linspace(0, len(path.steps) - 1, 24).round().astype(int))
    W = path.weights["W"][rows]
    best = [solve(problem) for problem in selected_problems(stack, W[-1])]
    return {
        f"{name}.steps": path.steps[rows],
        f"{name}.W": W,
        **saved_solutions(f"{name}.best", best),
    }


def judged(
    config: Config, stack: list[Tokens], heads: Floats, name: str, result: Result
) -> tuple[list[Test], list[Certificate]]:
    """The tests on one family of runs, and its recertified solutions."""
    W = result[f"{name}.W"]
    best = recertified(f"{name}.best", selected_problems(stack, W[-1]), "frobenius", result)
    places = Counter(
        standing(tokens, v, M)[0] for tokens, v, M in zip(stack, heads, W[-1], strict=True)
    )
    count = len(stack)
    cosines = [cosine(M, c) for M, c in zip(W[-1], best, strict=True)]
    shares = [share(M, c) for M, c in zip(W[-1], best, strict=True)]
    tests = [
        at_least(
            f"{name}: mean correlation to the solution of the selected tokens",
            float(np.mean(cosines)),
            config["correlation"],
        ),
        at_least(
            f"{name}: share of runs that end at locally optimal tokens",
            (places["global"] + places["local"]) / count,
            config["local"],
        ),
        noted(f"{name}: share of runs that end at the best tokens", places["global"] / count),
        noted(
            f"{name}: runs saturated on tokens that are not locally optimal", places["saturated"]
        ),
        noted(f"{name}: runs undecided or unknown", places["undecided"] + places["unknown"]),
        noted(f"{name}: mean certified margin share", float(np.mean(shares))),
    ]
    return tests, best


def runner(families: Mapping[str, Instances]) -> Callable[[Config], Result]:
    """run() over named families of instances."""

    def run(config: Config) -> Result:
        out: Result = {}
        for name, instances in families.items():
            out |= measured(config, *instances(config), name)
        return out

    return run


def checker(families: Mapping[str, Instances]) -> Callable[[Config, Result], Finding]:
    """check() over the same families."""

    def check(config: Config, result: Result) -> Finding:
        tests: list[Test] = []
        gap, count = 0.0, 0
        for name, instances in families.items():
            stack, heads = instances(config)
            found, best = judged(config, stack, heads, name, result)
            tests += found
            gap = max(gap, worst_gap(best))
            count += len(stack)
        tests.append(at_most("largest certified gap", gap, 1e-8))
        return Finding(
            tuple(tests),
            f"{count} runs, each with the problem of the tokens it selects at the end",
            count,
            gap,
        )

    return check


def plotter(names: list[str]) -> Callable[[Config, Result], Figure]:
    """plot(): 1 − correlation over the steps, one curve a family."""

    def plot(config: Config, result: Result) -> Figure:
        from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

        figure, (left, right) = panels(2)
        for k, name in enumerate(names):
            W, best = result[f"{name}.W"], result[f"{name}.best.W"]
            norms = np.linalg.norm(W, axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
            away = 1 - np.einsum("rbij,bij->rb", W, best) / norms
            steps = np.maximum(result[f"{name}.steps"], 0.5)
            band(left, steps, away, colour=CYCLE[k], label=name)
            right.plot(np.sort(away[-1]), np.linspace(0, 1, len(best)), color=CYCLE[k], label=name)
        left.set(
            xscale="log",
            yscale="log",
            xlabel="step",
            ylabel="1 − correlation (median, middle half)",
            title="Direction",
        )
        right.set(
            xscale="log",
            xlabel=f"1 − correlation at step {config['steps']}",
            ylabel="share of runs below",
            title="At the end",
        )
        left.legend(frameon=False, fontsize=7.5, loc="lower left")
        return figure

    return plot
