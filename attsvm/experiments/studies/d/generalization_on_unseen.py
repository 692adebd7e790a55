"""D: what the trained model answers on sentences it never saw."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.sentence_runs import (
    columns_again,
    ends_kept,
    saved_columns,
    staged,
)
from attsvm.experiments.studies.shared.stage_records import drawn, inside, premises
from attsvm.next_token.order import KINDS, Order, orders
from attsvm.next_token.problems import Columns, solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.unseen import (
    Coverage,
    Predictions,
    UnseenAgreement,
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

# Each draw of unseen sentences, and how it differs from the training set's.
DRAWS = {
    "like": "3 and 4 tokens",
    "longer": "8 to 12 tokens",
    "zipf": "tokens by Zipf's law",
    "queries": "queries by Zipf's law",
}
REPEATED = "repeated"


def _options(config: Config, name: str) -> dict[str, Any]:
    """How the unseen sentences of this name are drawn."""
    frequencies = zipf(config["vocabulary"])
    short = tuple(config["unseen"]["like"])
    options: dict[str, dict[str, Any]] = {
        "like": {"length": short},
        "longer": {"length": tuple(config["unseen"]["longer"])},
        "zipf": {"length": short, "frequencies": frequencies},
        "queries": {"length": short, "queries": frequencies},
        REPEATED: {"length": tuple(config["unseen"]["longer"]), "repeats": True},
    }
    return options[name]


def _asked(
    config: Config, name: str, seed: int, sentences: Sentences, columns: Columns, off: Floats
) -> Predictions:
    """The unseen sentences of this name, with what the solution predicts for them."""
    words = draw_unseen(sentences, config["sentences"][name], seed=seed, **_options(config, name))
    return predict_unseen(
        words, columns.W, np.eye(sentences.vocabulary), sentences.follows, accuracy=off
    )


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


class _UnseenValues:
    """All that one set shows after some updates: gaps, answers, and agreement with the solution.

    block: the result's name of W_kq. other: the inputs of `mixed` that are not answered with the
    follower of their non-comparable token; asked: how many there are; share: the least attention on
    that token, 0 where another has more.
    """

    def __init__(self, config: Config, seed: int, result: Result, block: str) -> None:
        self.sentences = drawn(config, seed)
        self.orders = orders(self.sentences)
        self.columns = columns_again(f"{seed}.best", self.orders, result)
        self.inside = inside(self.sentences, self.orders)
        self.W_kq, W_ov = result[f"{seed}.{block}"], result[f"{seed}.W_ov"]
        E = np.eye(self.sentences.vocabulary)
        self.gaps = gaps(self.orders, self.W_kq)
        words, chosen = mixed(self.orders)
        ended = answer_unseen(words, W_ov, self.W_kq, E)
        self.asked = len(words)
        self.other = int((ended.output != self.sentences.follows[chosen]).sum())
        self.share = float(np.where(ended.top == chosen, ended.mass, 0.0).min())
        certified = np.isfinite(self.columns.upper)
        off = logit_accuracy(self.orders, self.columns, E) if certified else np.full(len(E), np.inf)
        self.agreed: dict[str, UnseenAgreement] = {}
        for name in (*DRAWS, REPEATED):
            asked = _asked(config, name, seed, self.sentences, self.columns, off)
            answered = answer_unseen(asked.words, W_ov, self.W_kq, E)
            self.agreed[name] = agreement(
                asked, answered, threshold=config["gap"], edges=config["edges"]
            )


def run(config: Config) -> Result:
    """Both stages on each set, the second taken on to twice its updates; and the solution."""
    out: Result = {}
    for seed in seeds_of(config):
        sentences = drawn(config, seed)
        found = solve_attention(orders(sentences), np.eye(sentences.vocabulary))
        out |= saved_columns(f"{seed}.best", found)
        stages = staged(config, sentences)
        out |= ends_kept(str(seed), stages)
        later = train(
            sentences,
            model="next-token",
            head=stages.W_ov,
            steps=config["steps"][1],
            lr=stages.attention.config["lr"],
            init={"W_kq": stages.W_kq},
        )
        out[f"{seed}.later"] = later.weights["W_kq"][-1, 0]
    return out


def check(config: Config, result: Result) -> Finding:
    """The gaps of Theorem 3 are open and grow like t, and its inputs are answered as it says."""
    seeds = seeds_of(config)
    early, late = (
        [
            one
            for one in (_UnseenValues(config, seed, result, block) for seed in seeds)
            if one.inside
        ]
        for block in ("W_kq", "later")
    )
    if not late:
        return Finding((), premises(0, len(seeds)), 0, 0.0, "nothing to judge")
    gap = max(one.columns.gap for one in late)
    before, after = (np.concatenate([one.gaps for one in seen]) for seen in (early, late))
    t = config["steps"][1]
    unit = t * config["rates"][1] / np.sqrt(config["vocabulary"])
    tests = [
        at_least(f"least gap between kinds after {t} updates", before.min(), 1e-9),
        at_least(
            f"gaps after {2 * t} updates over those before, least",
            float((after / before).min()) if (before > 0).all() else float("nan"),
            1.8,
        ),
        noted("least (gap of optimal and non-comparable tokens)/(tη)", before[:, 0].min() / unit),
        noted("least (gap of non-comparable and non-optimal)/(tη)", before[:, 1].min() / unit),
        equals(
            "one non-comparable token x₀, others non-optimal: answered otherwise than n(x₀)",
            sum(one.other for one in late),
            0,
        ),
        noted(f"the same after {t} updates", sum(one.other for one in early)),
        noted(f"least attention on x₀ after {t} updates", min(one.share for one in early)),
        noted(f"least attention on x₀ after {2 * t} updates", min(one.share for one in late)),
    ]
    for name, title in {**DRAWS, REPEATED: "8 to 12 tokens, repeated"}.items():
        found = [one.agreed[name] for one in late]
        tests += [
            noted(f"ours, {title}: wide gaps", sum(a.judged for a in found)),
            noted(f"ours, {title}: answered otherwise", sum(a.judged - a.agreed for a in found)),
            noted(f"ours, {title}: share of ties", _share(found)),
        ]
    covers = _total([whole_coverage(s.orders, s.columns.W, config["length"]) for s in late])
    tests += [
        noted("ours: sentences of the longest training length decided, share", covers.share),
        noted("least cosine to the solution at the end", _cosine(late)),
        at_most("largest certified gap", gap, 1e-9),
    ]
    said = f"{sum(one.asked for one in late)} inputs of Theorem 3, all that its sets have, and "
    drawn_too = sum(a.total for one in late for a in one.agreed.values())
    return Finding(
        tuple(tests),
        f"{premises(len(late), len(seeds))}; {said}{drawn_too} other unseen sentences",
        len(late),
        gap,
        f"What is ours is not judged; a wide gap is one of {config['gap']:g} margins or more in "
        "the solution.",
    )


def _cosine(seen: list[_UnseenValues]) -> float:
    """The least cosine of the trained attention to its solution."""
    return min(float(correlation(one.W_kq, one.columns.W)) for one in seen)


def _share(found: list[UnseenAgreement]) -> float:
    return sum(a.ties for a in found) / sum(a.total for a in found)


def _total(found: list[Coverage]) -> Coverage:
    return sum(found, Coverage(0, 0, 0))


def plot(config: Config, result: Result) -> Figure:
    """The gaps of Theorem 3 at t and 2t, and agreement over the predicted gap for each draw."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    both = [
        [_UnseenValues(config, seed, result, block) for seed in seeds_of(config)]
        for block in ("W_kq", "later")
    ]
    figure, (left, right) = panels(2)
    before, after = (np.concatenate([one.gaps for one in seen]) for seen in both)
    for k, title in enumerate(("optimal above non-comparable", "non-comparable above non-optimal")):
        left.plot(before[:, k], after[:, k], "os"[k], color=CYCLE[k], markersize=4, label=title)
    ends = np.array([0.0, before.max()])
    left.plot(ends, 2 * ends, color=CYCLE[6], linewidth=1, label="twice as far")
    t = config["steps"][1]
    left.set(
        xlabel=f"gap of a query after {t} updates",
        ylabel=f"after {2 * t} updates",
        title="Theorem 3: gaps grow like t",
    )
    left.legend(frameon=False, fontsize=7)
    edges = np.asarray(config["edges"])
    places = np.arange(len(edges) - 1)
    for k, (name, title) in enumerate({**DRAWS, REPEATED: "8 to 12 tokens, repeated"}.items()):
        counts = np.sum([one.agreed[name].counts for one in both[1]], axis=0)
        agreed = np.sum([one.agreed[name].agreed_in for one in both[1]], axis=0)
        share = np.where(counts, 100 * agreed / np.maximum(counts, 1), np.nan)
        right.plot(
            places + 0.07 * (k - 2),
            share,
            "o-" if name in DRAWS else "s--",
            markersize=4,
            linewidth=1,
            color=CYCLE[k],
            label=title,
        )
    right.set_xticks(places, [_bin(a, b) for a, b in pairwise(edges.tolist())])
    right.set(
        xlabel="predicted gap, in margins",
        ylabel="answered as predicted (%)",
        xlim=(-0.5, len(places) - 0.5),
        ylim=(0, 105),
        title="Ours, not judged: the top wins",
    )
    right.legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def _bin(low: float, high: float) -> str:
    return f"{low:g}–{high:g}" if np.isfinite(high) and high < 100 else f"≥ {low:g}"


