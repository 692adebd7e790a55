"""Beyond: which starts are proved to be held by their tokens, beside those that training holds.

Starts R u: u goes round a plane, R up to a million. Each is looked at twice: by a proof at step 0,
and, up to the largest R that the steps can turn, by training from there. As R grows along u, W =
ρŴ + ρp, the theorems of docs/convergence.md prove every direction with room to spare in
inequalities that hold no R any more; those of `limit_room`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, selected_by, thinned
from attsvm.experiments.studies.shared.random_instances import drawn
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.prover import prover
from attsvm.theory.optima import Optimality, local_optima, optimality, score_gaps
from attsvm.training.path import Path

# Records of each run that are looked at.
_KEPT = 6
# A direction with this much room is proved at a norm of a million: e^(−ρ · room) is nothing there.
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


def measure(
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


def checks(table: Table, thresholds: Any) -> Checks:
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


STUDY = Study(
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
    measure=measure,
    checks=checks,
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
