"""B: from which dimension on selections can be separated and margins are tight, and the ranks of
the solutions. Certified; nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.families import compact_sphere
from attsvm.experiments.group import Drawn, Group, Parts, gaps_of, norms_of
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import all_tight
from attsvm.theory.measures import rank

NORMS = ("frobenius", "nuclear")

# ---------------------------------------------------------------- separability

# Rows whose least singular value is above this share of the largest are independent: rounding
# moves it by 1e-13 of the largest.
_INDEPENDENT = 1e-9


def bound(n: int, T: int) -> int:
    """max(T − 1, n), from which on almost every dataset can be separated."""
    return max(T - 1, n)


def sharper(n: int, T: int) -> int:
    """The least d with d ≥ T − 1 and d² ≥ n(T − 1).

    The rows of input i span V_i ⊗ z_i, V_i the T − 1 differences of its tokens. Of random V_i and
    z_i these are independent as long as they fit into d² dimensions, and independent rows can be
    given any margins: every selection is separable.
    """
    return max(T - 1, int(np.ceil(np.sqrt(n * (T - 1)))))


def _datasets(
    sizes: Sequence[tuple[int, int]], dimensions: Sequence[int], small: Sequence[tuple[int, int]]
) -> list[tuple[str, int, int, int]]:
    """(part, n, T, d).

    random: one random selection of each dataset. rows: whether the rows are independent, at both
    bounds. every: all selections of some datasets, at the bound and one below. inside: a token
    inside the simplex of the others is selected, d = T − 2.
    """
    cells = [
        *(("random", n, T, d) for n, T in sizes for d in dimensions),
        *(("rows", n, T, f(n, T)) for n, T in sizes for f in (bound, sharper)),
        *(("every", n, T, bound(n, T) - k) for n, T in small for k in (0, 1)),
        *(("inside", n, T, T - 2) for n, T in small),
    ]
    return list(dict.fromkeys(cells))


def measure_separability(
    group: Group, part: str, attention: str, every: int, n: int, T: int
) -> Parts:
    """How many problems of each dataset are separable, and how many are proved not to be.

    Parts with many problems for each dataset take one seed in so many (`every`).
    """
    whole = part in ("random", "rows")
    kept = [b for b, seed in enumerate(group.seeds) if whole or seed % every == 0]
    posed = [_posed(part, attention, group.tokens[b], group.best[b]) for b in kept]
    solved = iter(solve_many([p for problems in posed for p in problems]) if part != "rows" else [])
    rows: Parts = []
    for b, problems in zip(kept, posed, strict=True):
        found = [next(solved) for _ in problems] if part != "rows" else []
        # A W with positive margins is the proof; how short it is does not matter here.
        can = [bool(np.isfinite(c.upper)) for c in found]
        proved = [c.proof == "exact" and not yes for c, yes in zip(found, can, strict=True)]
        rows.append({
            "size": f"n = {n}, T = {T} (bound {bound(n, T)})",
            "seed": group.seeds[b],
            "problems": len(found), "separable": sum(can), "proved_not": sum(proved),
            "gap": np.nanmax(gaps_of(found)) if any(can) else np.nan,
            "all_separable": all(can),
            "independent": part != "rows" or _independent(problems[0]),
        })  # fmt: skip
    return rows


def _posed(part: str, attention: str, tokens: Tokens, alpha: Ints) -> list[Problem]:
    """The problems of one dataset."""
    if part in ("random", "rows"):
        return [Problem.of(tokens, Selection.of(tokens, alpha))]
    if part == "every":
        selections = product(range(tokens.T), repeat=tokens.n)
        return [Problem.of(tokens, Selection.of(tokens, list(a))) for a in selections]
    X = np.array(tokens.X)
    # The first token of the first input near the mean of the others, which with d = T − 2 are the
    # corners of a simplex: it lies inside.
    X[0, 0] = X[0, 1:].mean(axis=0) + 1e-3 * X[0, 0]
    moved = Tokens(X, queries="first" if attention == "self" else tokens.queries)
    return [Problem.of(moved, Selection.of(moved, [0] * tokens.n))]


def _independent(problem: Problem) -> bool:
    """Whether the n(T − 1) rows are surely independent."""
    D, z = problem.differences(np.arange(problem.m)), problem.queries[problem.query]
    rows = np.einsum("ki,kj->kij", D, z).reshape(problem.m, -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return int(rank(rows, share=_INDEPENDENT)) == problem.m


def checks_separability(table: Table, thresholds: Any) -> Checks:
    """Nothing is infeasible from the bound on, and nothing feasible becomes infeasible; half the
    bound is enough more often than not; at small sizes every selection is solved."""
    least = np.maximum(table["T"] - 1, table.n)
    above = [d >= sharper(n, T) for n, T, d in zip(table.n, table["T"], table.d, strict=True)]
    table = table.assign(least=least, above=above)
    parts = {part: rows.assign(can=rows.all_separable) for part, rows in table.groupby("part")}
    random, small, among = parts["random"], parts["every"], parts["inside"]
    yield equals("infeasible at d ≥ max(T − 1, n)", (~random.can[random.d >= random.least]).sum(),
                 0)  # fmt: skip
    by_d = random.sort_values("d").groupby(["attention", "n", "T", "seed"]).can
    lost = (by_d.shift(fill_value=False) & ~random.can).sum()
    yield equals("separable in d coordinates but not in more of them", lost, 0)
    # Independent rows: the proof for every selection of the dataset at once.
    yield equals("datasets at the bounds whose rows are dependent",
                 (~parts["rows"].independent).sum(), 0)  # fmt: skip
    yield equals("infeasible at d ≥ T − 1 with d² ≥ n(T − 1)", (~random.can[random.above]).sum(), 0)
    # Random signs of n(T − 1) rows in d² dimensions are separable more often than not as long as
    # n(T − 1) < 2d², which at half the bound holds from n = 9, T = 5 on.
    half = random.can[random.d == (random.least + 1) // 2]
    yield at_least("share separable at half the bound, all sizes together", half.mean(), 0.5)
    inside = small[small.above]
    yield equals("all selections of small datasets at these bounds: infeasible",
                 (inside.problems - inside.separable).sum(), 0)  # fmt: skip
    # An open set of datasets: T − 1 is needed for almost every dataset.
    yield equals("d = T − 2, a token inside the simplex of the others: not proved infeasible",
                 (among.problems - among.proved_not).sum(), 0)  # fmt: skip
    # Next to the edge of separability rounding decides nothing: one in a thousand may be there.
    # From the bound on such an instance counts as infeasible.
    unknown = (random.problems - random.separable - random.proved_not).sum()
    count = int(small.problems.sum() + among.problems.sum())
    yield at_most("neither solved nor proved infeasible, share", unknown / (len(random) + count),
                  1e-3)  # fmt: skip
    yield Premises(
        len(random) + count,
        f"{len(random)} Gaussian instances, one random selection each; {count} problems of small "
        "datasets, all selections",
        random.gap.max(),
    )


# ---------------------------------------------------------------- tight margins


def suggested(n: int, T: int, times: float) -> int:
    """So many times (T + n) log(T + n), rounded up."""
    return int(np.ceil(times * (T + n) * np.log(T + n)))


def derived(n: int, T: int) -> int:
    """The least d with d² ≥ a (d + n), a = 2 (T − 1)² log(nT), which Assumption B.1 needs.

    For one input with unit tokens, T − 1 = m of them to beat and u_t = x_opt·x_t, the rows
    x_opt − x_t have Gram entries 1 − u_t − u_s + x_t·x_s, and without the last term multipliers in
    proportion to 1/m + u_t. They are all positive, so that all margins are tight, if every
    u_t > −1/m. With isotropic tokens u_t is normal with variance 1/d; each other input j adds
    x_t·(x_j,opt − mean x_js) z_i·z_j, of variance about 1/d². The least of k normal numbers is
    about −√(2 log k) deviations. So d is of the order of T² log(nT), or of T √(n log(nT)) where n
    is large.
    """
    a = 2 * (T - 1) ** 2 * np.log(n * T)
    return int(np.ceil(0.5 * (a + np.sqrt(a * a + 4 * a * n))))


def _laws(sizes: Sequence[tuple[int, int]], times: Sequence[int]) -> list[Any]:
    """(n, T, d, law) of every cell; law: the multiple of the suggested d, or derived."""
    out: list[Any] = []
    for n, T in sizes:
        out += [(n, T, suggested(n, T, k), str(k)) for k in times]
        out.append((n, T, derived(n, T), "derived"))
    return out


def measure_tight(group: Group, n: int, T: int, d: int, law: str) -> dict[str, Any]:
    """Whether all margins of the best tokens are tight, by certificate."""
    found = group.solved(group.best)
    tight = [all_tight(c) for c in found]
    return {
        "size": f"n = {n}, T = {T}",
        "times": d / ((T + n) * np.log(T + n)),
        "tight": np.array([known is True for known in tight]),
        "known": np.array([known is not None for known in tight]),
        "gap": np.array([float(c.gap) for c in found]),
    }


def checks_tight(table: Table, thresholds: Any) -> Checks:
    """The certified share of instances with all margins tight, by size and dimension."""
    shares = table.groupby(["law", "n", "T", "d"], sort=False).tight.mean()
    most = max(table.law[table.law != "derived"], key=float)
    _, n, T, _ = shares[[most]].idxmin()
    worst = shares[most].min()
    # Our reading of ≳: the factor, and that a share of 0.9 is enough.
    yield at_least(f"least share over the sizes at d = {most} (T + n) log(T + n)", worst,
                   thresholds["suggested"])  # fmt: skip
    # nT normal tails beyond √(2 log nT) deviations: 0.4/√(2 log nT) of the instances, 0.17 at most
    # here, are without; twice the deviation of a share of 30 instances is 0.14.
    yield at_least("least share over the sizes at the derived d", shares["derived"].min(),
                   thresholds["derived"])  # fmt: skip
    yield at_most("neither tight nor loose for sure, share", (~table.known).mean(), 1e-2)
    yield Premises(len(table), f"{len(table)} instances on the unit sphere, certified")
    if worst < thresholds["suggested"]:
        yield Note(
            f"at n = {n}, T = {T} only {worst:.2f} of the instances have all margins tight at "
            f"{most} times (T + n) log(T + n): a token that leans away from the best one by more "
            "than 1/(T − 1) is not tight, and some do until d is about 2 (T − 1)² log(nT)"
        )


# ---------------------------------------------------------------- rank


def measure_rank(group: Group) -> dict[str, Any]:
    """The certified rank of both solutions of the best tokens' problem."""
    flat = group.solved(group.best)
    infeasible = np.array([c.status == "infeasible" for c in flat])
    nuclear = group.solved(group.best, "nuclear", where=~infeasible)
    both = [flat, nuclear]
    columns = {
        f"rank_{norm}": [np.nan if c is None or c.W is None else c.rank or 0 for c in solved]
        for norm, solved in zip(NORMS, both, strict=True)
    }
    certified = [[c is not None and c.status == "optimal" for c in solved] for solved in both]
    return {
        **{name: np.array(ranks) for name, ranks in columns.items()},
        "rank_bound": np.array([np.nan if c is None else c.rank_bound or 0 for c in nuclear]),
        "proved_infeasible": np.array([c.proof == "exact" for c in flat]) & infeasible,
        "certified": np.all(certified, axis=0),
        "least_norm": norms_of(flat),
        "gap": np.fmax(*map(gaps_of, both)),
    }


