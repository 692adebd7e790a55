"""B: how wide factors must be for K Qᵀ to align with the nuclear solution: v1, Figure 10."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
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
    seeds_of,
)
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    share,
    worst_gap,
)
from attsvm.experiments.studies.shared.spaced_instances import Spaced, picks, problems, spaced
from attsvm.norms import norm_of
from attsvm.solvers.solve import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Singular values above this share of the largest one count for the rank.
RANK = 1e-5


def _drawn(config: Config, width: int) -> Spaced:
    return spaced(
        config["shape"], seeds_of(config), gap=config["gap"], start=config["start"], width=width
    )


def _ends(result: Result, m: int) -> Floats:
    """K Qᵀ of every run of width m (B, ·, ·)."""
    K, Q = (result[f"{m}.{block}"] for block in ("K", "Q"))
    return np.asarray(K @ Q.transpose(0, 2, 1))


def run(config: Config) -> Result:
    """Normalized descent on factors of every width, and the nuclear problem of what it selects."""
    out: Result = {}
    for m in config["widths"]:
        drawn = _drawn(config, m)
        path = train(drawn.stack, lr=config["lr"], steps=config["steps"], **drawn.how("KQ"))
        out |= {f"{m}.{block}": path.weights[block][-1] for block in ("K", "Q")}
        posed = problems(drawn.stack, picks(drawn.stack, _ends(out, m)))
        out |= saved_solutions(f"{m}.nuclear", [solve(p, "nuclear") for p in posed])
    return out


class WidthValues(NamedTuple):
    """Of each instance at one width: correlation and margin share (nan where the selected tokens
    have no solution), the rank of the solution, whether the best tokens are selected; the gap."""

    cosines: Floats
    shares: Floats
    ranks: Ints
    best: Ints
    gap: float


def _seen(config: Config, result: Result, m: int) -> WidthValues:
    drawn = _drawn(config, m)
    W = _ends(result, m)
    chosen = picks(drawn.stack, W)
    found = recertified(f"{m}.nuclear", problems(drawn.stack, chosen), "nuclear", result)
    ranks = [
        0 if c.W is None else int((np.linalg.svd(c.W)[1] > RANK * np.linalg.norm(c.W, 2)).sum())
        for c in found
    ]
    return WidthValues(
        np.array([cosine(M, c) for M, c in zip(W, found, strict=True)]),
        np.array([share(M, c) for M, c in zip(W, found, strict=True)]),
        np.array(ranks),
        (chosen == drawn.best).all(axis=1).astype(np.int64),
        worst_gap([c for c in found if c.status != "infeasible"]),
    )


def _middle(a: Floats) -> float:
    """The mean of what is known; nan without any."""
    return float(np.nanmean(a)) if np.isfinite(a).any() else float("nan")


def check(config: Config, result: Result) -> Finding:
    """Aligned from width n on, in margin share and in correlation; not so at width one."""
    seen = {m: _seen(config, result, m) for m in config["widths"]}
    n = config["shape"][0]
    wide = [m for m in seen if m >= n]
    asked = config["asked"]
    tests: list[Test] = []
    for what, mean in (
        ("margin share in the nuclear norm", {m: _middle(s.shares) for m, s in seen.items()}),
        ("correlation to the nuclear solution", {m: _middle(s.cosines) for m, s in seen.items()}),
    ):
        least = min(mean[m] for m in wide)
        tests += [
            at_least(f"mean {what}, least over widths m ≥ n = {n}", least, asked["wide"]),
            at_most(f"mean {what} at width {min(seen)}", mean[min(seen)], asked["narrow"]),
        ]
        tests += [noted(f"mean {what} at width {m}", mean[m]) for m in seen]
    ranks = np.concatenate([seen[m].ranks for m in wide])
    tests.append(noted("mean rank of the nuclear solutions at widths m ≥ n", float(ranks.mean())))
    tests.append(
        at_most("largest rank of a nuclear solution, at most n", float(ranks.max(initial=0)), n)
    )
    within = [
        float(s)
        for m, at in seen.items()
        if m < n
        for s, r in zip(at.shares, at.ranks, strict=True)
        if 0 < r <= m
    ]
    if within:
        what = "mean margin share below width n where the solution's rank is at most the width"
        tests.append(noted(what, float(np.nanmean(within))))
    gap = max(s.gap for s in seen.values())
    tests.append(at_most("largest certified gap", gap, norm_of("nuclear").tolerance))
    count = len(seeds_of(config))
    lost = sum(int(np.isnan(s.shares).sum()) for s in seen.values())
    premises = (
        f"{count} instances at each of {len(seen)} widths, best scores ahead by {config['gap']:g}; "
        f"{lost} runs select tokens whose problem has no solution"
    )
    return Finding(tuple(tests), premises, count * len(seen), gap)


def plot(config: Config, result: Result) -> Figure:
    """Margin share and correlation over the width, and the rank of the solutions."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    seen = {m: _seen(config, result, m) for m in config["widths"]}
    widths = list(seen)
    figure, (left, right) = panels(2)
    for k, (label, rows) in enumerate(
        (
            ("margin share, nuclear norm", [s.shares for s in seen.values()]),
            ("correlation", [s.cosines for s in seen.values()]),
        )
    ):
        low, middle, high = np.nanquantile(np.array(rows), (0.1, 0.5, 0.9), axis=1)
        left.fill_between(widths, low, high, color=CYCLE[k], alpha=0.18, linewidth=0)
        left.plot(widths, middle, "o-", ms=3.5, color=CYCLE[k], label=label)
    n, T, d = config["shape"]
    left.set(
        xlabel=f"width m (n = {n}, T = {T}, d = {d})",
        ylabel="median and middle 80 % of runs",
        title="K Qᵀ against the nuclear solution",
        ylim=(0, 1.03),
        xticks=widths,
    )
    for k, (label, rows) in enumerate(
        (
            ("1 − margin share", [1 - s.shares for s in seen.values()]),
            ("1 − correlation", [1 - s.cosines for s in seen.values()]),
        )
    ):
        right.plot(widths, [_middle(a) for a in rows], "o-", ms=3.5, color=CYCLE[k], label=label)
    every = np.concatenate([s.ranks for s in seen.values()])
    ranks = ", ".join(f"{r}: {(every == r).mean():.0%}" for r in np.unique(every))
    right.set(
        xlabel=f"width m (rank of the solutions: {ranks})",
        ylabel="mean over runs",
        title="How much is short of one",
        yscale="log",
        xticks=widths,
    )
    for ax, y in ((left, 0.42), (right, 0.8)):
        ax.axvline(n, color="#999999", lw=1.0, ls=":")
        ax.annotate("m = n", (n, y), xycoords=("data", "axes fraction"), xytext=(4, 0),
                    textcoords="offset points", fontsize=8)  # fmt: skip
    left.legend(frameon=False, fontsize=8, loc="lower right")
    right.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


