"""D: without confused tokens the kinds of tokens are ordered strictly; with prefixes, by stars."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.sentences import closed, paper_example
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.studies.shared.exact_columns import ExactColumns, star_set
from attsvm.experiments.study import (
    EXAMPLE,
    Checks,
    Premises,
    Study,
    Table,
    at_least,
    at_most,
    equals,
)
from attsvm.next_token.order import KINDS, orders
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.train import two_stages
from attsvm.next_token.unseen import answer_unseen

# Beside the two families: small closed sets, of which each seed has so many, and the paper's
# Example 1.
SMALL, EACH = "small closed", 25
PAPER = "paper"
# The columns of Example 1 by query: entries of S, V, O, P.
_HALF, _THIRD, _ZERO = Fraction(1, 2), Fraction(1, 3), Fraction(0)
COLUMNS = {
    "S": [_HALF, _ZERO, _ZERO, -_HALF],
    "V": [-_HALF, _HALF, _ZERO, _ZERO],
    "O": [-_THIRD, -_THIRD, 2 * _THIRD, _ZERO],
    "P": [_ZERO, _ZERO, _HALF, -_HALF],
}
# Its Example 2: unseen sentences, and their next token.
UNSEEN = (("S P", "V"), ("O S P", "P"))
_WORDS = tuple(COLUMNS)
# Of so many seeds in a row, the first `trained` ones are trained on.
EVERY = 40


def measure(group: Group, data: str, trained: int) -> Parts:
    """The signs of every solution; on some sets both stages, the second also taken on."""
    rows = shared.LongTable()
    for seed in group.seeds if data != PAPER else (EXAMPLE,):
        if data == SMALL:
            rows.add(seed, {"most optimal": _most_of_small(seed)})
            continue
        sentences = (
            Sentences.of(paper_example(), vocabulary=_WORDS)
            if data == PAPER
            else star_set(data, seed)
        )
        one = ExactColumns(sentences)
        rows.add(seed, _solved(one))
        if data != PAPER and seed % EVERY >= trained:
            continue
        stages = two_stages(sentences)
        later = shared.doubled(stages)
        wrong = sum(one.wrong_signs(W) for W in (stages.W_kq, later))
        before, after = _gaps(one, stages.W_kq), _gaps(one, later)
        growth = (after / before).min() if (before > 0).all() else np.nan
        rows.add(seed, {"wrong signs": wrong, "trained": 1, "growth": growth})
        if data == PAPER:
            hand = sum(one.U.get(q) == COLUMNS[word] for q, word in enumerate(_WORDS))
            answers = _answers(stages.W_ov, later)
            rows.add(seed, {"as worked out": hand, "answers as printed": answers})
            W = stages.last.weights["W_kq"][:, 0, :, _WORDS.index("O")]
            rows.run(seed, stages.last.steps, dict(zip(_WORDS, W.T, strict=True)))
    return rows


def _solved(one: ExactColumns) -> dict[str, Any]:
    """The numbers of one set's solution."""
    top, low = one.entries(KINDS[0]), one.entries(KINDS[2])
    optimal = [len(one.tokens(q, KINDS[0])) for q in one.U]
    return {
        **one.facts(),
        "not above 0": sum(v <= 0 for v in top),
        "not below 0": sum(v >= 0 for v in low),
        "most optimal": max(optimal, default=0),
        "off star": _off_star(one),
    }


def _gaps(one: ExactColumns, W: Floats) -> Floats:
    """How far optimal tokens are above non-comparable ones, and these above non-optimal ones.

    The least over all queries (2,); a query whose order has every token is compared with 0.
    """
    found = np.full(2, np.inf)
    for q in (q for q, order in one.orders.items() if len(order.tokens)):
        optimal, lowest, others = (W[one.tokens(q, KINDS[k]), q] for k in (0, 2, 3))
        found[0] = min(found[0], optimal.min() - others.max(initial=0.0))
        found[1] = min(found[1], others.min(initial=0.0) - lowest.max())
    return found


