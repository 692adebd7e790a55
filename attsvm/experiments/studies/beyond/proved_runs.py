"""Beyond: how often and when a run is proved to converge, by its size, step and optimizer.

A run is proved from one W on: docs/convergence.md. Runs start from N(0, 1) and are looked at on a
grid of records, about 15 % apart; the first that has a proof is found by halving. What is asked was
fixed by the theorems and by earlier runs on other draws (docs/convergence-evidence.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, selected_by
from attsvm.experiments.studies.shared.attending_runs import selected_problems
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import Prover, prover
from attsvm.theory.optima import score_gaps
from attsvm.training.path import Path

# Every third record is looked at: they are 15 % apart.
_EVERY = 3
# The records that are returned: before the first proof, at it, later, and the last.
BEFORE, FIRST, LATER, LAST = range(4)


def first_proved(judge: Prover, W: Floats) -> Ints:
    """The records BEFORE, FIRST, LATER, LAST of a run W (R, d, d); the last without a proof."""
    last = len(W) - 1
    grid = np.arange(last % _EVERY, last + 1, _EVERY)
    top = np.stack([judge.selected(W[r]) for r in grid])
    loose = (top != top[-1]).any(axis=1).nonzero()[0]
    low, high = int(loose[-1]) if len(loose) else -1, len(grid) - 1
    if not judge.prove(W[last], explain=False).proved:
        return np.full(4, last)
    while high - low > 1:
        middle = (low + high) // 2
        proved = judge.prove(W[grid[middle]], explain=False).proved
        low, high = (low, middle) if proved else (middle, high)
    later = grid[(high + len(grid) - 1) // 2]
    return np.array([grid[max(low, 0)], grid[high], later, last])


# Proved runs of so many, within so many steps, on other draws.
EARLIER = {
    "6x8x10 ngd 0.1": (100, 100, 6000),
    "20x5x12 ngd 0.1": (84, 100, 6000),
    "6x8x10 gd 50": (45, 100, 60_000),
    "6x8x10 nmirror:1.75 0.1": (12, 12, 7500),
}
# The median norm at the first proof on other draws, ngd 0.1.
MEDIANS = {"2x3x3": 14.0, "3x4x4": 26.0, "6x8x10": 52.7, "10x10x15": 123.0, "20x5x12": 183.0}
# The size on which plain and mirror descent are run as well.
ONE_SIZE = (6, 8, 10)
# What must not be seen of a proof, by the column that counts it.
FAULTS = {
    "refused": "proofs, every third, that their own recheck refuses",
    "earlier": "runs that are proved one record earlier than said",
    "left": "saved records after a proof with another selection",
    "above": "saved records above a proved bound",
    "uncertified": "proved runs without a certified solution at their last tokens",
    "walked_away": "proved runs that leave their selection in further steps of the longest length",
}


def measure(group: Group, start: int, further: int, block: int) -> Parts:
    """A row per run: whether it is proved, from which norm on, and the faults that are seen.

    lr 0 stands for 1/L_W of each instance. Mirror descent, which is slow, has every other block of
    so many seeds. wide: the certified gap as a share of the norm's own tolerance. pressed: ρ times
    the least slack of a better token; inf without one. kept: the tokens at the first proof, or at
    the end.
    """
    run, optimizer = group.run, group.run["optimizer"]
    p = _power(optimizer)
    which = [b for b, seed in enumerate(group.seeds) if p == 2 or seed // block % 2 == 0]
    if not which:
        return []
    tokens, heads = [group.tokens[b] for b in which], group.heads[which]
    seeds = [group.seeds[b] for b in which]
    lr = np.array([run["lr"] or 1 / smoothness(t, v) for t, v in zip(tokens, heads, strict=True)])
    paths = [
        train(
            t, head=v, optimizer=optimizer, lr=float(each), steps=run["steps"],
            init={"W": np.random.default_rng([start, seed]).standard_normal((1, t.d, t.d))},
        )
        for t, v, each, seed in zip(tokens, heads, lr, seeds, strict=True)
    ]  # fmt: skip
    ends = np.stack([path.weights["W"][-1, 0] for path in paths])
    found = solve_many(selected_problems(tokens, ends), "frobenius" if p == 2 else f"l{p:g}")
    judges = [
        prover(t, head=v, optimizer=optimizer, lr=float(each))
        for t, v, each in zip(tokens, heads, lr, strict=True)
    ]
    return [
        _seen(seeds[b], judge, paths[b], found[b], further) for b, judge in enumerate(judges)
    ]  # fmt: skip


def _power(optimizer: str) -> float:
    """The exponent of the optimizer's geometry."""
    return float(optimizer.partition(":")[2] or 2.0)


