"""B: the rank of Frobenius and nuclear max-margin solutions, certified."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

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
from attsvm.experiments.studies.shared.random_instances import best_problem, drawn
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORMS = ("frobenius", "nuclear")


def _cells(config: Config) -> list[tuple[int, int, int]]:
    """All (n, T, d)."""
    return [(n, T, d) for n, T in config["sizes"] for d in config["dimensions"]]


def _problems(config: Config, cell: tuple[int, int, int]) -> list[Problem]:
    return [best_problem(*drawn(cell, seed)) for seed in seeds_of(config)]


def _name(cell: tuple[int, int, int]) -> str:
    return ".".join(map(str, cell))


def run(config: Config) -> Result:
    """Both problems of the best tokens of every seed and size; what is infeasible stays proved."""
    out: Result = {}
    for cell in _cells(config):
        problems = _problems(config, cell)
        with warnings.catch_warnings():
            # What stays uncertified is counted by the check.
            warnings.simplefilter("ignore", ConvergenceWarning)
            flat = solve_many(problems)
            found = [
                c if c.status == "infeasible" else solve(p, "nuclear")
                for p, c in zip(problems, flat, strict=True)
            ]
        out |= saved_solutions(f"{_name(cell)}.frobenius", flat) | saved_solutions(
            f"{_name(cell)}.nuclear", found
        )
    return out


def _found(
    config: Config, cell: tuple[int, int, int], result: Result
) -> dict[str, list[Certificate]]:
    """The recertified solutions of a cell, of the instances certified optimal in both norms;
    proofs that there is none; and the instances with neither, by their Frobenius solutions."""
    problems = _problems(config, cell)
    out = {n: recertified(f"{_name(cell)}.{n}", problems, n, result) for n in NORMS}
    pairs = list(zip(out["frobenius"], out["nuclear"], strict=True))
    sure = [all(c.status == "optimal" for c in pair) for pair in pairs]
    return {
        **{n: [c for c, f in zip(out[n], sure, strict=True) if f] for n in NORMS},
        "proofs": [c for c, _ in pairs if c.proof == "exact"],
        "open": [c for (c, _), f in zip(pairs, sure, strict=True) if not f and c.proof != "exact"],
    }


def check(config: Config, result: Result) -> Finding:
    """Ranks of certified solutions: Frobenius min(n, d), nuclear far below, none above."""
    above = doubtful = infeasible = judged = 0
    unsure: list[Certificate] = []
    worst = {norm: 0.0 for norm in NORMS}
    ratios = []
    wide: dict[int, float] = {}
    means: dict[tuple[int, int], list[float]] = {}
    for cell in _cells(config):
        n, T, d = cell
        found = _found(config, cell, result)
        worst = {norm: max(worst[norm], worst_gap(found[norm])) for norm in NORMS}
        count = len(found["frobenius"])
        judged += count
        infeasible += len(found["proofs"])
        unsure += found["open"]
        if not count:
            continue
        ranks = {norm: [c.rank or 0 for c in found[norm]] for norm in NORMS}
        above += sum(r > min(n, d) for rows in ranks.values() for r in rows)
        doubtful += sum(c.rank != c.rank_bound for c in found["nuclear"])
        if d >= n:
            ratios.append(float(np.mean(ranks["frobenius"])) / min(n, d))
        if d == max(config["dimensions"]) and T == 5:
            wide[n] = float(np.mean(ranks["nuclear"]))
        if d >= config["flat"]:
            means.setdefault((n, T), []).append(float(np.mean(ranks["nuclear"])))
    tests = [
        equals("solutions of rank above min(n, d)", above, 0),
        # The published curve lies at min(n, d), read to a tenth of it.
        at_least(
            "Frobenius: least mean rank over min(n, d), sizes with d ≥ n",
            min(ratios, default=np.nan),
            0.9,
        ),
        # One in twenty wrong by one moves a mean rank by 0.05, a twelfth of what is allowed below.
        at_most(
            "nuclear solutions whose rank the multipliers do not confirm, share",
            doubtful / max(judged, 1),
            0.05,
        ),
    ]
    for n, mean in wide.items():
        # Measured apart: means of five instances each, whose ranks spread by about 2/3; twice the
        # standard error of such a mean is 0.6. The published curve is near n.
        size = f"n = {n}, T = 5, d = {max(config['dimensions'])}"
        tests.append(
            equals(f"nuclear: mean rank at {size}", mean, config["ranks"][str(n)], within=0.6)
        )
    for (n, T), found_means in means.items():
        # From d = 10 on min(n, d) is at least twice the rank and does not hold it down. Less than
        # one rank is what is asked; the published curve at n = 15 rises by about 4 there.
        tests.append(
            at_most(
                f"nuclear: range of the mean rank over d ≥ {config['flat']}, n = {n}, T = {T}",
                max(found_means) - min(found_means) if len(found_means) > 1 else np.nan,
                1.0,
            )
        )
    tests += [
        noted("instances proved infeasible, counted apart", infeasible),
        noted("instances neither certified in both norms nor proved infeasible", len(unsure)),
        # One in a hundred, at whatever rank, moves a mean by 0.15 at most, a quarter of 0.6.
        at_least(
            "share certified in both norms, of those not proved infeasible",
            judged / max(judged + len(unsure), 1),
            config["certified"],
        ),
        noted("Frobenius: largest gap of those certified", worst["frobenius"]),
        noted("nuclear: largest gap of those certified", worst["nuclear"]),
    ]
    premises = (
        f"{judged} instances certified to the gap asked of the solver (1e-8 Frobenius, 1e-6 "
        f"nuclear), {infeasible} proved infeasible, {len(unsure)} not certified and not judged"
    )
    far = min((c.lower for c in unsure), default=np.inf)
    reason = (
        f"{len(unsure)} not certified: their least norm is {far:.0f} or more, which is nearly "
        "infeasible, and the solver stops short of the gap asked"
        if unsure
        else ""
    )
    return Finding(tuple(tests), premises, judged, max(worst.values()), reason)


def plot(config: Config, result: Result) -> Figure:
    """Mean rank of feasible instances over d, and the share that is feasible."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, middle, right) = panels(3)
    base = config["sizes"][0]
    for k, (n, T) in enumerate(config["sizes"]):
        ax = left if base[1] == T else middle
        lines = (left, middle) if [n, T] == base else (ax,)
        shares = []
        means: dict[str, list[float]] = {norm: [] for norm in NORMS}
        for d in config["dimensions"]:
            W = {norm: result[f"{n}.{T}.{d}.{norm}.W"] for norm in NORMS}
            fine = ~np.isnan(W["frobenius"]).any(axis=(1, 2))
            shares.append(float(fine.mean()))
            for norm in NORMS:
                means[norm].append(float(rank(W[norm][fine]).mean()) if fine.any() else np.nan)
        for at in lines:
            size = f"n = {n}" if at is left else f"T = {T}"
            at.plot(
                config["dimensions"],
                means["frobenius"],
                "o-",
                markersize=3,
                color=CYCLE[k],
                label=f"{size}, Frobenius",
            )
            at.plot(
                config["dimensions"],
                means["nuclear"],
                "s--",
                markersize=3,
                color=CYCLE[k],
                label=f"{size}, nuclear",
            )
        right.plot(config["dimensions"], shares, ".-", color=CYCLE[k], label=f"n = {n}, T = {T}")
    left.set(xlabel="d", ylabel="mean rank, feasible instances", title=f"T = {base[1]}")
    middle.set(xlabel="d", title=f"n = {base[0]}")
    right.set(xlabel="d", ylabel="share of feasible instances", title="Feasible")
    top = max(n for n, _ in config["sizes"])
    left.set_ylim(0, 1.55 * top)
    middle.set_ylim(0, 1.9 * base[0])
    for ax in (left, middle, right):
        ax.legend(
            frameon=False,
            fontsize=6.5,
            ncols=1 if ax is right else 2,
            loc="lower right" if ax is right else "upper left",
        )
    return figure


