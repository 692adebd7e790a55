"""B: solutions in the Frobenius and the nuclear norm live in the span of the queries.

With P the projection on span{z_i}, W P meets the same margins as W. Both norms obey

    ‖W‖² ≥ ‖W P‖² + ‖W (I − P)‖²

(with equality in Frobenius norm), so that a part off the span makes W longer: every solution has
its rows in the span, and rank at most its dimension. Of a certified gap there remains

    ‖W (I − P)‖ ≤ √(upper² − lower²)    for every W that meets the margins with ‖W‖ ≤ upper.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.errors import ConvergenceWarning
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORMS = ("frobenius", "nuclear")
# Singular values this share of the largest are rounding: of a few hundred operations, 1e-16 each.
_ROUNDING = 1e-12


def _problems(config: Config, cell: list[int]) -> list[Problem]:
    """Random selections of each dataset; `different` queries are shared among the inputs."""
    n, T, d, different = cell
    out = []
    for seed in seeds_of(config):
        draw = np.random.default_rng([seed, n, T, d, different])
        X = draw.standard_normal((n, T, d))
        z = draw.standard_normal((different, d))[np.arange(n) % different]
        tokens = Tokens(X, queries=z)
        for _ in range(config["selections"]):
            out.append(Problem.of(tokens, Selection.of(tokens, draw.integers(0, T, n))))
    return out


def _name(cell: list[int]) -> str:
    return ".".join(map(str, cell))


def run(config: Config) -> Result:
    """Both problems of every selection."""
    out: Result = {}
    for cell in config["cells"]:
        problems = _problems(config, cell)
        with warnings.catch_warnings():
            # What stays uncertified is counted by the check.
            warnings.simplefilter("ignore", ConvergenceWarning)
            flat = solve_many(problems)
            short = [
                c if c.status == "infeasible" else solve(p, "nuclear")
                for p, c in zip(problems, flat, strict=True)
            ]
        out |= saved_solutions(f"{_name(cell)}.frobenius", flat)
        out |= saved_solutions(f"{_name(cell)}.nuclear", short)
    return out


def _span(problem: Problem) -> tuple[Floats, int]:
    """The projection on the span of the queries, and its dimension."""
    _, s, Vt = np.linalg.svd(problem.queries)
    r = int((s > _ROUNDING * s[0]).sum())
    return Vt[:r].T @ Vt[:r], r


def _longer(W: Floats, P: Floats, norm: str, draw: np.random.Generator) -> float:
    """The least ‖W + B‖/√(‖W P‖² + ‖B‖²) over random B off the span, of sizes 1e-2 to 10 ‖W‖."""
    B = draw.standard_normal((12, *W.shape)) @ (np.eye(len(P)) - P)
    size = np.geomspace(1e-2, 10.0, len(B)) * np.linalg.norm(W)
    B *= (size / np.linalg.norm(B, axis=(1, 2)))[:, None, None]
    value = norm_of(norm).value
    return float(np.min(value(W @ P + B) / np.hypot(float(value(W @ P)), value(B))))


def check(config: Config, result: Result) -> Finding:
    """Rows in the span of the queries, rank at most its dimension, certified."""
    off = beyond = left = 0.0
    longer, gap = np.inf, 0.0
    judged = open_ = proved = above = full = 0
    draw = np.random.default_rng(0)
    for cell in config["cells"]:
        n, _, d, _ = cell
        problems = _problems(config, cell)
        for norm in NORMS:
            found = recertified(f"{_name(cell)}.{norm}", problems, norm, result)
            for problem, c in zip(problems, found, strict=True):
                proved += c.proof == "exact"
                if c.status != "optimal" or c.W is None:
                    open_ += c.proof != "exact"
                    continue
                judged += 1
                gap = max(gap, worst_gap([c]))
                P, r = _span(problem)
                s = np.linalg.svd(c.W, compute_uv=False)
                size = float(c.norm.value(c.W))
                off = max(off, float(c.norm.value(c.W - c.W @ P)) / size)
                beyond = max(beyond, float(s[r:].max(initial=0.0) / s[0]))
                left = max(left, _left(c) / size)
                above += int((s > _ROUNDING * s[0]).sum()) > min(n, d, r)
                full += norm == "frobenius" and int((s > 1e-6 * s[0]).sum()) == r
                if r < d:
                    longer = min(longer, _longer(c.W, P, norm, draw))
    tests = (
        at_most("largest part off the span of the queries, share of ‖W‖", off, _ROUNDING),
        at_most("largest singular value beyond its dimension, share of the first", beyond, 1e-12),
        equals("solutions of rank above min(n, d) or that dimension", above, 0),
        at_least("Frobenius solutions that reach it: the bound is sharp", full, 1),
        # For every solution, not only the one at hand: a part off the span makes W longer.
        at_least(
            "least ‖W + B‖/√(‖W‖² + ‖B‖²), B off the span (rounding of 1e-12)",
            longer,
            1 - 1e-12,
        ),
        noted("so no solution has a larger part off the span, share of ‖W‖", left),
        at_least(
            "share certified, of those not proved infeasible",
            judged / max(judged + open_, 1),
            0.99,
        ),
        noted("largest certified gap", gap),
    )
    premises = (
        f"{judged} solutions of random selections certified to the gap asked of the solver, "
        f"{proved} proved infeasible, {open_} neither and not judged; cells (n, T, d, different "
        f"queries): {', '.join(str(tuple(cell)) for cell in config['cells'])}"
    )
    return Finding(tests, premises, judged, gap)


def _left(c: Certificate) -> float:
    """√(upper² − lower²)."""
    return float(np.sqrt(max(c.upper - c.lower, 0.0) * (c.upper + c.lower)))


def plot(config: Config, result: Result) -> Figure:
    """Singular values over the largest, with the dimension of the span of the queries."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, axes = panels(len(config["cells"]), sharey=True)
    for ax, cell in zip(axes, config["cells"], strict=True):
        n, T, d, different = cell
        for k, norm in enumerate(NORMS):
            W = result[f"{_name(cell)}.{norm}.W"]
            s = np.linalg.svd(W[~np.isnan(W).any(axis=(1, 2))], compute_uv=False)
            share = np.maximum(s / s[:, :1], 1e-18)
            place = np.arange(1, d + 1) + 0.12 * (2 * k - 1)
            ax.plot(
                np.broadcast_to(place, share.shape).ravel(),
                share.ravel(),
                ".",
                markersize=3,
                color=CYCLE[k],
                alpha=0.5,
                label=norm.capitalize(),
            )
        r = min(different, n, d)
        ax.axvline(
            r + 0.5, color=CYCLE[6], linestyle=":", linewidth=1, label=f"span of the queries: {r}"
        )
        ax.set(
            xlabel="number of the singular value",
            yscale="log",
            xlim=(0.5, d + 1.2),
            title=f"n = {n}, T = {T}, d = {d}",
        )
        ax.set_xticks(range(1, d + 1))
        ax.set_ylabel("singular value over the largest")
        # Below the points, on white: the line of the span runs behind it.
        ax.set_ylim(1e-24, 10.0)
        ax.legend(framealpha=1.0, edgecolor="none", fontsize=7.5, loc="lower left", markerscale=3)
    return figure


_FULL = {
    "cells": [[3, 5, 6, 3], [8, 3, 5, 8], [6, 4, 6, 2]],
    "seeds": 15,
    "selections": 3,
}

CLAIM = Claim(
    id="B.low-rank",
    title="Solutions live in the span of the queries",
    kind="theorem",
    trust="read",
    statement="Every solution, in the Frobenius and in the nuclear norm, has its rows in the span "
    "of the queries and so rank at most n: at most min(n, d), and at most the number of different "
    "queries.",
    full=_FULL,
    quick={**_FULL, "seeds": 4},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Lemma 1",
)