def _seen(seed: int, judge: Prover, run: Path, best: Certificate, further: int) -> dict[str, Any]:
    """The row of a run and of further steps from its first proof."""
    steps, W = run.steps, run.weights["W"][:, 0]
    places = first_proved(judge, W)
    seen = np.ascontiguousarray(W[places])
    proof = judge.prove(seen[FIRST], explain=False)
    tokens, kept = proof.tokens, selected_by(proof.tokens, seen[FIRST])
    row: dict[str, Any] = {
        "seed": seed, "size": "x".join(map(str, tokens.X.shape)), "proved": bool(proof.proved),
        "theorem": "", "kept": " ".join(map(str, kept)), **dict.fromkeys(FAULTS, 0),
        **dict.fromkeys(("norm", "pressed", "gap", "wide"), np.nan),
    }  # fmt: skip
    if not proof.proved:
        return row
    p = _power(proof.optimizer)
    norm = float((np.abs(seen[FIRST]) ** p).sum() ** (1 / p))
    row |= {"norm": norm, "theorem": str(proof.theorem)}
    row["refused"] = int(seed % 3 == 0 and not proof.verify())
    if places[BEFORE] < places[FIRST]:
        row["earlier"] = int(judge.prove(seen[BEFORE], explain=False).proved)
    path = train(
        tokens, head=proof.head, optimizer=proof.optimizer, lr=proof.longest_step, steps=further,
        init={"W": proof.W},
    )  # fmt: skip
    row["walked_away"] = int((path.changed > 0).any())
    row["uncertified"] = int(best.W is None)
    if best.W is None:
        return row
    row |= {"gap": float(best.gap), "wide": float(best.gap) / best.norm.tolerance}
    for r in (LATER, LAST):
        row["left"] += int((selected_by(tokens, seen[r]) != kept).any())
        bound = float(proof.bound(steps[places[r]] - steps[places[FIRST]]))
        row["above"] += int(np.isfinite(bound) and _above(seen[r], best, bound))
    gaps, rows = score_gaps(tokens, kept, proof.head)[0], best.problem.rows
    better = gaps[rows[:, 0], rows[:, 2]] < 0
    row["pressed"] = float(norm / best.upper * (best.margins[better] - 1).min(initial=np.inf))
    return row


def _above(W: Floats, best: Certificate, bound: float) -> bool:
    """Whether 1 − corr(W, W^mm) is above the bound, W^mm within the certificate's own angle."""
    V = np.asarray(best.W)
    apart = float(np.linalg.norm(W / np.linalg.norm(W) - V / np.linalg.norm(V)))
    known = np.arccos(np.clip(best.lower / best.upper, -1, 1)) + 1e-12
    allowed = np.arcsin(np.sqrt(min(bound, 2.0) / 2)) + known / 2
    return bool(np.arcsin(min(apart / 2, 1.0)) > allowed)


def _median(norms: Any) -> float:
    """The median norm at the first proof; runs without one count as larger."""
    return float(norms.fillna(np.inf).median())


def checks(table: Table, thresholds: Any) -> Checks:
    """Every proof again; nothing proved has left; shares and norms beside the earlier ones."""
    for name, text in FAULTS.items():
        yield equals(text, table[name].sum(), 0)
    cells = table.groupby(["size", "optimizer", "lr", "steps"], sort=False)
    for (size, optimizer, lr, steps), rows in cells:
        name = f"{size} {optimizer} {lr:g}" if lr else f"{size} {optimizer} 1/L"
        yield info(f"{name}: share proved in {steps:,} steps", rows.proved.mean())
        if name in EARLIER and steps >= EARLIER[name][2]:
            few, of, _ = EARLIER[name]
            # The chance of so few or fewer here if both shares were one.
            chance = hypergeom.cdf(rows.proved.sum(), of + len(rows), few + rows.proved.sum(),
                                   len(rows))  # fmt: skip
            yield at_least(f"{name}: chance of so few, were it {few} of {of}", chance, 1e-3)
        if optimizer == "ngd" and lr == 0.1:
            earlier = MEDIANS[size]
            ratio = _median(rows.norm) / earlier
            yield at_most(f"{name}: factor between the median norm at the proof and {earlier:g}",
                          max(ratio, 1 / ratio), 2)  # fmt: skip
    yield from _law(table)
    by = table.theorem[table.proved].value_counts()
    yield at_most("largest certified gap over the tolerance of its norm", table.wide.max(), 1)
    yield Premises(
        int(by.sum()),
        f"{len(table)} runs in {cells.ngroups} cells, {by.sum()} proved: "
        + ", ".join(f"{word} {count}" for word, count in by.items()),
        table.gap.max(),
    )