def published_rank(row: dict[str, Any]) -> float:
    """The published means that were read: Frobenius at min(n, d), nuclear at n = d = 15."""
    if row["column"] == "rank_frobenius":
        return float(min(row["n"], row["d"]))
    return 13.9 if row["n"] == row["d"] == 15 else np.nan


def checks_rank(table: Table, thresholds: Any) -> Checks:
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
    flat = means[means.index.get_level_values("d") >= thresholds["flat"]]
    for (n, T), wide in flat.groupby(["n", "T"], sort=False):
        # From d = 10 on min(n, d) is at least twice the rank and does not hold it down. Less than
        # one rank is what is asked; the published curve at n = 15 rises by about 4 there.
        what = f"nuclear: range of the mean rank over d ≥ {thresholds['flat']}, n = {n}, T = {T}"
        yield at_most(what, wide.max() - wide.min() if len(wide) > 1 else np.nan, 1.0)
    # One in a hundred, at whatever rank, moves a mean by 0.15 at most, a quarter of 0.6.
    certified = len(sure) / max(len(sure) + len(unsure), 1)
    yield at_least("share certified in both norms, of those not proved infeasible", certified,
                   thresholds["certified"])  # fmt: skip
    yield Premises(
        len(sure),
        f"{len(sure)} instances certified to the gap asked of the solver, "
        f"{table.proved_infeasible.sum()} proved infeasible, {len(unsure)} not certified and not "
        "judged",
        sure.gap.max(),
    )
    if len(unsure):
        yield Note(
            f"{len(unsure)} not certified: their least norm is {unsure.least_norm.min():.0f} or "
            "more, which is nearly infeasible, and the solver stops short of the gap asked"
        )


