"""E: implications of unseen subjects are answered by factors, and not by a merged weight
[huang2025outofcontext]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import ortho_group

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.group import Group
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, info
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

STARTS = (0.1, 0.01, 0.3)
# The nuclear solutions are certified to this, for what is proved of all solutions.
TIGHT = 1e-7


@dataclass(frozen=True, eq=False)
class FactSet:
    """n facts with an implication each, train + test subjects to a fact: in training every subject
    has its fact, and `train` of each fact their implication too.

    Embeddings of subjects, of both relations, and of answers are orthonormal, rotated at random. A
    query is subject + relation; its answer beats every other one by 1.
    """

    n: int
    train: int
    test: int
    seed: int

    @cached_property
    def bases(self) -> tuple[Floats, Floats]:
        """Rows: the answers (2n, 2n), facts first; subjects, then both relations."""
        rng = np.random.default_rng([self.seed, self.n, self.train, self.test])
        S = self.n * (self.train + self.test)
        return tuple(ortho_group.rvs(size, random_state=rng) for size in (2 * self.n, S + 2))  # type: ignore[return-value]

    def asked(self, *, seen: bool) -> tuple[Floats, Ints]:
        """(queries, answers) of the training set, or of the implications left out."""
        each, keys = self.train + self.test, self.bases[1]
        pairs = [
            (fact * each + k, relation, relation * self.n + fact)
            for fact in range(self.n)
            for k in range(each)
            for relation in (0, 1)
            if (relation == 0 or k < self.train) == seen
        ]
        subject, relation, answer = np.array(pairs).T
        return keys[subject] + keys[len(keys) - 2 + relation], answer

    @cached_property
    def problem(self) -> Problem:
        """Every answer of the training set ahead of every other by 1."""
        queries, right = self.asked(seen=True)
        A = 2 * self.n
        hi = np.repeat(right, A - 1)
        lo = np.concatenate([np.delete(np.arange(A), r) for r in right])
        query = np.repeat(np.arange(len(right)), A - 1)
        return Problem(self.bases[0], queries, hi, lo, query, np.ones(len(hi)))

    @cached_property
    def tokens(self) -> Tokens:
        """Attention over the answers, the value of the right one 1 and of the others 0."""
        queries, right = self.asked(seen=True)
        values = np.eye(2 * self.n)[right][:, :, None]
        keys = np.broadcast_to(self.bases[0], (len(right), *self.bases[0].shape))
        return Tokens(values, keys=keys, queries=queries, labels=np.ones(len(right)))

    def margin(self, W: Floats) -> float:
        """The least margin of an implication left out, where the least margin in training is 1."""
        queries, right = self.asked(seen=False)
        logits = queries @ W.T @ self.bases[0].T
        rows = np.arange(len(right))
        own = logits[rows, right]
        logits[rows, right] = -np.inf
        return float((own - logits.max(axis=1)).min() / self.problem.margins(W).min())

    def tied(self, margin: float) -> Problem:
        """The problem with one margin of an implication left out fixed, over another implication;
        by symmetry it stands for all of these."""
        queries, right = self.asked(seen=False)
        other = self.n + (right[:1] - self.n + 1) % self.n
        return replace(
            self.problem, queries=np.concatenate([self.problem.queries, queries[:1]]),
            tie_hi=right[:1], tie_lo=other, tie_query=np.array([len(self.problem.queries)]),
            c=np.array([margin]), c_error=np.zeros(1),
        )  # fmt: skip


def measure(
    group: Group, n: int, m_train: int, m_test: int, steps: int, apart: float
) -> dict[str, Any]:
    """Margins of the certified solutions, of runs, and what a margin elsewhere costs in norm."""
    rows = []
    for seed in group.seeds:
        one = FactSet(n, m_train, m_test, seed)
        said = min(1.0, np.sqrt(m_train / m_test))
        flat, nuclear = solve(one.problem, "frobenius"), solve(one.problem, "nuclear", tol=TIGHT)
        cost = [
            solve(one.tied(said + s), "nuclear", tol=TIGHT).lower / nuclear.upper - 1
            for s in (-apart, apart)
        ]
        row = {
            "said": said,
            "frobenius": one.margin(np.asarray(flat.W)),
            "nuclear": one.margin(np.asarray(nuclear.W)),
            "cost": min(cost),
            "gap": max(float(flat.gap), float(nuclear.gap)),
            "merged": one.margin(_run(one, "weight", "zero", seed, steps)),
        }
        for start in STARTS:
            W = _run(one, "factored", f"normal:{start}", seed, steps)
            row[f"factored_{start}"] = one.margin(W)
            size = float(np.linalg.norm(W, "nuc"))
            row[f"share_{start}"] = float(one.problem.margins(W).min()) * nuclear.lower / size
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _run(one: FactSet, model: str, init: str, seed: int, steps: int) -> Floats:
    path = train(
        one.tokens, model=model, head=np.ones(1), loss="linear", lr=1.0, schedule="sqrt",
        steps=steps, init=init, seed=seed,
    )  # fmt: skip
    return np.asarray(path.matrices()[-1, 0])


def checks(table: Table, thresholds: Any) -> Checks:
    """Both solutions and both ways of training, at every size."""
    yield at_most("Frobenius solution: largest |margin| of implications left out",
                  table.frobenius.abs().max(), 1e-6)  # fmt: skip
    yield at_most("nuclear solution: largest distance of that margin from min(1, √(train/test))",
                  (table.nuclear - table.said).abs().max(), 2e-3)  # fmt: skip
    rise = f"least certified rise of the nuclear norm at margins {thresholds['apart']} away from it"
    yield at_least(rise, table.cost.min(), 0.0)
    yield at_most("merged weight trained: largest |margin|", table.merged.abs().max(), 0.02)
    off = (table[f"factored_{STARTS[0]}"] - table.said).abs()
    yield at_most(f"factors trained from deviation {STARTS[0]}: largest distance from it",
                  off.max(), 0.15)  # fmt: skip
    for start in STARTS:
        name = f"factors from deviation {start}"
        away = table[f"factored_{start}"] - table.said
        yield info(f"{name}: least distance, with its sign", away.min())
        yield info(f"{name}: largest distance, with its sign", away.max())
        yield info(f"{name}: least share of the nuclear margin", table[f"share_{start}"].min())
    yield Premises(len(table), f"{len(table)} sets with orthonormal subjects, relations and "
                   "answers, all separable")  # fmt: skip


STUDY = Study(
    id="E.out-of-context",
    title="Implications of unseen subjects",
    kind="question",
    source="derived",
    statement="After Huang, Zhu et al. 2025: n facts have an implication each, and some subjects "
    "are seen with the fact alone. The Frobenius solution has margin 0 on their implications, the "
    "nuclear one min(1, √(m_train/m_test)), for m_train subjects to a fact seen with the "
    "implication and m_test without; so a weight trained as one matrix does not answer, and as a "
    "product of factors it does, with about that margin.",
    grid={
        "n": [3, 4, 5, 6, 8],
        "m_train m_test": [(1, 1), (1, 3), (3, 1), (1, 4), (2, 4), (2, 6)],
    },
    run={"steps": 40_000, "apart": 0.05},
    seeds=2,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"apart": 0.05},
    quick={"seeds": 1, "grid": {"n": [3, 5]}},
    figure={
        "kind": "scatter",
        "x": "said",
        "y": {"nuclear": "nuclear solution", "frobenius": "Frobenius solution",
              "factored_0.1": "factors trained", "merged": "weight trained"},
        "diagonal": True,
        "xlabel": "min(1, √(m_train/m_test))",
        "ylabel": "margin of implications left out",
    },
    reference="huang2025outofcontext",
)  # fmt: skip
