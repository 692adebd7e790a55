"""Instances with equal non-optimal scores, their solutions in every norm, and runs on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.studies.claim import Config, Result
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, share
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many

NORMS = ("frobenius", "max", "spectral", "nuclear", "l1")
# Step sizes of the weight and of the factors, both falling like t^−½.
RATES = {"weight": 1.0, "factored": 0.3}


def drawn(config: Config) -> tuple[list[Tokens], Floats, list[Problem]]:
    """The instances of these seeds, their heads (B, d), and the problems of the best tokens."""
    made = [sphere_arrays(5, 4, 5, seed=seed, equal_scores=True) for seed in config["seeds"]]
    tokens = [Tokens(a["X"], queries=a["z"], labels=a["y"]) for a in made]
    heads = np.array([a["v"] for a in made])
    problems = [Problem.of(t, Selection.best(t, v)) for t, v in zip(tokens, heads, strict=True)]
    return tokens, heads, problems


def solutions(config: Config, norms: Sequence[str] = NORMS) -> Result:
    """The solutions in these norms, to be kept."""
    problems = drawn(config)[2]
    out: Result = {}
    for norm in norms:
        out |= saved_solutions(f"best.{norm}", solve_many(problems, norm))
    return out


def certified(
    config: Config, result: Result, norms: Sequence[str] = NORMS
) -> dict[str, list[Certificate]]:
    """The certificates of the kept solutions."""
    problems = drawn(config)[2]
    return {norm: recertified(f"best.{norm}", problems, norm, result) for norm in norms}


def trained(config: Config, model: str, optimizer: str, *, width: int | None = None) -> Floats:
    """The final matrices (B, d, dq) of a run under the linear loss."""
    tokens, heads, _ = drawn(config)
    path = train(
        tokens,
        model=model,
        optimizer=optimizer,
        head=heads,
        loss="linear",
        schedule="sqrt",
        seed=config["seed"],
        lr=RATES[model],
        steps=config["steps"],
        width=width,
    )
    return path.matrices()[-1]


def arrived(config: Config, W: Floats) -> int:
    """How many of the matrices (B, d, dq) select the best tokens of their instance."""
    return sum(float(p.margins(M).min()) > 0 for p, M in zip(drawn(config)[2], W, strict=True))


def shares(W: Floats, certificates: Sequence[Certificate]) -> Floats:
    """The certified margin share of each matrix (B,)."""
    return np.array([share(M, c) for M, c in zip(W, certificates, strict=True)])