_FULL = {
    "shape": [5, 5, 20],
    "widths": list(range(1, 11)),
    "seeds": 40,
    "start": 0,
    "gap": 0.1,
    "lr": 0.1,
    "steps": 10_000,
    # Aligned: short of one by at most one in twenty; not aligned: by at least one in ten.
    "asked": {"wide": 0.95, "narrow": 0.9},
}

CLAIM = Claim(
    id="B.width-against-nuclear",
    title="Factors as wide as there are inputs align with the nuclear solution",
    kind="figure",
    trust="read",
    statement="With d = 20 and factors of m = 1, …, 10 columns, K Qᵀ of normalized descent aligns "
    "with the nuclear max-margin solution of the tokens it selects once m is n or more, in margin "
    "share and in correlation; a single column does not.",
    full=_FULL,
    # One of six runs at 0.7 costs a mean 0.05.
    quick={
        **_FULL,
        "widths": [1, 3, 5, 10],
        "seeds": 6,
        "steps": 4000,
        "asked": {"wide": 0.9, "narrow": 0.9},
    },
    run=run,
    check=check,
    plot=plot,
    differs="n, T, the number of steps and the start of v1, Figure 10, are not stated: n = T = 5, "
    "10,000 steps and the uniform start of the released code are ours; no ridge. The nuclear "
    "solution need not be the only one, so that the margin share is judged as well as the "
    "correlation. The problem itself is indifferent to the width from m = 3 on: its solutions have "
    "rank 2 or 3. Descent is not: runs with three or four columns are still on their way when "
    "those with n and more have arrived.",
    reference="tarzanagh2023svm",
    numbered="v1, Figure 10",
    size="40 instances; the published number is not known",
)
