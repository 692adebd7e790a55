"""B: with equal or nearly equal scores of all but the best tokens, every start ends at the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.plain_descent import (
    contradicting_start,
    own_descent,
    proved_end,
    random_starts,
    second_bound,
    smoothness,
    two_inputs,
)
from attsvm.experiments.studies.shared.random_instances import best_problem
from attsvm.experiments.studies.shared.rows import columns_of
from attsvm.experiments.study import (
    EXAMPLE,
    Found,
    Note,
    Premises,
    Study,
    Table,
    at_least,
    at_most,
    equals,
    info,
)
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

Row = dict[str, Any]


# ---------------------------------------------------------------- equal scores

# What stands in a row where its part has no such value. size: R of the example's start (R, 0).
# at_start, end: where descent is proved to end from the start and from the last step.
_EMPTY = {
    "seed": 0, "size": np.nan, "step": -1, "p1": np.nan, "p2": np.nan, "bound": np.nan,
    "at_start": "", "end": "", "separable": True, "rises": False, "shrinks": False,
    "gap": np.nan,
}  # fmt: skip


def _lr(tokens: Tokens, v: Floats) -> float:
    return 1 / smoothness(tokens, v)


def _falls(values: Floats, by: Any) -> bool:
    """Whether the values (R,) ever fall by more than this."""
    return bool((np.diff(values) < -by).any())


def from_all_starts(
    group: Group, part: str, n: int, T: int, d: int, example_steps: int, random_steps: int
) -> dict[str, Any]:
    """example: plain descent on the two-input example, the same for every seed. search: a start
    that contradicts. run: plain descent from random starts."""
    if part == "example":
        rows = _example(example_steps)
    elif part == "search":
        rows = [
            {"seed": seed, "at_start": proved_end(t, v, contradicting_start(t, v)[1], _lr(t, v))}
            for seed, t, v in zip(group.seeds, group.tokens, group.heads, strict=True)
        ]
    else:
        start = int(group.run["start"])
        W = random_starts(group.seeds, (n, T, d), widest=8.0, start=start)[1]
        rows = _random_runs(group, W, random_steps)
    return columns_of(rows, _EMPTY)


def _example(steps: int) -> list[Row]:
    """The paths of the two-input example from (R, 0)."""
    radii = (0.0, 1.0, 3.0, 6.0)
    tokens, v = two_inputs()
    lr = _lr(tokens, v)
    W = np.zeros((len(radii), 2, 2))
    W[:, 0, 0] = radii
    path = own_descent([tokens] * len(radii), np.stack([v] * len(radii)), W, steps=steps)
    best = solve(best_problem(tokens, v))
    out: list[Row] = []
    for k, R in enumerate(radii):
        about = {
            "seed": EXAMPLE, "size": R, "bound": second_bound(R, lr), "gap": float(best.gap),
            "at_start": proved_end(tokens, v, W[k], lr),
            "end": proved_end(tokens, v, path.W[-1, k], lr),
        }  # fmt: skip
        for step, M in zip(path.steps, path.W[:, k], strict=True):
            out.append({**about, "step": int(step), "p1": M[0, 0], "p2": M[1, 0]})
    return out


def _random_runs(group: Group, W: Any, steps: int) -> list[Row]:
    path = own_descent(group.tokens, group.heads, W, steps=steps)
    out: list[Row] = []
    for b, c in enumerate(group.solved(group.best)):
        t, v, M = group.tokens[b], group.heads[b], path.W[:, b]
        lr = _lr(t, v)
        end = proved_end(t, v, M[-1], lr)
        along = None if c.W is None else np.einsum("rij,ij->r", M, np.asarray(c.W))
        out.append({
            "seed": group.seeds[b],
            # The theorem asks that the best tokens can be separated.
            "separable": c.status != "infeasible",
            "end": end,
            # A loss near its infimum, and a part along W^mm that hardly grows, move by rounding.
            "rises": _falls(-path.loss[:, b], 1e-15),
            "shrinks": along is None or _falls(along, 1e-12 * (1 + np.abs(along[1:]))),
            "gap": float(c.gap),
        })  # fmt: skip
    return out


def checks_equal(table: Table, thresholds: Any) -> Iterator[Found]:
    """Proofs of where descent ends, from starts of the example, found ones and random ones."""
    example = table[table.part == "example"].drop_duplicates(["size", "step"])
    radii = example.groupby("size").last()
    astray = radii[(radii.at_start == "elsewhere") | (radii.end == "elsewhere")]
    yield equals("starts of the two-input example proved to tend elsewhere", len(astray), 0)
    second = example.groupby("size").p2.max()
    yield at_most("their largest second coordinate, as a share of its bound for ever",
                  (second / radii.bound).max(), 1.0)  # fmt: skip
    # A start with no bound is a short one, from which the theorem's limit is proved.
    near = radii[np.isinf(radii.bound)]
    yield equals("its short starts not proved to end at the best tokens",
                 (near.end != "best").sum(), 0)  # fmt: skip
    search = table[table.part == "search"]
    contradicted = int((search.at_start == "elsewhere").sum())
    yield equals(f"of {len(search)} random instances, those with a start proved to tend elsewhere",
                 contradicted, 0)  # fmt: skip
    runs = table[(table.part == "run") & table.separable]
    elsewhere = runs.end == "elsewhere"
    for what, some in (("several inputs", runs.n > 1), ("one input", runs.n == 1)):
        yield equals(f"random runs, {what}: proved to tend elsewhere", (elsewhere & some).sum(), 0)
    yield equals("plain runs whose loss rises", runs.rises.sum(), 0)
    yield equals("plain runs whose part along W^mm ever shrinks", runs.shrinks.sum(), 0)
    yield info("random runs proved to end at the best tokens, share", (runs.end == "best").mean())
    gap = max(example.gap.max(), runs.gap.max())
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    judged = len(radii) + len(runs)
    yield Premises(
        judged,
        f"{judged} runs with η ≤ 1/L_W on separable instances, and {len(search)} instances "
        "searched for a start that contradicts",
        gap,
    )
    if len(astray) or contradicted:
        starts = " and ".join(f"({R:g}, 0)" for R in astray.index)
        yield Note(
            "Theorem 4 of v1 says 'any starting point'. Smallest instance: two inputs of two "
            "tokens, one query, key differences (1, 0) and (−2, 1), score gaps 1, η = 1/L_W. From "
            f"{starts} the direction is proved to tend to (1, 0), where W^mm is (1, 3): input 2 "
            f"pulls by e^−2r where input 1 pulls by e^−r. Of random instances, {contradicted} have "
            "such a start, proved at step 0. With one input the statement stands."
        )


# ---------------------------------------------------------------- nearly equal scores

_FAR = 6.0
# A start that contradicts at equal scores is asked for its proof at these multiples.
_MULTIPLES = (1.0, 2.0, 4.0)
# end: where the run is proved to end; the best tokens are those of equal scores. astray: whether a
# start is proved to tend elsewhere.
_TILT_EMPTY = {"seed": 0, "delta": np.nan, "end": "", "astray": False, "gap": np.nan}


def under_tilts(
    group: Group, part: str, deltas: Sequence[float], plain_steps: int
) -> dict[str, Any]:
    """tilt: plain descent from one start at every tilt of the scores. search: starts that
    contradict at equal scores, at every tilt. example: the two inputs from (6, 0)."""
    if part == "example":
        tokens, v = two_inputs()
        W = np.array([[_FAR, 0.0], [0.0, 0.0]])
        end = proved_end(tokens, v, W, _lr(tokens, v))
        rows: list[Row] = [{"seed": group.seeds[0], "astray": end == "elsewhere"}]
    else:
        rows = (_tilted_runs if part == "tilt" else _searched)(group, deltas, plain_steps)
    return columns_of(rows, _TILT_EMPTY)


def _tilted(tokens: Tokens, v: Floats, seed: int, delta: float) -> Floats:
    """v + u, u in a random direction across v, so that the scores of an input's other tokens differ
    by at most delta times its least gap, and by just this much on one input.

    Keys stay, so that W^mm of the best tokens is the same.
    """
    if delta == 0.0:
        return v
    X, y = np.asarray(tokens.X), np.asarray(tokens.labels)
    u = np.random.default_rng([1, seed]).standard_normal(v.shape) * (v == 0)
    top = Selection.best(tokens, v).indices
    others = np.arange(tokens.X.shape[1]) != top[:, None]
    moved = y[:, None] * (X @ u)
    spread = np.where(others, moved, -np.inf).max(axis=1) - np.where(others, moved, np.inf).min(
        axis=1
    )
    scores = np.sort(y[:, None] * (X @ v), axis=1)
    gap = float((scores[:, -1] - scores[:, -2]).min())
    return np.asarray(v + u * delta * gap / float(spread.max()))


def _heads(group: Group, delta: float) -> Floats:
    rows = zip(group.tokens, group.heads, group.seeds, strict=True)
    return np.stack([_tilted(t, v, seed, delta) for t, v, seed in rows])


def _tilted_runs(group: Group, deltas: Sequence[float], steps: int) -> list[Row]:
    found, starts = group.solved(group.best), group.drawn.starts or {}
    out: list[Row] = []
    for delta in deltas:
        heads = _heads(group, delta)
        W = own_descent(group.tokens, heads, starts["W"], steps=steps).W[-1]
        for b, (t, v, c) in enumerate(zip(group.tokens, heads, found, strict=True)):
            end = proved_end(t, v, W[b], _lr(t, v), best=group.best[b])
            gap = np.nan if c.status == "infeasible" else float(c.gap)
            out.append({"seed": group.seeds[b], "delta": delta, "end": end, "gap": gap})
    return out


def _searched(group: Group, deltas: Sequence[float], steps: int) -> list[Row]:
    pairs = zip(group.tokens, group.heads, strict=True)
    starts = [contradicting_start(t, v)[1] for t, v in pairs]
    out: list[Row] = []
    for delta in deltas:
        for b, v in enumerate(_heads(group, delta)):
            t, lr = group.tokens[b], _lr(group.tokens[b], v)
            ends = (
                proved_end(t, v, m * starts[b], lr, best=group.best[b])
                for m in _MULTIPLES
                if np.isfinite(starts[b]).all()
            )
            out.append({"seed": group.seeds[b], "delta": delta, "astray": "elsewhere" in ends})
    return out


def _inside(runs: Table) -> Table:
    """The runs whose limit is proved at equal scores, at every tilt."""
    return runs[runs.seed.isin(runs.seed[(runs.delta == 0) & (runs.end == "best")])]


def checks_nearly(table: Table, thresholds: Any) -> Iterator[Found]:
    """From starts whose limit is proved at equal scores, small differences keep it; those that
    contradict at equal scores contradict here."""
    parts = dict(list(table.groupby("part")))
    runs, search = parts["tilt"], parts["search"]
    inside = _inside(runs)
    count, deltas = inside.seed.nunique(), sorted(runs.delta.unique())
    small = next(delta for delta in deltas if delta > 0)
    ends = inside.end[inside.delta == small]
    yield at_least("runs proved to end at the best tokens at equal scores", count, 1)
    yield equals(f"of them not proved at the same limit at δ = {small:g} gaps",
                 (ends != "best").sum(), 0)  # fmt: skip
    yield equals(f"of them proved elsewhere at δ = {small:g} gaps", (ends == "elsewhere").sum(), 0)
    # With two tokens there is one other score, so that it is equal for every δ.
    example = bool(parts["example"].astray.any())
    yield equals(f"the two-input example from ({_FAR:g}, 0), proved to tend elsewhere for every δ",
                 example, 0)  # fmt: skip
    astray = search.groupby("delta").astray.sum()
    yield equals(f"instances with a start proved to tend elsewhere at δ = {small:g} gaps",
                 astray[small], 0)  # fmt: skip
    gap = runs.gap.max()
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    total = runs.seed.nunique()
    yield Premises(
        count + 1,
        f"{count} of {total} runs are proved to end at the best tokens at equal scores",
        gap,
    )
    if example or astray[small]:
        yield Note(
            "Theorem 5 of v1 says 'for any W(0)' and inherits the fault of Theorem 4. Smallest "
            "instance: the two inputs of two tokens there, where the other scores are equal for "
            f"every δ; from ({_FAR:g}, 0) descent is proved to tend elsewhere. With three tokens, "
            f"{astray[small]} of {total} random instances have such a start at δ = {small:g} gaps."
        )


# ---------------------------------------------------------------- studies

_study = partial(
    Study, kind="theorem", source="paper", family="equal-scores", reference="tarzanagh2023svm"
)
_RUNS = [("run", 1, 4, 4), ("run", 2, 2, 2), ("run", 3, 3, 4)]

EQUAL = _study(
    id="B.equal-scores-global",
    title="Equal scores: every start ends at the best tokens",
    statement="If all tokens of an input but its best share one score and the best tokens can be "
    "separated, gradient descent on W with a step of at most 1/L_W converges in direction to the "
    "max-margin solution of the best tokens from any starting point.",
    grid={
        "part n T d": [
            ("example", 2, 2, 2),
            ("search", 2, 2, 2),
            ("search", 3, 3, 2),
            ("search", 3, 3, 3),
            ("search", 3, 3, 4),
            *_RUNS,
        ]
    },
    run={"example_steps": 100_000, "random_steps": 40_000},
    seeds=60,
    group=30,
    measure=from_all_starts,
    checks=checks_equal,
    quick={
        "grid": {
            "part n T d": [("example", 2, 2, 2), ("search", 2, 2, 2), ("search", 3, 3, 2), *_RUNS]
        },
        "run": {"example_steps": 20_000, "random_steps": 3000},
        "seeds": 8,
    },
    figure={
        "kind": "paths",
        "where": lambda t: (t.part == "example") & ~t.duplicated(["part", "size", "step"]),
        "x": "p1",
        "y": "p2",
        "each": "size",
        "lines": "size",
        "level": 0.0,
        "xlabel": "p₁",
        "ylabel": "p₂",
        "title": "Two inputs, W^mm ∝ (1, 3), by the start (size, 0)",
    },
    differs="With two or more inputs the statement does not hold from every start: where the "
    "solution of some inputs leaves the best token of every other one behind by more than the "
    "margin, their pull falls faster than that of the first ones, and a start far enough along it "
    "ends there. Proofs of convergence say so at the start, for every step up to 1/L_W. With one "
    "input it stands. Later wording of the authors asks for a proper starting point.",
    theorem="v1, Theorem 4",
)

NEARLY = _study(
    id="B.nearly-equal-scores",
    title="Nearly equal scores: the same limit",
    statement="For any W(0) there is a δ > 0 such that plain descent with η ≤ 1/L_W tends to the "
    "direction of W^mm of the best tokens wherever the scores of the other tokens of an input are "
    "equal up to δ.",
    grid={"part n T d": [("tilt", 3, 3, 4), ("search", 3, 3, 2), ("example", 2, 2, 2)]},
    run={"deltas": [0.0, 0.001, 0.01, 0.1, 0.3, 1.0], "plain_steps": 20_000},
    seeds=40,
    group=20,
    measure=under_tilts,
    checks=checks_nearly,
    quick={"run": {"deltas": [0.0, 0.001, 0.1, 1.0], "plain_steps": 4000}, "seeds": 6},
    figure={
        "kind": "curves",
        "where": lambda t: t.index.isin(_inside(t[t.part == "tilt"]).index),
        "x": "delta",
        "value": {
            "end == 'best'": "proved: the same limit",
            "end == 'elsewhere'": "proved: elsewhere",
        },
        "xlabel": "δ, in gaps to the best score",
        "ylabel": "share of runs, 95 % intervals",
        "title": "Starts whose limit is proved at δ = 0",
    },
    differs="It inherits the fault of Theorem 4: from the starts that contradict that one, no δ "
    "helps. From starts whose limit at equal scores is proved at a finite step it stands, by "
    "continuity of that step in the scores.",
    theorem="v1, Theorem 5",
)

STUDIES = (EQUAL, NEARLY)
