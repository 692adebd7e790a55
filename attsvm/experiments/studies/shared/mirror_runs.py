"""Normalized mirror descent in several exponents on the same instances: what two claims share.

Each exponent p has its own run, its own selected tokens, and its own certified ℓp solution at
those tokens; the p-run is compared with the solutions of all exponents by the directional
divergence in exponent p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Config, Result
from attsvm.experiments.studies.shared.proof import (
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.experiments.studies.shared.published import published_stack
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import bregman

# Records of each run that are kept, evenly spread over the log-spaced grid.
_KEPT = 40


def norm_name(p: str) -> str:
    """The name of the entrywise norm of exponent p."""
    return "frobenius" if float(p) == 2 else f"l{p}"


def problems(tokens: Sequence[Tokens], W: Floats) -> list[Problem]:
    """The problem of each instance at the tokens that W (B, d, dq) selects."""
    return [Problem.of(t, Selection.of(t, selected(t, W[b]))) for b, t in enumerate(tokens)]


def thinned(steps: Ints, most: int = _KEPT) -> list[int]:
    """Up to `most` records, evenly spread over the grid, the first and the last included."""
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    return [int(k) for k in places]


def run(config: Config) -> Result:
    """Each exponent's run from the same W(0), and the solutions at the tokens it ends with.

    own_starts: exponents that are run a second time, from a W(0) of another seed.
    """
    tokens, heads = published_stack(config["seeds"])
    out: Result = {}
    for p, steps in config["steps"].items():
        path = train(
            tokens,
            optimizer=f"nmirror:{p}",
            head=heads,
            lr=config["lr"],
            steps=steps,
            init=config["init"],
            seed=config["seed"],
        )
        keep = thinned(path.steps)
        W = path.matrices()[keep]
        out |= {f"{p}.steps": path.steps[keep], f"{p}.W": W}
        out |= saved_solutions(f"{p}.best", solve_many(problems(tokens, W[-1]), norm_name(p)))
    for p, seed in config["own_starts"].items():
        path = train(
            tokens,
            optimizer=f"nmirror:{p}",
            head=heads,
            lr=config["lr"],
            steps=config["steps"][p],
            init=config["init"],
            seed=seed,
        )
        W = path.matrices()[-1:]
        out |= {f"{p}.own.W": W}
        out |= saved_solutions(f"{p}.own.best", solve_many(problems(tokens, W[-1]), norm_name(p)))
    return out


@dataclass(frozen=True)
class ComparedDescent:
    """The runs of all exponents, recomputed from their weights and recertified solutions.

    alpha[p] (B, n): the tokens selected; divergence[p, q] (R, B): of the p-iterates from the ℓq
    solution at the tokens of the q-run, nan where none is certified; agree (B,): all exponents
    have selected the same tokens; gap: the largest of all certified gaps. "p.own" stands for the
    run of exponent p from its own start.
    """

    alpha: dict[str, Ints]
    divergence: dict[tuple[str, str], Floats]
    agree: Bools
    gap: float

    @property
    def exponents(self) -> list[str]:
        """The exponents, each with its run from the shared start."""
        return list(dict.fromkeys(p for p, _ in self.divergence))

    def own_nearest(self, p: str, rows: Bools) -> float:
        """The share of these instances in which the p-iterate ends nearest to the ℓp solution."""
        own = self.divergence[p, p][-1][rows]
        others = [self.divergence[p, q][-1][rows] for q in self.exponents if q != p]
        return float((own < np.min(others, axis=0)).mean()) if rows.any() else float("nan")


def compared(config: Config, result: Result) -> ComparedDescent:
    """The Compared of a result."""
    tokens, _ = published_stack(config["seeds"])
    exponents = list(config["steps"])
    alpha, found = {}, {}
    for name in (*exponents, *(f"{p}.own" for p in config["own_starts"])):
        W, p = result[f"{name}.W"][-1], name.removesuffix(".own")
        alpha[name] = np.stack([selected(t, W[b]) for b, t in enumerate(tokens)])
        found[name] = recertified(f"{name}.best", problems(tokens, W), norm_name(p), result)
    divergence = {
        (p, q): _divergence(result[f"{p}.W"], found[q], float(p)) for p in exponents for q in found
    }
    agree = np.all([(alpha[p] == alpha[exponents[0]]).all(axis=1) for p in exponents], axis=0)
    gap = max(worst_gap(certificates) for certificates in found.values())
    return ComparedDescent(alpha, divergence, np.asarray(agree), gap)


def _divergence(W: Floats, targets: list[Certificate], p: float) -> Floats:
    """The divergence (R, B) of each iterate from its instance's solution."""
    columns = [
        np.full(len(W), np.nan)
        if c.W is None or not np.isfinite(c.gap)
        else np.asarray(bregman(W[:, b], np.asarray(c.W), p))
        for b, c in enumerate(targets)
    ]
    return np.stack(columns, axis=1)
