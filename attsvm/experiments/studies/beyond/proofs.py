"""Beyond: starts and runs that are proved to keep their tokens (docs/convergence.md).

Starts R u: u goes round a plane, R up to a million. Each is looked at twice: by a proof at step 0,
and, up to the largest R that the steps can turn, by training from there. As R grows along u, W =
ρŴ + ρp, the inequalities of the theorems tend to inequalities without R (`limit_room`), and every
direction that meets these strictly is proved.

Runs start from N(0, 1) and are looked at on a grid of records, about 15 % apart; the first that has
a proof is found by halving. What is asked was fixed by the theorems and by earlier runs on other
draws (docs/convergence-evidence.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.families import drawn
from attsvm.experiments.group import Group, Parts, selected_by, thinned
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.experiments.studies.shared.random_instances import selected_problems
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import Prover, prover
from attsvm.theory.optima import Optimality, local_optima, optimality, score_gaps
from attsvm.training.path import Path

# ---------------------------------------------------------------- starts by proof

# Records of each run that are looked at.
_KEPT = 6
# A direction with this slack is proved at a norm of a million, where e^(−ρ · slack) underflows.
_ROOM = 0.01
# Slack below this is rounding.
_TIGHT = 1e-7


@dataclass(frozen=True, eq=False)
class StartPlane:
    """An instance, and directions (A, d, dq) of norm 1 round the plane of its starts."""

    tokens: Tokens
    v: Floats
    directions: Floats

    @staticmethod
    def of(kind: str, seed: int, *, shape: Sequence[int], angles: int) -> StartPlane:
        """The first draw of a seed with two locally optimal selections.

        plane: the plane of the prompt; slice: of W, through the solutions of two such selections.
        """
        place = 0
        best: list[Any] = []
        while len(best) < 2:
            tokens, v = (
                _planar(seed, place) if kind == "plane" else drawn(shape, seed + 1000 * place)
            )
            best = [o.certificate.W for _, o in local_optima(tokens, v).local if o.locally]
            place += 1
        axes = (
            np.eye(2)[:, :, None] if kind == "plane" else _orthonormal(*map(np.asarray, best[:2]))
        )
        turn = 2 * np.pi * (np.arange(angles) + 0.5) / angles
        return StartPlane(tokens, v, np.einsum("ka,kxy->axy", [np.cos(turn), np.sin(turn)], axes))


def _planar(seed: int, place: int) -> tuple[Tokens, Floats]:
    """A prompt of two entries: two inputs of five tokens, keys and values drawn apart."""
    draw = np.random.default_rng([seed, place, 2])
    X, keys = draw.standard_normal((2, 2, 5, 2))
    y = draw.choice([-1.0, 1.0], 2)
    return Tokens(X, keys=keys, labels=y), draw.standard_normal(2)


def _orthonormal(first: Floats, second: Floats) -> Floats:
    one = first / np.linalg.norm(first)
    rest = second - (second * one).sum() * one
    return np.stack([one, rest / np.linalg.norm(rest)])


def limit_room(here: StartPlane, u: Floats, found: Optimality, *, lr: float) -> float:
    """The room of a direction u in the theorems' inequalities as the norm grows along u.

    With ρ taken out, P = ρp, p = q + f, q in the span of the tight rows and f free of it. The cone
    asks 1 + slack > ‖a⊥‖‖p‖ of all rows and slack > ‖a⊥‖‖p‖ of better tokens; the tube, for steps
    h < 1/(NL), 1 + slack + ⟨a, f⟩ > ‖a⊥‖‖q‖ of all rows, slack + ⟨a, f⟩ > ‖a⊥‖‖q‖ of better
    tokens and slack + ⟨a, f⟩ > 0 of the other rows that are not tight.
    """
    problem, alpha = found.certificate.problem, selected_by(here.tokens, u)
    D, z = problem.differences(np.arange(problem.m)), problem.queries[problem.query]
    a = np.einsum("kd,kq->kdq", D, z).reshape(problem.m, -1)
    good = score_gaps(here.tokens, alpha, here.v)[0][problem.rows[:, 0], problem.rows[:, 2]] > 0
    best = np.asarray(found.certificate.W).ravel()
    square = float(best @ best)
    rho = float(u.ravel() @ best) / square
    if rho <= 0:
        return -np.inf
    slack = a @ best - 1
    across = a - np.outer(1 + slack, best) / square
    length = np.linalg.norm(across, axis=1)
    p = u.ravel() / rho - best
    tight = slack < _TIGHT
    _, s, basis = np.linalg.svd(a[tight], full_matrices=False)
    basis = basis[s > _TIGHT * s[0]]
    q = basis.T @ (basis @ p)
    at = np.where(tight, 0.0, a @ (p - q))
    far = length * np.linalg.norm(p)
    cone = min((1 + slack - far).min(), (slack - far)[~good].min(initial=np.inf))
    pairs = np.linalg.norm(across[good][:, None] - across[good], axis=2)
    if lr * np.sqrt(square) * pairs.max(initial=0.0) ** 2 / 4 >= 1:
        return float(cone)
    near = slack + at - length * np.linalg.norm(q)
    tube = min(
        (1 + near).min(),
        near[~good].min(initial=np.inf),
        (slack + at)[good & ~tight].min(initial=np.inf),
    )
    return float(max(cone, tube))


def measure_basins(
    group: Group, kind: str, shape: Sequence[int], angles: int, norms: Sequence[float],
    beyond: Sequence[float], further: int,
) -> Parts:  # fmt: skip
    """A row per start, of every direction at every norm; those of `beyond` are not trained.

    able: whether the tokens of the direction are certified locally optimal; room: as in
    `limit_room`, −inf where they are not. proved: at step 0; left: of every third of
    these, whether further longest steps leave the tokens. stays: training
    keeps the tokens at all records that are looked at, and they are locally optimal; nan untrained.
    """
    lr, parts, every = group.run["lr"], [], np.array([*norms, *beyond])
    for seed in group.seeds:
        here = StartPlane.of(kind, seed, shape=shape, angles=angles)
        judge = prover(here.tokens, head=here.v, lr=lr)
        W = (every[:, None, None, None] * here.directions).reshape(-1, *here.directions.shape[1:])
        proofs = [judge.prove(M, explain=False) for M in W]
        proved, left = np.array([proof.proved for proof in proofs]), np.zeros(len(W), dtype=bool)
        for k in proved.nonzero()[0][::3]:
            walk = _trained(here, W[[k]], proofs[k].longest_step, further)
            left[k] = (walk.changed > 0).any()
        path = _trained(here, W[: len(norms) * angles], lr, group.run["steps"])
        records = path.matrices()[thinned(path.steps, _KEPT)]
        seen = np.array([[selected_by(here.tokens, M) for M in record] for record in records])
        tops = np.stack([selected_by(here.tokens, u) for u in here.directions])
        known = {
            alpha: optimality(here.tokens, Selection.of(here.tokens, list(alpha)), here.v)
            for alpha in {tuple(row) for row in [*tops.tolist(), *seen[-1].tolist()]}
        }
        first = [known[tuple(alpha)] for alpha in tops.tolist()]
        rooms = [
            limit_room(here, u, verdict, lr=lr) if verdict.locally else -np.inf
            for u, verdict in zip(here.directions, first, strict=True)
        ]
        held = (seen == np.tile(tops, (len(norms), 1))).all(axis=(0, 2))
        held &= [known[tuple(alpha)].locally is True for alpha in seen[-1].tolist()]
        parts.append({
            "seed": seed,
            "norm": np.repeat(every, angles),
            "able": np.tile([verdict.locally is True for verdict in first], len(every)),
            "room": np.tile(rooms, len(every)),
            "proved": proved,
            "left": left,
            "stays": np.append(held, np.full(len(W) - len(held), np.nan)),
            "gap": max(float(o.certificate.gap) for o in known.values() if o.locally),
        })  # fmt: skip
    return parts


def _trained(here: StartPlane, W: Floats, lr: float, steps: int) -> Path:
    """The run from W (B, d, dq)."""
    prompt = here.tokens.queries.shape[1] == 1
    return train(
        [here.tokens] * len(W), model="prompt" if prompt else "weight", head=here.v, lr=lr,
        steps=steps, init={"p": W[:, :, 0]} if prompt else {"W": W},
    )  # fmt: skip


def checks_basins(table: Table, thresholds: Any) -> Checks:
    """No start that is proved ends elsewhere; the share proved against the norm, and its limit."""
    trained, far = table[table.stays.notna()], table[table.norm == table.norm.max()]
    proved = table.groupby("norm").proved
    shares, falls = proved.mean(), -proved.sum().diff().min()
    room = far.room > _ROOM
    yield equals("starts that are proved and do not keep their tokens in training",
                 (trained.proved & (trained.stays == 0)).sum(), 0)  # fmt: skip
    yield equals("proved starts, every third, that leave in further longest steps",
                 table.left.sum(), 0)  # fmt: skip
    yield equals("directions with room that are not proved at the largest norm",
                 (room & ~far.proved).sum(), 0)  # fmt: skip
    yield at_most("largest fall of the directions proved from a norm to the next", max(0, falls),
                  max(1.0, 0.02 * len(far)))  # fmt: skip
    at_ten = np.interp(1.0, np.log10(shares.index), shares)
    yield at_least("share proved at the largest norm less that at norm 10",
                   shares.iloc[-1] - at_ten, 0.05)  # fmt: skip
    yield equals("directions proved whose tokens are not locally optimal",
                 (table.proved & ~table.able).sum(), 0)  # fmt: skip
    yield at_most("share proved at the largest norm less that of directions with room",
                  shares.iloc[-1] - room.mean(), 0.1)  # fmt: skip
    yield info("share of directions with room", room.mean())
    gap, sure = table.gap.max(), int(trained.proved.sum())
    planes = table.groupby(["kind", "seed"]).ngroups
    yield Premises(
        sure,
        f"{len(trained)} starts round {planes} planes are trained, {sure} of them proved at step 0",
        gap,
    )


STUDY_BASINS = Study(
    id="beyond.basins-by-proof",
    title="Basins by proof beside basins by experiment",
    kind="question",
    source="measured",
    statement="No start that is proved at step 0 to be held by its tokens leaves them in training. "
    "Along a ray the share that is proved grows with the norm, not to 1 but to the share of "
    "directions that satisfy inequalities without a norm: others go to other tokens, or are held "
    "without a proof.",
    grid={"kind": ["plane", "slice"]},
    run={
        "shape": [3, 4, 4],
        "angles": 36,
        "norms": [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
        "beyond": [1e3, 1e4, 1e6],  # proofs alone
        "lr": 0.1,
        "steps": 10_000,
        "further": 300,
    },
    seeds=2,
    first=100,
    group=1,
    measure=measure_basins,
    checks=checks_basins,
    gap=1e-8,
    quick={
        "seeds": 1,
        "run": {
            "angles": 12,
            "norms": [1.0, 10.0, 100.0],
            "beyond": [1e3, 1e6],
            "steps": 6000,
            "further": 50,
        },
    },
    figure={
        "kind": "curves",
        "x": "norm",
        "value": {"stays": "held by training", "proved": "proved at step 0"},
        "panels": "kind",
        "middle": "mean",
        "log": "x",
        "xlabel": "norm of the start",
        "ylabel": "share of starts (mean, two errors)",
    },
)
# ---------------------------------------------------------------- runs by proof

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


def measure_runs(group: Group, start: int, further: int, block: int) -> Parts:
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


def checks_runs(table: Table, thresholds: Any) -> Checks:
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

STUDY_RUNS = Study(
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
    measure=measure_runs,
    checks=checks_runs,
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
STUDIES = (STUDY_BASINS, STUDY_RUNS)
