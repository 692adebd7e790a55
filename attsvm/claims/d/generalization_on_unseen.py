"""D: what the trained model answers on sentences it never saw."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.claims.claim import (
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
from attsvm.claims.shared.sentence_runs import (
    columns_again,
    drawn,
    ends_kept,
    inside,
    saved_columns,
    staged,
)
from attsvm.claims.shared.work import train
from attsvm.ground.arrays import Floats
from attsvm.language.covering import Coverage, whole_coverage
from attsvm.language.order import orders
from attsvm.language.problems import Columns, solve_attention
from attsvm.language.sentences import Sentences
from attsvm.language.shifts import draw_unseen, zipf
from attsvm.language.unseen import (
    Agreement,
    Predicted,
    agreement,
    logit_accuracy,
    predicted,
    trained,
)
from attsvm.theory.measures import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each draw of unseen sentences, and how it differs from the training set's.
DRAWS = {
    "like": "3 and 4 tokens, as in training",
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
) -> Predicted:
    """The unseen sentences of this name, with what the solution predicts for them."""
    words = draw_unseen(sentences, config["sentences"][name], seed=seed, **_options(config, name))
    return predicted(
        words, columns.W, np.eye(sentences.vocabulary), sentences.follows, accuracy=off
    )


class _Seen:
    """All that one set shows: its certified solution, the answers, and their agreement.

    later: the answers at the end of the run, not after the published updates.
    """

    def __init__(self, config: Config, seed: int, result: Result, *, later: bool = False) -> None:
        self.sentences = drawn(config, seed)
        self.orders = orders(self.sentences)
        self.columns = columns_again(f"{seed}.best", self.orders, result)
        self.inside = inside(self.sentences, self.orders)
        self.W_kq = result[f"{seed}.later" if later else f"{seed}.W_kq"]
        E = np.eye(self.sentences.vocabulary)
        certified = np.isfinite(self.columns.upper)
        off = logit_accuracy(self.orders, self.columns, E) if certified else np.full(len(E), np.inf)
        self.agreed: dict[str, Agreement] = {}
        for name in (*DRAWS, REPEATED):
            asked = _asked(config, name, seed, self.sentences, self.columns, off)
            answered = trained(asked.words, result[f"{seed}.W_ov"], self.W_kq, E)
            self.agreed[name] = agreement(
                asked, answered, threshold=config["gap"], edges=config["edges"]
            )

    @property
    def otherwise(self) -> int:
        """Sentences with a wide gap that are answered otherwise, on the draws that are judged."""
        return sum(self.agreed[name].judged - self.agreed[name].agreed for name in DRAWS)


def run(config: Config) -> Result:
    """Both stages on each set, the second taken on to twice its updates, and on again, twice as far
    each time, until every wide gap is answered as predicted; and the solution of its attention."""
    out: Result = {}
    for seed in seeds_of(config):
        sentences = drawn(config, seed)
        found = solve_attention(orders(sentences), np.eye(sentences.vocabulary))
        out |= saved_columns(f"{seed}.best", found)
        stages = staged(config, sentences)
        out |= ends_kept(str(seed), stages)
        W, updates = stages.W_kq, config["steps"][1]
        while True:
            later = train(
                sentences,
                model="next-token",
                head=stages.W_ov,
                steps=updates,
                lr=stages.attention.config["lr"],
                init={"W_kq": W},
            )
            W, updates = later.weights["W_kq"][-1, 0], 2 * updates
            out |= {f"{seed}.later": W, f"{seed}.updates": np.array(updates)}
            if 2 * updates > config["most"] or not _Seen(config, seed, out, later=True).otherwise:
                break
    return out


def check(config: Config, result: Result) -> Finding:
    """Wherever the certified gap is wide enough the output is the predicted one, on every draw and
    every set, after the updates that it needs."""
    seeds = seeds_of(config)
    early, late = (
        [one for one in (_Seen(config, seed, result, later=later) for seed in seeds) if one.inside]
        for later in (False, True)
    )
    gap = max((one.columns.gap for one in late), default=0.0)
    tests = []
    for name, title in DRAWS.items():
        all_of = [one.agreed[name] for one in late]
        tests += [
            equals(
                f"{title}: of the wide gaps, answered otherwise",
                sum(a.judged - a.agreed for a in all_of),
                0,
            ),
            at_least(
                f"{title}: wide gaps of a set, fewest",
                min((a.judged for a in all_of), default=0),
                config["fewest"][name],
            ),
            noted(f"{title}: share of ties", _share(all_of)),
        ]
    covers = _total([whole_coverage(s.orders, s.columns.W, config["length"]) for s in late])
    repeated = [one.agreed[REPEATED] for one in late]
    updates = [int(result[f"{seed}.updates"]) for seed in seeds]
    first = config["steps"][1]
    tests += [
        noted(f"after {first} updates: wide gaps answered otherwise", _wrong(early)),
        noted("most updates that a set is given", max(updates)),
        noted("narrower gaps, ties left out: share answered as predicted", _narrow(config, late)),
        noted(
            "repeated tokens: wide gaps answered otherwise",
            sum(a.judged - a.agreed for a in repeated),
        ),
        noted("sentences of the training length decided, share", covers.share),
        noted(
            "sentences of the training length that the order alone decides, share",
            covers.ordered_share,
        ),
        noted(f"least cosine to the solution after {first} updates", _cosine(early)),
        noted("least cosine to the solution at the end", _cosine(late)),
        at_most("largest certified gap", gap, 1e-9),
    ]
    ties = late[0].agreed["like"].first_ties[:2] if late else ()
    return Finding(
        tuple(tests),
        f"{len(late)} of {len(seeds)} sets realizable with dominant optimal tokens; "
        f"{sum(a.total for one in late for a in one.agreed.values())} unseen sentences, none "
        "with the tokens and the query of a training sentence",
        _wide(late),
        gap,
        f"A wide gap is one of {config['gap']:g} margins or more. Theory is silent where two "
        f"tokens tie, as in “{'” and “'.join(ties)}”. A token that occurs c times gains log c, "
        "which outweighs a gap until training has gone far enough. Training is finite: after "
        f"{first} updates {_wrong(early)} of {_wide(early)} wide gaps, in "
        f"{sum(bool(one.otherwise) for one in early)} of the sets, are answered otherwise; after "
        f"{2 * first} updates, and {max(updates)} where they are needed, {_wrong(late)}.",
    )


def _wrong(seen: list[_Seen]) -> int:
    """Sentences with a wide gap that are answered otherwise."""
    return sum(one.otherwise for one in seen)


def _wide(seen: list[_Seen]) -> int:
    """How many wide gaps there are on the draws that are judged."""
    return sum(one.agreed[name].judged for one in seen for name in DRAWS)


def _cosine(seen: list[_Seen]) -> float:
    """The least cosine of the trained attention to its solution."""
    found = [float(correlation(one.W_kq, one.columns.W)) for one in seen if np.any(one.W_kq)]
    return min(found, default=float("nan"))


def _narrow(config: Config, within: list[_Seen]) -> float:
    """The share of agreement over the bins below the wide gaps, on all draws without repeats."""
    below = np.asarray(config["edges"])[1:] <= config["gap"]
    found = [one.agreed[name] for one in within for name in DRAWS]
    total = sum(int(a.counts[below].sum()) for a in found)
    return sum(int(a.agreed_in[below].sum()) for a in found) / max(total, 1)


def _share(found: list[Agreement]) -> float:
    total = sum(a.total for a in found)
    return sum(a.ties for a in found) / total if total else float("nan")


def _total(found: list[Coverage]) -> Coverage:
    return sum(found, Coverage(0, 0, 0))


def plot(config: Config, result: Result) -> Figure:
    """Agreement over the predicted gap for each draw, and what is decided at each length."""
    from attsvm.claims.shared.drawing import CYCLE, panels

    seen = [_Seen(config, seed, result, later=True) for seed in seeds_of(config)]
    figure, (left, right) = panels(2)
    edges = np.asarray(config["edges"])
    places = np.arange(len(edges) - 1)
    for k, (name, title) in enumerate({**DRAWS, REPEATED: "8 to 12 tokens, repeated"}.items()):
        counts = np.sum([one.agreed[name].counts for one in seen], axis=0)
        agreed = np.sum([one.agreed[name].agreed_in for one in seen], axis=0)
        share = np.where(counts, 100 * agreed / np.maximum(counts, 1), np.nan)
        left.plot(
            places + 0.07 * (k - 2),
            share,
            "o-" if name in DRAWS else "s--",
            markersize=4,
            linewidth=1,
            color=CYCLE[k],
            label=title,
        )
    wide = int(np.searchsorted(edges, config["gap"]))
    left.axvspan(wide - 0.5, len(places) - 0.5, color=CYCLE[2], alpha=0.08, linewidth=0)
    left.set_xticks(places, [_bin(a, b) for a, b in pairwise(edges.tolist())])
    left.set(
        xlabel="predicted gap, in margins",
        ylabel="answered as predicted (%)",
        xlim=(-0.5, len(places) - 0.5),
        title="Circles in the shade are judged",
    )
    left.legend(frameon=False, fontsize=7, loc="lower right")
    lengths = list(range(2, config["unseen"]["longer"][1] + 1))
    shares = []
    for L in lengths:
        some = _total([whole_coverage(s.orders, s.columns.W, L) for s in seen])
        sure = _total([whole_coverage(s.orders, s.columns.W, L, gap=config["gap"]) for s in seen])
        shares.append([100 * some.ordered_share, 100 * sure.share, 100 * some.share])
    by = np.array(shares).T
    right.fill_between(lengths, 100, by[2], color=CYCLE[6], alpha=0.15, linewidth=0, label="tie")
    right.fill_between(
        lengths,
        by[2],
        by[1],
        color=CYCLE[5],
        alpha=0.35,
        linewidth=0,
        label=f"gap below {config['gap']:g}",
    )
    right.fill_between(
        lengths, by[1], by[0], color=CYCLE[0], alpha=0.55, linewidth=0, label="wide gap"
    )
    right.fill_between(
        lengths, by[0], 0, color=CYCLE[1], alpha=0.8, linewidth=0, label="the order alone"
    )
    right.axvline(config["length"], color=CYCLE[6], linewidth=0.8, linestyle=":")
    right.set(
        xlabel="tokens of a sentence (dotted: in training)",
        xlim=(lengths[0], lengths[-1]),
        ylabel="share of all sentences (%)",
        ylim=(0, 100),
        title="What decides a sentence",
    )
    right.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _bin(low: float, high: float) -> str:
    return f"{low:g}–{high:g}" if np.isfinite(high) and high < 100 else f"≥ {low:g}"


_FULL = {
    "vocabulary": 20,
    "length": 4,
    "count": 68,
    "seeds": 20,
    "steps": [2000, 4000],
    "most": 64_000,
    "rates": [0.2, 0.05],
    "gap": 0.25,
    "edges": [0.0, 0.125, 0.25, 0.5, 1.0, 1e9],
    "unseen": {"like": [3, 4], "longer": [8, 12]},
    "sentences": {"like": 4500, "longer": 2000, "zipf": 2000, "queries": 2000, "repeated": 2000},
    "fewest": {"like": 2000, "longer": 500, "zipf": 500, "queries": 500},
}

CLAIM = Claim(
    id="D.generalization-on-unseen",
    title="Unseen sentences are answered by the max-margin order",
    kind="theorem",
    trust="as recalled",
    statement="On a sentence that training never saw, the model trained in two stages answers with "
    "the follower of the token that the max-margin solution of its attention puts first for the "
    "sentence's query, whenever that token is alone at the top; measured where it is ahead by a "
    "quarter of a margin or more, on shorter and longer sentences and other mixtures of tokens and "
    "queries, after twice the published updates or as many more as a set needs.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 2,
        "sentences": {"like": 900, "longer": 400, "zipf": 400, "queries": 400, "repeated": 400},
        "fewest": {"like": 400, "longer": 100, "zipf": 100, "queries": 100},
    },
    run=run,
    check=check,
    plot=plot,
    reference="huang2024nexttoken",
)