# ---------------------------------------------------------------- the span of the queries

# Singular values this share of the largest are rounding: of a few hundred operations, 1e-16 each.
_ROUNDING = 1e-12


def shared_queries(
    seeds: Sequence[int], n: int, T: int, d: int, different: int, selection: int
) -> Drawn:
    """Gaussian tokens with so many different queries among the inputs, and one of their random
    selections."""
    tokens, alpha = [], []
    for seed in seeds:
        draw = np.random.default_rng([seed, n, T, d, different])
        X = draw.standard_normal((n, T, d))
        z = draw.standard_normal((different, d))[np.arange(n) % different]
        tokens.append(Tokens(X, queries=z))
        alpha.append([draw.integers(0, T, n) for _ in range(selection + 1)][-1])
    return Drawn(tokens, alpha=np.stack(alpha))


def measure_span(group: Group, norm: str) -> dict[str, Any]:
    """What of the solution is off the span of the queries, and beyond its dimension."""
    flat = group.solved(group.best)
    proved = np.array([c.status == "infeasible" and c.proof == "exact" for c in flat])
    found = flat if norm == "frobenius" else group.solved(group.best, norm, where=~proved)
    certified = np.array([c is not None and c.status == "optimal" for c in found])
    rows = [
        _spanned(c, norm, seed) if sure else {}
        for c, seed, sure in zip(found, group.seeds, certified, strict=True)
    ]
    names = ("span", "rank", "clear_rank", "off", "beyond", "longer")
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    return {"certified": certified, "proved_infeasible": proved, **columns, "gap": gaps_of(found)}