_FULL = {
    "vocabulary": 20,
    "length": 6,
    "count": 20,
    "seeds": 20,
    "steps": [2000, 4000],
    "rates": [0.2, 0.05],
    "gap": 0.25,
    "edges": [0.0, 0.125, 0.25, 0.5, 1.0, 1e9],
    "unseen": {"like": [3, 4], "longer": [8, 12]},
    "sentences": {"like": 2000, "longer": 1000, "zipf": 1000, "queries": 1000, "repeated": 1000},
}

CLAIM = Claim(
    id="D.generalization-on-unseen",
    title="Unseen sentences are answered by the order of kinds",
    kind="theorem",
    trust="read",
    statement="v2, Theorem 3. After t steps of the second stage the optimal token of a query is at "
    "least C t above every non-comparable one in the column of W_kq, and these at least C t above "
    "every non-optimal one; an input of one non-comparable token x₀ and otherwise non-optimal ones "
    "is answered n(x₀). Asked of all such inputs without repeated tokens. Ours, more than the "
    "paper says and not judged: on every unseen sentence the token wins that the max-margin "
    "solution puts first.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 2,
        "sentences": {"like": 900, "longer": 400, "zipf": 400, "queries": 400, "repeated": 400},
    },
    run=run,
    check=check,
    plot=plot,
    reference="huang2024nexttoken",
    numbered="v2, Theorem 3",
)
