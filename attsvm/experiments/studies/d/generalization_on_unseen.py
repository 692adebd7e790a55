"""D: what the trained model answers on sentences it never saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import (
    Found,
    Note,
    Study,
    at_least,
    at_most,
    equals,
    info,
)
from attsvm.next_token.order import KINDS, Order
from attsvm.next_token.unseen import (
    agreement,
    answer_unseen,
    draw_unseen,
    logit_accuracy,
    predict_unseen,
    whole_coverage,
    zipf,
)
from attsvm.theory.measures import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Each draw of unseen sentences, and how it differs from the training set's.
DRAWS = {
    "like": "3 and 4 tokens",
    "longer": "8 to 12 tokens",
    "zipf": "tokens by Zipf's law",
    "queries": "queries by Zipf's law",
    "repeated": "8 to 12 tokens, repeated",
}
# The gaps of Theorem 3.
GAPS = ("optimal above non-comparable", "non-comparable above non-optimal")
# In margins of the solution: a wide gap, and the bins of the figure.
WIDE = 0.25
EDGES = np.array([0.0, 0.125, 0.25, 0.5, 1.0, 1e9])


def _options(name: str, vocabulary: int) -> dict[str, Any]:
    """How the unseen sentences of this name are drawn."""
    frequencies = zipf(vocabulary)
    options: dict[str, dict[str, Any]] = {
        "like": {"length": (3, 4)},
        "longer": {"length": (8, 12)},
        "zipf": {"length": (3, 4), "frequencies": frequencies},
        "queries": {"length": (3, 4), "queries": frequencies},
        "repeated": {"length": (8, 12), "repeats": True},
    }
    return options[name]


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


def measure(
    group: Group,
    vocabulary: int,
    length: int,
    count: int,
    steps: Sequence[int],
    rates: Sequence[float],
    sentences: Mapping[str, int],
) -> dict[str, Any]:
    """Gaps and answers of both stages on each set, then with the second taken on to twice its
    updates; the answers to random unseen sentences beside what the solution predicts."""
    rows = shared.LongTable()
    for seed in group.seeds:
        one = shared.ClosedSet(vocabulary, length, count, seed)
        stages = shared.staged(one.data, steps, rates)
        ends = {"t": stages.W_kq, "2t": shared.doubled(stages)}
        covered = whole_coverage(one.orders, one.W_kq.W, length)
        rows.add(seed, {
            "inside": one.facts["inside"],
            "gap": one.W_kq.gap,
            "updates": steps[1],
            "step size": stages.attention.config["lr"],
            "fillings decided": covered.decided,
            "fillings": covered.total,
            "cosine at 2t": correlation(ends["2t"], one.W_kq.W),
        })  # fmt: skip
        for when, W in ends.items():
            rows.add(seed, _theorem(one, when, stages.W_ov, W))
            for name, column in zip(GAPS, gaps(one.orders, W).T, strict=True):
                rows.curve(seed, f"{name} at {when}", list(one.orders), column)
        _add_unseen(rows, seed, one, sentences, (stages.W_ov, ends["2t"]))
    return rows.columns()


def _theorem(one: shared.ClosedSet, when: str, W_ov: Floats, W_kq: Floats) -> dict[str, float]:
    """The answers to the inputs of `mixed`.

    other: the inputs that are not answered with the follower of their non-comparable token;
    attention: the least on that token, 0 where another has more.
    """
    words, chosen = mixed(one.orders)
    ended = answer_unseen(words, W_ov, W_kq, np.eye(len(W_kq)))
    return {
        f"asked at {when}": len(words),
        f"other at {when}": (ended.output != one.data.follows[chosen]).sum(),
        f"attention at {when}": np.where(ended.top == chosen, ended.mass, 0.0).min(),
    }


def _add_unseen(
    rows: shared.LongTable, seed: int, one: shared.ClosedSet, sentences: Mapping[str, int],
    weights: tuple[Floats, Floats],
) -> None:  # fmt: skip
    """For each draw of unseen sentences: how many, ties, wide gaps, and answers by the gap."""
    data, best, E = one.data, one.W_kq, np.eye(one.data.vocabulary)
    certified = np.isfinite(best.upper)
    off = logit_accuracy(one.orders, best, E) if certified else np.full(len(E), np.inf)
    for name, count in sentences.items():
        words = draw_unseen(data, count, seed=seed, **_options(name, len(E)))
        asked = predict_unseen(words, best.W, E, data.follows, accuracy=off)
        answered = answer_unseen(asked.words, *weights, E)
        agreed = agreement(asked, answered, threshold=WIDE, edges=EDGES.tolist())
        rows.add(seed, {
            f"{name}: sentences": agreed.total,
            f"{name}: ties": agreed.ties,
            f"{name}: wide gaps": agreed.judged,
            f"{name}: answered otherwise": agreed.judged - agreed.agreed,
        })  # fmt: skip
        rows.curve(seed, f"{name}: in the bin", EDGES[:-1], agreed.counts)
        rows.curve(seed, f"{name}: agreed in the bin", EDGES[:-1], agreed.agreed_in)


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """The gaps of Theorem 3 are open and grow like t, and its inputs are answered as it says."""
    ok, premises = shared.judged_sets(table)
    if ok.empty:
        yield premises
        return
    here = table[table.seed.isin(ok.seed)]
    before, after = (_gaps_at(here, when) for when in ("t", "2t"))
    t, eta = int(ok.updates.iloc[0]), float(ok["step size"].iloc[0])
    yield at_least(f"least gap between kinds after {t} updates", before.min(), 1e-9)
    growth = (after / before).min() if (before > 0).all() else np.nan
    yield at_least(f"gaps after {2 * t} updates over those before, least", growth, 1.8)
    least = before.min(axis=1) / (t * eta)
    yield info("least (gap of optimal and non-comparable tokens)/(tη)", least[0])
    yield info("least (gap of non-comparable and non-optimal)/(tη)", least[1])
    what = "one non-comparable token x₀, others non-optimal: answered otherwise than n(x₀)"
    yield equals(what, ok["other at 2t"].sum(), 0)
    yield info(f"the same after {t} updates", ok["other at t"].sum())
    yield info(f"least attention on x₀ after {t} updates", np.min(ok["attention at t"].array))
    yield info(f"least attention on x₀ after {2 * t} updates", np.min(ok["attention at 2t"].array))
    for name, title in DRAWS.items():
        found = {what: ok[f"{name}: {what}"].sum() for what in
                 ("wide gaps", "answered otherwise", "ties", "sentences")}  # fmt: skip
        yield info(f"ours, {title}: wide gaps", found["wide gaps"])
        yield info(f"ours, {title}: answered otherwise", found["answered otherwise"])
        yield info(f"ours, {title}: share of ties", found["ties"] / found["sentences"])
    decided = ok["fillings decided"].sum() / ok.fillings.sum()
    yield info("ours: sentences of the longest training length decided, share", decided)
    yield info("least cosine to the solution at the end", np.min(ok["cosine at 2t"].array))
    yield at_most("largest certified gap", premises.gap, 1e-9)
    asked, drawn = ok["asked at 2t"].sum(), sum(ok[f"{name}: sentences"].sum() for name in DRAWS)
    more = (
        f"; {asked:.0f} inputs of Theorem 3, all that its sets have, and {drawn:.0f} other unseen"
    )
    yield shared.judged_sets(table, f"{more} sentences")[1]
    yield Note(
        f"What is ours is not judged; a wide gap is one of {WIDE:g} margins or more in the "
        "solution."
    )


def _gaps_at(table: DataFrame, when: str) -> Floats:
    """Both gaps (2, queries) of all sets."""
    return np.array([
        table[table.quantity == f"{name} at {when}"].value.to_numpy() for name in GAPS
    ])  # fmt: skip


def figure(table: DataFrame, study: Study) -> Figure:
    """The gaps of Theorem 3 at t and 2t, and agreement over the predicted gap for each draw."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, (left, right) = panels(2)
    before, after = (_gaps_at(table, when) for when in ("t", "2t"))
    for k, title in enumerate(GAPS):
        left.plot(before[k], after[k], "os"[k], color=CYCLE[k], markersize=4, label=title)
    ends = np.array([0.0, before.max()])
    left.plot(ends, 2 * ends, color=CYCLE[6], linewidth=1, label="twice as far")
    t = int(shared.numbers_of(table).updates.iloc[0])
    left.set(xlabel=f"gap of a query after {t} updates", ylabel=f"after {2 * t} updates",
             title="Theorem 3: gaps grow like t")  # fmt: skip
    left.legend(frameon=False, fontsize=7)
    places = np.arange(len(EDGES) - 1)
    bins = table.groupby(["quantity", "x"]).value.sum()
    for k, (name, title) in enumerate(DRAWS.items()):
        share = 100 * bins[f"{name}: agreed in the bin"] / bins[f"{name}: in the bin"]
        look = "s--" if name == "repeated" else "o-"
        right.plot(places + 0.07 * (k - 2), share, look, markersize=4, linewidth=1, color=CYCLE[k],
                   label=title)  # fmt: skip
    names = [f"{a:g}–{b:g}" if b < 100 else f"≥ {a:g}" for a, b in pairwise(EDGES.tolist())]
    right.set_xticks(places, names)
    right.set(xlabel="predicted gap, in margins", ylabel="answered as predicted (%)",
              xlim=(-0.5, len(places) - 0.5), ylim=(0, 105),
              title="Ours, not judged: the top wins")  # fmt: skip
    right.legend(frameon=False, fontsize=7, loc="lower right")
    return drawn


STUDY = Study(
    id="D.generalization-on-unseen",
    title="Unseen sentences are answered by the order of kinds",
    kind="theorem",
    source="paper",
    statement="v2, Theorem 3. After t steps of the second stage the optimal token of a query is at "
    "least C t above every non-comparable one in the column of W_kq, and these at least C t above "
    "every non-optimal one; an input of one non-comparable token x₀ and otherwise non-optimal ones "
    "is answered n(x₀). Asked of all such inputs without repeated tokens. Ours, more than the "
    "paper says and not judged: on every unseen sentence the token wins that the max-margin "
    "solution puts first.",
    run={
        "vocabulary": 20,
        "length": 6,
        "count": 20,
        "steps": [2000, 4000],
        "rates": [0.2, 0.05],
        "sentences": {
            "like": 2000,
            "longer": 1000,
            "zipf": 1000,
            "queries": 1000,
            "repeated": 1000,
        },
    },
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    quick={
        "seeds": 2,
        "run": {
            "sentences": {"like": 900, "longer": 400, "zipf": 400, "queries": 400, "repeated": 400}
        },
    },
    figure=figure,
    reference="huang2024nexttoken",
    theorem="v2, Theorem 3",
)