def _spanned(c: Any, norm: str, seed: int) -> dict[str, float]:
    """With P the projection on span{z_i}, W P meets the same margins as W. Both norms obey

        ‖W‖² ≥ ‖W P‖² + ‖W (I − P)‖²

    (with equality in Frobenius norm), so that a part off the span makes W longer: every solution
    has its rows in the span, and rank at most its dimension.

    longer: the least ‖W + B‖/√(‖W P‖² + ‖B‖²) over random B off the span, of sizes 1e-2 to 10 ‖W‖.
    """
    W, value = c.W, norm_of(norm).value
    r = int(rank(c.problem.queries, share=_ROUNDING))
    Vt = np.linalg.svd(c.problem.queries)[2]
    P = Vt[:r].T @ Vt[:r]
    s, longer = np.linalg.svd(W, compute_uv=False), np.nan
    if r < len(P):
        draw = np.random.default_rng([0, seed])
        B: Floats = draw.standard_normal((12, *W.shape)) @ (np.eye(len(P)) - P)
        size = np.geomspace(1e-2, 10.0, len(B)) * np.linalg.norm(W)
        B *= (size / np.linalg.norm(B, axis=(1, 2)))[:, None, None]
        longer = float(np.min(value(W @ P + B) / np.hypot(float(value(W @ P)), value(B))))
    return {
        "span": r,
        "rank": int(rank(W, share=_ROUNDING)),
        "clear_rank": int(rank(W, share=1e-6)),
        "off": float(value(W - W @ P)) / float(value(W)),
        "beyond": float(s[r:].max(initial=0.0) / s[0]),
        "longer": longer,
    }


