"""B: with all margins tight and Assumption D, does every run end at the best tokens?

Assumption D: every other selection α has an input i with α_i ≠ opt_i whose best token is tight at
W^mm_α. No other selection is locally optimal then, so that no direction but W^mm holds runs that
start near it. Certified from the solutions of all T^n selections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.experiments.studies.shared.random_instances import compact_sphere
from attsvm.experiments.study import (
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
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import prover
from attsvm.theory.landscape import all_tight

OPTIMIZERS = ("gd", "ngd")


class Assumptions:
    """What the certificates of all selections of an instance prove.

    tight, pulled: Assumptions B.1 and D, None where the certificates do not decide. loose: how many
    wrong inputs of each selection do not have their best token tight. held: the selections that
    break D.
    """

    def __init__(
        self, best: Ints, choices: list[tuple[int, ...]], found: list[Certificate]
    ) -> None:
        self.best, self.found = best, found
        self.tight: bool | None = None
        self.pulled: bool | None = True
        self.loose, self.held = np.zeros(len(choices), dtype=np.int64), []
        for k, (alpha, c) in enumerate(zip(choices, found, strict=True)):
            wrong = np.flatnonzero(np.array(alpha) != best)
            if not len(wrong):
                self.tight, self.own = all_tight(c), c
                continue
            rows, known = c.problem.rows, c.tight
            own = [
                int(np.flatnonzero((rows[:, 0] == i) & (rows[:, 2] == best[i]))[0]) for i in wrong
            ]
            self.loose[k] = int((~known.tight[own]).sum())
            if not known.tight[own].any():
                # Undecided rows leave the assumption open; certified loose ones break it.
                broken = bool(known.loose[own].all())
                self.pulled = False if broken else (None if self.pulled else self.pulled)
                if broken:
                    self.held.append(k)

    @property
    def gap(self) -> float:
        """The largest gap of the selections that can be separated."""
        return max((float(c.gap) for c in self.found if c.status != "infeasible"), default=0.0)

    def along(self, k: int, far: float) -> Floats:
        """`far` times the max-margin W of another selection."""
        W = self.found[k].W
        return np.zeros(self.found[k].problem.shape) if W is None else far * np.asarray(W)


def measure(
    group: Group, sizes: Sequence[float], plain: int, along: int, far: float, gd_steps: int,
    ngd_steps: int,
) -> dict[str, Any]:  # fmt: skip
    """All selections of every instance; plain and normalized runs where both assumptions hold, and
    a run along a selection that breaks D where only that one fails.

    Rows "instance" say which assumptions hold; rows "gd", "ngd" and "without" are of one run each:
    whether its end is proved to converge, and to the best tokens (right).
    """
    n, T = group.tokens[0].n, group.tokens[0].T
    choices = list(product(range(T), repeat=n))
    problems = [
        Problem.of(tokens, Selection.of(tokens, list(a)))
        for tokens in group.tokens
        for a in choices
    ]
    found = solve_many(problems)
    rows: list[dict[str, Any]] = []
    for b, (seed, tokens, v) in enumerate(zip(group.seeds, group.tokens, group.heads, strict=True)):
        one = Assumptions(group.best[b], choices, found[b * len(choices) : (b + 1) * len(choices)])
        base = {"seed": seed, "tight": _word(one.tight), "pulled": _word(one.pulled),
                "gap": one.gap}  # fmt: skip
        rows.append({**base, "row": "instance", "proved": False, "right": False, "away": np.nan})
        runs: list[tuple[str, Floats, float, int]] = []
        if one.tight and one.pulled:
            starts = _starts(group, b, one, sizes=sizes, along=along, far=far)
            # Far out the plain steps are too short for any run to get anywhere.
            runs.append(("gd", starts[:plain], 1 / smoothness(tokens, v), gd_steps))
            runs.append(("ngd", starts, group.run["lr"], ngd_steps))
        elif one.tight and one.pulled is False and one.held:
            start = one.along(one.held[0], far)[None]
            runs.append(("without", start, group.run["lr"], ngd_steps))
        for name, starts, lr, steps in runs:
            rows += [{**base, "row": name, **end}
                     for end in _ends(tokens, v, one, name, starts, lr, steps)]  # fmt: skip
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _word(known: bool | None) -> str:
    return "open" if known is None else "yes" if known else "no"


def _starts(
    group: Group, b: int, one: Assumptions, *, sizes: Sequence[float], along: int, far: float
) -> Floats:
    """Starts (s, d, dq): random ones of each size, then far out along other selections, those
    first that have the most wrong inputs without a tight best token."""
    draw = np.random.default_rng([group.run["start"], group.tokens[b].d, group.seeds[b]])
    shape = one.own.problem.shape
    order = np.argsort(-one.loose, kind="stable")[:along]
    return np.stack(
        [size * draw.standard_normal(shape) for size in sizes]
        + [one.along(int(k), far) for k in order]
    )


def _ends(
    tokens: Tokens, v: Floats, one: Assumptions, name: str, starts: Floats, lr: float, steps: int
) -> Iterator[dict[str, Any]]:
    """What is proved of the end of each run."""
    optimizer = "gd" if name == "gd" else "ngd"
    path = train(
        [tokens] * len(starts), head=np.stack([v] * len(starts)), optimizer=optimizer, lr=lr,
        steps=steps, init={"W": starts},
    )  # fmt: skip
    prove = prover(tokens, head=v, optimizer=optimizer, lr=lr)
    for W in path.weights["W"][-1]:
        proof = prove.prove(W, explain=False)
        right = bool((proof.selection == one.best).all())
        yield {"proved": proof.proved, "right": right, "away": max(1 - cosine(W, one.own), 1e-12)}


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """No run is proved to converge elsewhere, nearly all are to the best tokens."""
    made = table[table.row == "instance"]
    plain, normalized, alone = (table[table.row == name] for name in (*OPTIMIZERS, "without"))
    runs = table[table.row.isin(OPTIMIZERS)]
    yield equals("runs proved to converge to other tokens", (runs.proved & ~runs.right).sum(), 0)
    # A run can sit for thousands of steps at tokens that it leaves later: one in a hundred may
    # still be there.
    there = normalized.proved & normalized.right
    yield at_least("normalized runs proved to converge to the best tokens, share", _mean(there),
                   0.99)  # fmt: skip
    # Plain steps shrink with the gradient: what starts on other tokens may still be there.
    yield at_least("plain runs, η ≤ 1/L_W, proved to converge to the best tokens, share",
                   _mean(plain.proved & plain.right), 0.8)  # fmt: skip
    for d, cell in made.groupby("d"):
        both = (cell.tight == "yes") & (cell.pulled == "yes")
        yield info(f"d = {d}: share with B.1 and D", both.mean())
    yield info("B.1 without D: runs along a selection that breaks D", len(alone))
    yield info("of them proved to converge to other tokens", (alone.proved & ~alone.right).sum())
    yield at_most("largest certified gap", made.gap.max(), norm_of("frobenius").tolerance)
    judged = int(((made.tight == "yes") & (made.pulled == "yes")).sum())
    unknown = int(((made.tight == "open") | (made.pulled == "open")).sum())
    yield Premises(
        judged,
        f"{judged} of {len(made)} instances have B.1 and D, certified from all their selections; "
        f"{unknown} are open; {len(normalized) // max(judged, 1)} starts each",
        made.gap.max(),
    )
    if not judged:
        yield Note("no instance is inside the assumptions")


def _mean(yes: Any) -> float:
    return float(yes.mean()) if len(yes) else 0.0


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
    run={
        "n": 3,
        "T": 3,
        "start": 0,
        "sizes": [0.1, 0.5, 3.0],
        "plain": 2,
        "along": 8,
        "far": 10.0,
        "lr": 0.1,
        "gd_steps": 30_000,
        "ngd_steps": 15_000,
    },
    seeds=20,
    group=10,
    measure=measure,
    checks=checks,
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
    reference="tarzanagh2023svm",
    theorem="v1, section 5.2",
)
