"""D: what the trained model answers on sentences it never saw."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import Checks, Study, Table, at_least, equals
from attsvm.next_token.order import KINDS, Order
from attsvm.next_token.training.train import two_stages
from attsvm.next_token.unseen import answer_unseen

# The gaps of Theorem 3.
GAPS = ("optimal above non-comparable", "non-comparable above non-optimal")


def gaps(found: dict[int, Order], W: Floats) -> Floats:
    """How far the optimal token is above all non-comparable ones, and these above all non-optimal
    ones, in the column of each query that has sentences (queries, 2)."""
    out = []
    for q, order in found.items():
        optimal, lowest = (order.tokens[order.kinds == KINDS[k]] for k in (0, 2))
        others = np.delete(W[:, q], order.tokens)
        out.append((W[optimal, q].min() - others.max(), others.min() - W[lowest, q].max()))
    return np.array(out)


def mixed(found: dict[int, Order]) -> tuple[Ints, Ints]:
    """(words (M, L), their non-comparable token (M,)): every input of different tokens that ends in
    a query with sentences, one of them non-comparable and the others non-optimal."""
    rows, chosen = [], []
    for q, order in found.items():
        lowest = order.tokens[order.kinds == KINDS[2]].tolist()
        if q not in lowest:  # the query is the optimal token, and in every input
            continue
        lowest.remove(q)
        others = np.delete(np.arange(order.vocabulary), order.tokens).tolist()
        for x in others:
            for k in range(len(lowest) + 1):
                rows += [(x, *some, q) for some in combinations(lowest, k)]
        chosen += np.repeat(others, 2 ** len(lowest)).tolist()
    words = np.full((len(rows), max(map(len, rows))), -1)
    for s, row in enumerate(rows):
        words[s, : len(row)] = row
    return words, np.array(chosen)


def measure(group: Group) -> Parts:
    """Gaps of the trained W_kq on each set, then with the second stage taken on to twice its
    updates; wrong: of the inputs of `mixed`, those that are not answered at last with the follower
    of their non-comparable token."""
    rows = shared.LongTable()
    for seed in group.seeds:
        one = shared.ClosedSet(seed, length=6)
        rows.add(seed, one.facts | {"gap": one.W_kq.gap})
        stages = two_stages(one.data)
        rows.add(seed, {"updates": stages.last.steps[-1]})
        for when, W in {"t": stages.W_kq, "2t": shared.doubled(stages)}.items():
            for name, column in zip(GAPS, gaps(one.orders, W).T, strict=True):
                rows.curve(seed, f"{name} at {when}", list(one.orders), column)
        words, chosen = mixed(one.orders)
        ended = answer_unseen(words, stages.W_ov, W, np.eye(len(W)))
        wrong = (ended.output != one.data.follows[chosen]).sum()
        rows.add(seed, {"asked": len(words), "wrong": wrong})
    return rows


def checks(table: Table, thresholds: Any) -> Checks:
    """The gaps of Theorem 3 are open and grow like t, and its inputs are answered as it says."""
    ok, premises = shared.judged_sets(table)
    if ok.empty:
        yield premises
        return
    here = table[table.seed.isin(ok.seed)]
    before, after = (
        np.array([here[here.quantity == f"{name} at {when}"].value for name in GAPS])
        for when in ("t", "2t")
    )
    t = int(ok.updates.iloc[0])
    yield at_least(f"least gap between kinds after {t} updates", before.min(), 1e-9)
    growth = (after / before).min() if (before > 0).all() else np.nan
    yield at_least(f"gaps after {2 * t} updates over those before, least", growth, 1.8)
    what = "one non-comparable token x₀, others non-optimal: answered otherwise than n(x₀)"
    yield equals(what, ok.wrong.sum(), 0)
    asked = f"; {ok.asked.sum():.0f} inputs of Theorem 3, all that its sets have"
    yield shared.judged_sets(table, asked)[1]


STUDY = Study(
    id="D.generalization-on-unseen",
    title="Unseen sentences are answered by the order of kinds",
    kind="theorem",
    source="paper",
    statement="v2, Theorem 3. After t steps of the second stage the optimal token of a query is at "
    "least C t above every non-comparable one in the column of W_kq, and these at least C t above "
    "every non-optimal one; an input of one non-comparable token x₀ and otherwise non-optimal ones "
    "is answered n(x₀). Asked of all such inputs without repeated tokens.",
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    gap=1e-9,
    quick={"seeds": 2},
    figure={
        "kind": "curves",
        "x": "x",
        "value": "value",
        "lines": "quantity",
        "where": lambda table: table["x"].notna(),
        "log": "y",
        "xlabel": "query",
        "ylabel": "gap between kinds after t and 2t updates",
    },
    theorem="v2, Theorem 3",
)