def _law(table: Table) -> Checks:
    """When the proof comes: the step matters little until it is long, the nearest rival much."""
    normalized = table[table.optimizer == "ngd"]
    runs = normalized.set_index(["size", "seed", "lr"])[["norm", "kept"]].unstack("lr")
    same = runs[runs["kept", 0.02] == runs["kept", 0.1]]
    short = (same["norm", 0.02] / same["norm", 0.1]).median()
    yield at_most("factor between the norms at the proof, step 0.02 against 0.1, median",
                  max(short, 1 / short), 1.25)  # fmt: skip
    one = runs.loc["x".join(map(str, ONE_SIZE))].norm
    yield at_least("norm at the proof, step 1 over 0.1, one size, ratio of medians",
                   _median(one[1.0]) / _median(one[0.1]), 2)  # fmt: skip
    pressed = normalized[normalized.lr != 1].pressed.dropna()
    rivals = pressed[np.isfinite(pressed)]
    what = "‖W‖ · slack of the nearest better token / N at the proof, median"
    yield at_least(what, rivals.median(), 3)
    yield at_most("the same", rivals.median(), 12)
    plain = table[table.optimizer == "gd"].groupby("lr").proved.mean()
    if {0.0, 50.0} <= set(plain.index):
        yield at_least("plain descent: share proved at step 50 less that at 1/L",
                       plain[50.0] - plain[0.0], 0.1)  # fmt: skip


def _cells(
    sizes: Sequence[tuple[int, int, int]], plain: dict[float, int], mirror: dict[str, int]
) -> list[tuple[Any, ...]]:
    """Normalized descent on every size; plain and mirror descent on one: n, T, d, optimizer, lr and
    steps."""
    lengths = {0.02: 30_000, 0.1: 6000, 1.0: 3000}
    out = [(*size, "ngd", lr, steps) for size in sizes for lr, steps in lengths.items()]
    out += [(*ONE_SIZE, "gd", lr, steps) for lr, steps in plain.items()]
    return out + [(*ONE_SIZE, f"nmirror:{p}", 0.1, steps) for p, steps in mirror.items()]


_SIZES = [(2, 3, 3), (3, 4, 4), ONE_SIZE, (10, 10, 15), (20, 5, 12)]

STUDY = Study(
    id="beyond.proved-runs",
    title="How often and when a run is proved to converge",
    kind="question",
    source="measured",
    statement="Normalized descent with short steps is proved to converge in nearly every run, at a "
    "norm that grows with the size of the instance and hardly depends on the step while it is "
    "short; long steps are proved later, plain descent less often. Where a better-scoring token is "
    "left behind, the norm over N times that token's slack is a few in the median, not in every "
    "run. No proved run leaves its tokens or its bound.",
    family="sphere",
    # lr 0: 1/L_W
    grid={
        "n T d optimizer lr steps": _cells(
            _SIZES, {0.0: 20_000, 50.0: 60_000}, {"1.75": 7500, "2.5": 2500}
        )
    },
    run={"queries": "first", "start": 7, "further": 300, "block": 5},
    seeds=10,
    first=100,
    group=5,
    measure=measure,
    checks=checks,
    quick={
        "grid": {
            "n T d optimizer lr steps": _cells([(2, 3, 3), ONE_SIZE], {50.0: 6000}, {"1.75": 1200})
        },
        "seeds": 3,
        "run": {"further": 100, "block": 2},
    },
    figure={
        "kind": "curves",
        "x": "lr",
        "value": {"proved": "share of runs proved", "norm": "‖W‖ at the first proof"},
        "apart": True,
        "lines": "size",
        "where": {"optimizer": "ngd"},
        "log": "x",
        "xlabel": "length of a step",
        "ylabel": "",
    },
    tolerances={"wide": 1e-3},
)