_FULL = {
    "sizes": [[5, 5], [10, 5], [15, 5], [5, 10], [5, 15]],
    # d = 1 of the published grid is left out: tokens are ±1 there, and the best one is not unique.
    "dimensions": [2, 3, 4, 5, 10, 15, 20],
    "seeds": 60,
    "flat": 10,
    "ranks": {"5": 2.4, "10": 3.6, "15": 4.6},
    "certified": 0.99,
}

CLAIM = Claim(
    id="B.rank",
    title="Rank of the solutions",
    kind="figure",
    trust="image",
    statement="Solutions of the best-token problem have rank at most min(n, d). The Frobenius "
    "solution has it nearly always; the nuclear one has a rank far below, whose mean changes by "
    "less than one from d = 10 on.",
    full=_FULL,
    quick={**_FULL, "dimensions": [2, 10, 20], "seeds": 10},
    run=run,
    check=check,
    plot=plot,
    differs="The published nuclear curve rises to nearly n (13.9 at n = d = 15). The released code "
    "counts singular values above 1e-7 in the answer of a conic solver that stops near 1e-5, and "
    "an infeasible instance, which has no solution, enters the mean as rank 1. On five seeds each "
    "at n = 5, 10, 15, T = 5, d = 20, SCS at its default accuracy (certified gap up to 2e-5) gives "
    "ranks 2 to 5, 10 and 14 to 15 by that count; Clarabel asked for 1e-9 (certified gap below "
    "4e-10) gives 2, 3 to 4 and 4 to 5, the same as here on every seed. The multipliers confirm "
    "each rank: no more singular values of their combined rows reach the largest one. Infeasible "
    "instances are proved so and counted apart.",
    reference="tarzanagh2023svm",
    numbered="code: svm_rank; v1, Lemma 1",
    size="60 of 100 instances, without d = 1",
)
