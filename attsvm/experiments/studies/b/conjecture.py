"""B: with all margins tight and Assumption D, does every run end at the best tokens?

Assumption D: every other selection α has an input i with α_i ≠ opt_i whose best token is tight at
W^mm_α. No other selection is locally optimal then, so that no direction but W^mm holds runs that
start near it. Certified from the solutions of all T^n selections.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, cosines
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.experiments.studies.shared.random_instances import compact_sphere
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import prover
from attsvm.theory.landscape import all_tight

OPTIMIZERS = ("gd", "ngd")
_WORDS = {True: "yes", False: "no", None: "open"}


def _assumptions(best: Ints, found: list[Certificate]) -> tuple[bool | None, bool | None, Ints]:
    """Whether the certificates of all selections prove B.1 and D, None where they do not decide,
    and how many wrong inputs of each selection do not have their best token tight."""
    tight: bool | None = None
    pulled: bool | None = True
    loose = np.zeros(len(found), dtype=np.int64)
    for k, c in enumerate(found):
        rows = c.problem.rows
        own = rows[:, 2] == best[rows[:, 0]]
        if not own.any():
            tight = all_tight(c)
            continue
        loose[k] = (~c.tight.tight[own]).sum()
        if loose[k] == own.sum():
            # Undecided rows leave the assumption open; certified loose ones break it.
            pulled = False if c.tight.loose[own].all() else (None if pulled else pulled)
    return tight, pulled, loose


def measure(
    group: Group, along: int, ngd_steps: int, gd_steps: int = 30_000, plain: int = 2,
    sizes: Sequence[float] = (0.1, 0.5, 3.0), far: float = 10.0,
) -> Parts:  # fmt: skip
    """All selections of every instance; plain and normalized runs where both assumptions hold.

    Rows "instance" say which assumptions hold; rows "gd" and "ngd" are of one run each: whether its
    end is proved to converge, and to the best tokens (right). Starts are random ones of each size,
    then far out along other selections, those first that have the most wrong inputs without a
    tight best token; plain runs are from the first starts.
    """
    choices = list(product(range(group.tokens[0].T), repeat=group.tokens[0].n))
    parts: Parts = []
    for seed, t, v, best in zip(group.seeds, group.tokens, group.heads, group.best, strict=True):
        found = solve_many([Problem.of(t, Selection.of(t, list(alpha))) for alpha in choices])
        tight, pulled, loose = _assumptions(best, found)
        base = {"seed": seed, "tight": _WORDS[tight], "pulled": _WORDS[pulled],
                "gap": max(float(c.gap) for c in found if c.status != "infeasible")}  # fmt: skip
        parts.append({**base, "row": "instance"})
        if not (tight and pulled):
            continue
        draw = np.random.default_rng([group.run["start"], t.d, seed])
        own = found[choices.index(tuple(best.tolist()))]
        shape = own.problem.shape
        others = [found[k].W for k in np.argsort(-loose, kind="stable")[:along]]
        starts = np.stack([
            *(size * draw.standard_normal(shape) for size in sizes),
            *(np.zeros(shape) if W is None else far * W for W in others),
        ])  # fmt: skip
        # Far out the plain steps are too short for any run to get anywhere.
        for name, begin, lr, steps in (
            ("gd", starts[:plain], 1 / smoothness(t, v), gd_steps),
            ("ngd", starts, group.run["lr"], ngd_steps),
        ):
            path = train([t] * len(begin), head=np.stack([v] * len(begin)), optimizer=name, lr=lr,
                         steps=steps, init={"W": begin})  # fmt: skip
            ends, prove = path.weights["W"][-1], prover(t, head=v, optimizer=name, lr=lr)
            proofs = [prove.prove(W, explain=False) for W in ends]
            parts.append({
                **base, "row": name, "proved": [proof.proved for proof in proofs],
                "right": [bool((proof.selection == best).all()) for proof in proofs],
                "away": np.maximum(1 - cosines(ends, own), 1e-12),
            })  # fmt: skip
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """No run is proved to converge elsewhere, nearly all are to the best tokens."""
    made = table[table.row == "instance"]
    plain, normalized = (table[table.row == name] for name in OPTIMIZERS)
    runs = table[table.row.isin(OPTIMIZERS)]
    yield equals("runs proved to converge to other tokens", (runs.proved & ~runs.right).sum(), 0)
    # A run can sit for thousands of steps at tokens that it leaves later: one in a hundred may
    # still be there.
    there = normalized.proved & normalized.right
    yield at_least("normalized runs proved to converge to the best tokens, share", there.mean(),
                   0.99)  # fmt: skip
    # Plain steps shrink with the gradient: what starts on other tokens may still be there.
    yield at_least("plain runs, η ≤ 1/L_W, proved to converge to the best tokens, share",
                   (plain.proved & plain.right).mean(), 0.8)  # fmt: skip
    judged = int(((made.tight == "yes") & (made.pulled == "yes")).sum())
    unknown = int(((made.tight == "open") | (made.pulled == "open")).sum())
    yield Premises(
        judged,
        f"{judged} of {len(made)} instances have B.1 and D, certified from all their selections; "
        f"{unknown} are open",
    )


STUDY = Study(
    id="B.conjecture",
    title="All margins tight and Assumption D: the best tokens from every start?",
    kind="question",
    source="paper",
    statement="A conjecture: with all margins tight (B.1), Assumption D and unique best tokens, "
    "gradient descent on W with a proper constant step tends to the max-margin direction of the "
    "best tokens, for almost all data. Tested on instances with both assumptions certified, from "
    "random starts and from far out along other selections.",
    family=compact_sphere,
    grid={"d": [4, 6, 11, 22]},
    run={"n": 3, "T": 3, "along": 8, "ngd_steps": 15_000},
    seeds=20,
    group=10,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={"grid": {"d": [6, 22]}, "seeds": 5, "run": {"along": 3, "ngd_steps": 5000}},
    figure={
        "kind": "histogram",
        "where": lambda t: t.row.isin(OPTIMIZERS),
        "value": "away",
        "lines": "row",
        "log": True,
        "xlabel": "1 − correlation to W^mm at the end",
        "ylabel": "runs",
    },
    theorem="v1, section 5.2",
)