def checks_span(table: Table, thresholds: Any) -> Checks:
    """Rows in the span of the queries, rank at most its dimension, certified."""
    sure = table[table.certified]
    open_ = int((~table.certified & ~table.proved_infeasible).sum())
    yield at_most("largest part off the span of the queries, share of ‖W‖", sure.off.max(),
                  _ROUNDING)  # fmt: skip
    yield at_most("largest singular value beyond its dimension, share of the first",
                  sure.beyond.max(), 1e-12)  # fmt: skip
    above = (sure["rank"] > sure[["n", "d", "span"]].min(axis=1)).sum()
    yield equals("solutions of rank above min(n, d) or that dimension", above, 0)
    full = ((sure.norm == "frobenius") & (sure.clear_rank == sure.span)).sum()
    yield at_least("Frobenius solutions that reach it: the bound is sharp", full, 1)
    # For every solution, not only the one at hand: a part off the span makes W longer.
    yield at_least("least ‖W + B‖/√(‖W‖² + ‖B‖²), B off the span (rounding of 1e-12)",
                   sure.longer.min(), 1 - 1e-12)  # fmt: skip
    yield at_least("share certified, of those not proved infeasible",
                   len(sure) / max(len(sure) + open_, 1), 0.99)  # fmt: skip
    yield Premises(
        len(sure),
        f"{len(sure)} solutions of random selections certified to the gap asked of the solver, "
        f"{table.proved_infeasible.sum()} proved infeasible, {open_} neither and not judged",
        sure.gap.max(),
    )


# ---------------------------------------------------------------- the studies