def _off_star(one: ExactColumns) -> int:
    """Queries that have not one optimal token, m/(m + 1), over m others, −1/(m + 1)."""
    wrong = 0
    for q, u in one.U.items():
        top, low = one.tokens(q, KINDS[0]), one.tokens(q, KINDS[2])
        m = len(low)
        star = [u[x] for x in top] == [Fraction(m, m + 1)]
        wrong += not (star and all(u[x] == Fraction(-1, m + 1) for x in low))
    return wrong


def _most_of_small(seed: int) -> int:
    """The most optimal tokens of a query in closed sets of 2 to 13 tokens and lengths 2 to 8."""
    most = 0
    for k in range(EACH * seed, EACH * (seed + 1)):
        N = 2 + k % 12
        found = orders(Sentences.of(closed(N, 2 + k % 7, seed=k), vocabulary=N))
        most = max([most, *(int((o.kinds == KINDS[0]).sum()) for o in found.values())])
    return most


def _answers(W_ov: Floats, W_kq: Floats) -> int:
    """How many of the paper's unseen sentences are answered as printed."""
    right = 0
    for text, label in UNSEEN:
        words = np.array([[_WORDS.index(w) for w in text.split()]])
        end = answer_unseen(words, W_ov, W_kq, np.eye(4))
        right += int(end.output[0]) == _WORDS.index(label)
    return right


def checks(table: Table, thresholds: Any) -> Checks:
    """Signs in fractions, signs and growth after training, and stars in closed sets."""
    every = shared.numbers_of(table)
    small, sets = every[every.data == SMALL], every[every.data != SMALL]
    ok = sets[sets.inside == 1]
    stars, paper = ok[ok.closed == 1], sets[sets.data == PAPER].squeeze()
    trained = ok[ok.trained == 1]
    growth = np.min(trained.growth.array) if len(trained) else np.nan
    most = max(small["most optimal"].max(), stars["most optimal"].max())
    yield equals("optimal tokens not above 0", ok["not above 0"].sum(), 0)
    yield equals("non-optimal tokens not below 0", ok["not below 0"].sum(), 0)
    yield equals("non-comparable tokens not at 0", ok.stray.sum(), 0)
    what = "trained entries whose sign is not that of their kind"
    yield equals(what, trained["wrong signs"].sum(), 0)
    yield at_least("gaps between kinds at twice the updates over those before, least", growth, 1.8)
    yield equals("closed sets: most optimal tokens of a query", most, 1)
    what = "closed sets: columns other than m/(m + 1), −1/(m + 1)"
    yield equals(what, stars["off star"].sum(), 0)
    yield equals("Example 1: columns worked out by hand", paper["as worked out"], 4)
    what = "Example 2: unseen sentences answered as printed"
    yield equals(what, paper["answers as printed"], 2)
    yield at_most("kept columns from the exact ones", np.max(ok.off.array), 1e-9)
    gap = float(np.max(sets.gap.array))
    yield Premises(
        len(ok),
        f"{len(ok)} of {len(sets)} sets inside Assumptions 1 to 3, {len(stars)} of them closed "
        f"under prefixes, {len(trained)} trained on; {int(ok['columns'].sum())} columns in exact "
        f"arithmetic; {EACH * len(small)} further closed sets for the number of optimal tokens",
        gap,
    )


STUDY = Study(
    id="D.star-orders",
    title="Kinds of tokens are ordered strictly, by stars in closed sets",
    kind="theorem",
    source="paper",
    statement="Without confused tokens the column of a query is above 0 at optimal, 0 at "
    "non-comparable and below 0 at non-optimal tokens, in the solution and, with gaps that grow "
    "like t (v2, Theorem 3), after training. In sets that hold every prefix of their sentences "
    "each query has one optimal token over m others, and the entries are m/(m + 1) and "
    "−1/(m + 1).",
    grid={"data": ["unconfused", "closed", SMALL, PAPER]},
    run={"trained": 5},
    seeds=40,
    group=10,
    measure=measure,
    checks=checks,
    gap=1e-9,
    quick={"seeds": 4, "run": {"trained": 1}},
    figure={
        "kind": "curves",
        "x": "x",
        "value": "value",
        "lines": "quantity",
        "where": lambda table: table["x"] > 0,
        "log": "x",
        "xlabel": "update of the second stage",
        "ylabel": "entry of W_kq",
        "title": "Example 1, query O: O above S and V",
    },
    theorem="v2, Theorem 3",
)
