"""B: from d = max(T − 1, n) on, every selection can be separated."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.claims.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.claims.shared.work import solve_many
from attsvm.errors import ConvergenceWarning
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("cross", "self")


def _problems(config: Config, kind: str, n: int, T: int, d: int) -> list[Problem]:
    """One random selection per seed; smaller d keep the first coordinates of one Gaussian draw.

    What is separable in d coordinates is so in d + 1: W gets a row and a column of zeros.
    """
    out = []
    for seed in seeds_of(config):
        draw = np.random.default_rng([seed, n, T])
        X = draw.standard_normal((n, T, max(config["dimensions"])))[:, :, :d]
        z = draw.standard_normal((n, max(config["dimensions"])))[:, :d]
        alpha = draw.integers(0, T, n)
        tokens = Tokens(X, queries="first" if kind == "self" else z)
        out.append(Problem.of(tokens, Selection.of(tokens, alpha)))
    return out


def run(config: Config) -> Result:
    """A solution or a proof that there is none, for every kind, size, dimension and seed."""
    out: Result = {}
    for kind in KINDS:
        for n, T in config["sizes"]:
            for d in config["dimensions"]:
                with warnings.catch_warnings():
                    # Near the edge of separability a solution need not be short, only separate.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    found = solve_many(_problems(config, kind, n, T, d))
                out |= saved_solutions(f"{kind}.{n}.{T}.{d}", found)
    return out


def check(config: Config, result: Result) -> Finding:
    """Nothing is infeasible from the bound on, and nothing feasible becomes infeasible."""
    tests: list[Test] = []
    unknown = beyond = lost = total = 0
    gap = 0.0
    for kind in KINDS:
        for n, T in config["sizes"]:
            before = np.zeros(config["seeds"], dtype=bool)
            first = np.inf
            for d in config["dimensions"]:
                found = recertified(
                    f"{kind}.{n}.{T}.{d}", _problems(config, kind, n, T, d), "frobenius", result
                )
                # A W with positive margins is the proof; how short it is does not matter here.
                can = np.array([np.isfinite(c.upper) for c in found])
                proved = np.array([c.proof == "exact" for c in found])
                total += len(found)
                unknown += int((~can & ~proved).sum())
                beyond += int((~can).sum()) if d >= max(T - 1, n) else 0
                lost += int((before & ~can).sum())
                gap = max(gap, worst_gap([c for c in found if np.isfinite(c.upper)]))
                before = can
                if can.all():
                    first = min(first, d)
            tests.append(
                noted(
                    f"{kind}-attention, n = {n}, T = {T}: least d with all separable "
                    f"(bound {max(T - 1, n)})",
                    first,
                )
            )
    tests += [
        equals("inseparable at d ≥ max(T − 1, n)", beyond, 0),
        equals("separable in d coordinates but not in more of them", lost, 0),
        # Next to the edge of separability rounding decides nothing: one in a thousand may be there.
        # From the bound on such an instance counts as inseparable.
        at_most("neither solved nor proved inseparable, share", unknown / total, 1e-3),
        noted("largest certified gap", gap),
    ]
    return Finding(
        tuple(tests), f"{total} instances of Gaussian tokens, one random selection each", total, gap
    )


def plot(config: Config, result: Result) -> Figure:
    """The share of separable instances over d, with the bound of each size."""
    from attsvm.claims.shared.drawing import CYCLE, panels

    figure, axes = panels(2, sharey=True)
    for ax, kind in zip(axes, KINDS, strict=True):
        for k, (n, T) in enumerate(config["sizes"]):
            shares = [
                float(np.mean(~np.isnan(result[f"{kind}.{n}.{T}.{d}.W"]).any(axis=(1, 2))))
                for d in config["dimensions"]
            ]
            ax.plot(config["dimensions"], shares, ".-", color=CYCLE[k], label=f"n = {n}, T = {T}")
            ax.axvline(max(T - 1, n) + 0.05 * (k - 2), color=CYCLE[k], linestyle=":", linewidth=1)
        ax.set(xlabel="d", title=f"{kind.capitalize()}-attention")
    axes[0].set_ylabel("share of separable instances")
    axes[1].legend(
        frameon=False,
        fontsize=7.5,
        title="dotted: max(T − 1, n)",
        title_fontsize=7.5,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )
    return figure


_FULL = {
    "sizes": [[5, 5], [10, 5], [15, 5], [5, 10], [5, 15]],
    "dimensions": list(range(1, 18)),
    "seeds": 60,
}

CLAIM = Claim(
    id="B.separability-against-dimension",
    title="Every selection can be separated from some dimension on",
    kind="theorem",
    trust="as recalled",
    statement="With d ≥ max(T − 1, n), almost every dataset can be separated for every selection, "
    "in cross-attention and with the first token as query. The bound suffices and is far from "
    "needed.",
    full=_FULL,
    quick={"sizes": [[5, 5], [10, 5], [5, 10]], "dimensions": [1, 2, 3, 4, 6, 8, 10], "seeds": 30},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