STUDIES = (
    Study(
        id="B.separability-against-dimension",
        title="Every selection can be separated from some dimension on",
        kind="theorem",
        source="paper",
        statement="With d ≥ max(T − 1, n), almost every dataset can be separated for every "
        "selection, in cross-attention and with the first token as query. The bound is far from "
        "needed in n, where d² ≥ n(T − 1) is enough; with d < T − 1 a token can lie among the "
        "others, so that T − 1 is needed for almost every dataset, though not for most.",
        family="gaussian",
        grid={
            "attention": ["cross", "self"],
            "part n T d": _datasets(
                [(5, 5), (10, 5), (15, 5), (5, 10), (5, 15)], range(1, 18), [(3, 4), (4, 3), (2, 5)]
            ),
        },
        run={"every": 12},
        seeds=60,
        measure=measure_separability,
        checks=checks_separability,
        quick={
            "grid": {
                "part n T d": _datasets(
                    [(5, 5), (10, 5), (5, 10)], [1, 2, 3, 4, 5, 8, 10], [(2, 4), (2, 5)]
                )
            },
            "run": {"every": 15},
            "seeds": 30,
        },
        figure={
            "kind": "curves",
            "where": {"part": "random"},
            "x": "d",
            "value": "all_separable",
            "lines": "size",
            "panels": "attention",
            "ylabel": "share of separable instances",
        },
        theorem="v1, Theorems 1 and 8",
    ),
    Study(
        id="B.all-tight-against-dimension",
        title="From which dimension on all margins are tight",
        kind="question",
        source="paper",
        statement="Does d = 4 (T + n) log(T + n) suffice, with isotropic tokens, for Assumption "
        "B.1, all margins of the best tokens tight, on at least nine instances in ten at every "
        "size? The factor and the share are our reading of ≳: the text says that d ≳ (T + n) "
        "log(T + n) should suffice, without a proof or a constant.",
        family=compact_sphere,
        grid={"n T d law": _laws([(5, 3), (5, 5), (5, 8), (5, 12), (20, 4), (40, 4)], [1, 2, 4])},
        seeds=30,
        measure=measure_tight,
        checks=checks_tight,
        gap=1e-8,
        thresholds={"suggested": 0.9, "derived": 0.69},
        quick={"grid": {"n T d law": _laws([(5, 3), (5, 8)], [1, 4])}, "seeds": 10},
        figure={
            "kind": "curves",
            "x": "times",
            "value": "tight",
            "lines": "size",
            "log": "x",
            "xlabel": "d over (T + n) log(T + n)",
            "ylabel": "share with all margins tight",
        },
        theorem="v1, text",
    ),
    Study(
        id="B.rank",
        title="Rank of the solutions",
        kind="figure",
        source="figure",
        statement="Solutions of the best-token problem have rank at most min(n, d). The Frobenius "
        "solution has it nearly always; the nuclear one has a rank far below, whose mean changes "
        "by less than one from d = 10 on.",
        family="sphere",
        # d = 1 of the published grid is left out: tokens are ±1 there, and the best one is not
        # unique.
        grid={
            "n T": [(5, 5), (10, 5), (15, 5), (5, 10), (5, 15)],
            "d": [2, 3, 4, 5, 10, 15, 20],
        },
        seeds=60,
        measure=measure_rank,
        checks=checks_rank,
        thresholds={"flat": 10, "ranks": {"5": 2.4, "10": 3.6, "15": 4.6}, "certified": 0.99},
        quick={"grid": {"d": [2, 10, 20]}, "seeds": 10},
        figure={
            "kind": "curves",
            "where": {"T": 5},
            "x": "d",
            "value": {f"rank_{norm}": norm for norm in NORMS},
            "lines": "n",
            "middle": "mean",
            "published": published_rank,
            "ylabel": "mean rank of feasible instances (T = 5)",
        },
        differs="The published nuclear curve rises to nearly n (13.9 at n = d = 15). The released "
        "code counts singular values above 1e-7 in the answer of a conic solver that stops near "
        "1e-5, and an infeasible instance enters the mean as rank 1. At d = 20, T = 5 SCS at its "
        "default accuracy gives ranks up to n by that count; Clarabel asked for 1e-9 gives those "
        "found here, which the multipliers confirm.",
        theorem="code: svm_rank; v1, Lemma 1",
        size="60 of 100 instances, without d = 1",
    ),
    Study(
        id="B.low-rank",
        title="Solutions live in the span of the queries",
        kind="theorem",
        source="paper",
        statement="Every solution, in the Frobenius and in the nuclear norm, has its rows in the "
        "span of the queries and so rank at most n: at most min(n, d), and at most the number of "
        "different queries.",
        family=shared_queries,
        grid={
            "n T d different": [(3, 5, 6, 3), (8, 3, 5, 8), (6, 4, 6, 2)],
            "selection": [0, 1, 2],
            "norm": list(NORMS),
        },
        seeds=15,
        measure=measure_span,
        checks=checks_span,
        quick={"seeds": 4},
        figure={
            "kind": "scatter",
            "where": lambda t: t.certified,
            "x": "span",
            "y": "clear_rank",
            "lines": "norm",
            "diagonal": True,
            "xlabel": "dimension of the span of the queries",
            "ylabel": "rank of the solution",
        },
        theorem="v1, Lemma 1",
    ),
)
