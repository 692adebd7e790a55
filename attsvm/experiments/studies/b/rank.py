"""B: the rank of Frobenius and nuclear max-margin solutions, certified."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group, gaps_of, norms_of
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, equals

NORMS = ("frobenius", "nuclear")


def measure(group: Group) -> dict[str, Any]:
    """The certified rank of both solutions of the best tokens' problem."""
    flat = group.solved(group.best)
    infeasible = np.array([c.status == "infeasible" for c in flat])
    nuclear = group.solved(group.best, "nuclear", where=~infeasible)
    found = {"frobenius": flat, "nuclear": nuclear}
    columns: dict[str, Any] = {
        "proved_infeasible": np.array([c.proof == "exact" for c in flat]) & infeasible,
        "certified": np.array([
            all(c is not None and c.status == "optimal" for c in pair)
            for pair in zip(flat, nuclear, strict=True)
        ]),
        "rank_bound": np.array([np.nan if c is None else c.rank_bound or 0 for c in nuclear]),
        "least_norm": norms_of(flat),
    }  # fmt: skip
    for norm, solutions in found.items():
        columns[f"rank_{norm}"] = np.array(
            [np.nan if c is None or c.W is None else c.rank or 0 for c in solutions]
        )
        columns[f"gap_{norm}"] = gaps_of(solutions)
    return columns


def checks(table: Table, thresholds: Any) -> Checks:
    """Ranks of certified solutions: Frobenius min(n, d), nuclear far below, none above."""
    sure = table[table.certified]
    unsure = table[~table.certified & ~table.proved_infeasible]
    least = np.minimum(sure.n, sure.d)
    above = sum((sure[f"rank_{norm}"] > least).sum() for norm in NORMS)
    yield equals("solutions of rank above min(n, d)", above, 0)
    share = (sure.rank_frobenius / least)[sure.d >= sure.n]
    cells = share.groupby([sure.n, sure["T"], sure.d]).mean()
    # The published curve lies at min(n, d), read to a tenth of it.
    yield at_least("Frobenius: least mean rank over min(n, d), sizes with d ≥ n", cells.min(), 0.9)
    # One in twenty wrong by one moves a mean rank by 0.05, a twelfth of what is allowed below.
    doubtful = (sure.rank_nuclear != sure.rank_bound).mean()
    yield at_most("nuclear solutions whose rank the multipliers do not confirm, share", doubtful,
                  0.05)  # fmt: skip
    means = sure.groupby(["n", "T", "d"], sort=False).rank_nuclear.mean()
    largest = int(table.d.max())
    for n, wanted in thresholds["ranks"].items():
        # Measured apart: means of five instances each, whose ranks spread by about 2/3; twice the
        # standard error of such a mean is 0.6. The published curve is near n.
        size = f"n = {n}, T = 5, d = {largest}"
        yield equals(f"nuclear: mean rank at {size}", means.get((int(n), 5, largest), np.nan),
                     wanted, within=0.6)  # fmt: skip
    for (n, T), wide in means[means.index.get_level_values("d") >= thresholds["flat"]].groupby(
        ["n", "T"], sort=False
    ):
        # From d = 10 on min(n, d) is at least twice the rank and does not hold it down. Less than
        # one rank is what is asked; the published curve at n = 15 rises by about 4 there.
        what = f"nuclear: range of the mean rank over d ≥ {thresholds['flat']}, n = {n}, T = {T}"
        yield at_most(what, wide.max() - wide.min() if len(wide) > 1 else np.nan, 1.0)
    infeasible = int(table.proved_infeasible.sum())
    # One in a hundred, at whatever rank, moves a mean by 0.15 at most, a quarter of 0.6.
    certified = len(sure) / max(len(sure) + len(unsure), 1)
    yield at_least("share certified in both norms, of those not proved infeasible", certified,
                   thresholds["certified"])  # fmt: skip
    yield Premises(
        len(sure),
        f"{len(sure)} instances certified to the gap asked of the solver, {infeasible} proved "
        f"infeasible, {len(unsure)} not certified and not judged",
        max(float(sure[f"gap_{norm}"].max()) for norm in NORMS),
    )
    if len(unsure):
        yield Note(
            f"{len(unsure)} not certified: their least norm is {unsure.least_norm.min():.0f} or "
            "more, which is nearly infeasible, and the solver stops short of the gap asked"
        )


STUDY = Study(
    id="B.rank",
    title="Rank of the solutions",
    kind="figure",
    source="figure",
    statement="Solutions of the best-token problem have rank at most min(n, d). The Frobenius "
    "solution has it nearly always; the nuclear one has a rank far below, whose mean changes by "
    "less than one from d = 10 on.",
    family="sphere",
    # d = 1 of the published grid is left out: tokens are ±1 there, and the best one is not unique.
    grid={
        "n T": [(5, 5), (10, 5), (15, 5), (5, 10), (5, 15)],
        "d": [2, 3, 4, 5, 10, 15, 20],
    },
    seeds=60,
    measure=measure,
    checks=checks,
    thresholds={"flat": 10, "ranks": {"5": 2.4, "10": 3.6, "15": 4.6}, "certified": 0.99},
    quick={"grid": {"d": [2, 10, 20]}, "seeds": 10},
    figure={
        "kind": "curves",
        "where": {"T": 5},
        "x": "d",
        "value": {f"rank_{norm}": norm for norm in NORMS},
        "lines": "n",
        "middle": "mean",
        "ylabel": "mean rank of feasible instances (T = 5)",
    },
    differs="The published nuclear curve rises to nearly n (13.9 at n = d = 15). The released code "
    "counts singular values above 1e-7 in the answer of a conic solver that stops near 1e-5, and "
    "an infeasible instance enters the mean as rank 1. At d = 20, T = 5 SCS at its default "
    "accuracy gives ranks up to n by that count; Clarabel asked for 1e-9 gives those found here, "
    "which the multipliers confirm.",
    theorem="code: svm_rank; v1, Lemma 1",
    size="60 of 100 instances, without d = 1",
)
