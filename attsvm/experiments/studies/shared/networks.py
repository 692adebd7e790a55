"""Networks trained on real data by several methods: rates tuned alike, one row for each record.

A plan has `fit` (the fields of a TrainConfig that all share), `tuning` (what tuning changes in
them), `methods`, `tuning_seeds`, and `look` (what is looked at in the networks that are compared).
A method has `fit` (what it changes), and `rates`, those that it tries from the one at `first_rate`
on, or `rate_of`, the method whose rate it takes. The seed of a row is that of its initial network
and of the order of its data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from attsvm._utils.arrays import Floats
from attsvm.datasets.labelled import PAD, SPECIAL, Labelled, Vocabulary
from attsvm.experiments.group import Group
from attsvm.experiments.runner import kept
from attsvm.experiments.study import Checks, Premises, info
from attsvm.experiments.table import Columns

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from attsvm.torch.fitting import Moment
    from attsvm.torch.networks import Network

Plan = dict[str, Any]
# What is looked at in a network: numbers by name.
Look = Callable[["Network"], dict[str, float]]
LETTERS = ("K", "Q", "V")
NETWORK = ["method", "seed"]
# A figure of means along training.
CURVES = {"kind": "curves", "x": "epoch", "middle": "mean"}
# Of the entries of new embeddings, whatever the default of the trainer is.
SPREAD = 0.1

# The published image runs: images of 48 × 48, six layers of width 512, 1,000 epochs. level: as far
# beyond the bound 1/√width of the initial weights as 0.06 is beyond that of width 384.
IMAGES: Plan = {
    "fit": {
        "task": "images", "patch": 4,
        "train_count": 4000, "valid_count": 1000, "test_count": 2500, "measured": 1500,
        "width": 32, "hidden": 64, "layers": 2, "heads": 4, "batch": 32, "epochs": 12,
    },
    "tuning": {"train_count": 2000, "test_count": 1000, "epochs": 6},
    "tuning_seeds": [100, 101], "first_rate": 0,
    "methods": {
        "p = 1.1": {"fit": {"optimizer": "mirror", "p": 1.1}, "rates": [0.01, 0.03, 0.1]},
        "p = 2": {"fit": {"optimizer": "sgd"}, "rates": [0.03, 0.1, 0.3]},
        "Adam": {"fit": {"optimizer": "adam"}, "rates": [5e-4, 2e-3, 5e-3]},
    },
    "look": {"inputs": 100, "maps": 4, "level": 0.208},
}  # fmt: skip
_SMALL = {"train_count": 600, "valid_count": 200, "test_count": 300, "width": 16, "measured": 300}
_TUNED = {"train_count": 300, "test_count": 100}
QUICK_IMAGES: Plan = {
    **IMAGES,
    "fit": {**IMAGES["fit"], **_SMALL, "patch": 7, "epochs": 4},
    "tuning": {**_TUNED, "epochs": 2},
    "tuning_seeds": [100],
    "first_rate": 1,
    "look": {"inputs": 40, "maps": 4, "level": 0.295},
}
# The published text runs have three to six layers of width 384 on 512 word pieces, and take days.
# penalties, lexicon: of the bag of words.
TEXTS: Plan = {
    "fit": {
        "task": "text", "source": "imdb", "length": 64, "vocabulary": 8000,
        "train_count": 8000, "valid_count": 1000, "test_count": 2500, "measured": 1500,
        "width": 32, "hidden": 64, "layers": 1, "heads": 4,
        "batch": 32, "epochs": 14, "records": 2, "stop_accuracy": 0.995,
    },
    "tuning": {"train_count": 4000, "test_count": 1000, "epochs": 12, "records": 1},
    "tuning_seeds": [100, 101, 102], "first_rate": 0,
    "methods": {
        "p = 1.1": {"fit": {"optimizer": "mirror", "p": 1.1}, "rates": [0.03, 0.1, 0.3]},
        "p = 1.5": {"fit": {"optimizer": "mirror", "p": 1.5}, "rates": [0.1, 0.2, 0.4]},
        "p = 2": {"fit": {"optimizer": "sgd"}, "rates": [0.1, 0.3, 0.6]},
        "p = 3": {"fit": {"optimizer": "mirror", "p": 3.0}, "rates": [0.01, 0.03, 0.1]},
        "p = 2, embeddings 10 ×": {"fit": {"optimizer": "sgd", "embedding_lr": 10.0},
                                   "rates": [0.1, 0.3, 0.6]},
        "p = 2, rate of 1.1": {"fit": {"optimizer": "sgd"}, "rate_of": "p = 1.1"},
        "AdamW": {"fit": {"optimizer": "adamw"}, "rates": [5e-4, 2e-3, 5e-3]},
    },
    "look": {"inputs": 300, "level": 0.208, "penalties": [3e-4, 1e-3, 3e-3, 1e-2], "lexicon": 200},
}  # fmt: skip
QUICK_TEXTS: Plan = {
    **TEXTS,
    "fit": {**TEXTS["fit"], **_SMALL, "length": 24, "vocabulary": 2000, "epochs": 8},
    "tuning": {**_TUNED, "epochs": 4, "records": 1},
    "tuning_seeds": [100],
    "first_rate": 1,
    "look": {**TEXTS["look"], "inputs": 50, "level": 0.295, "lexicon": 60},
}


# ---------------------------------------------------------------- training


def train_network(run: Plan) -> Columns:
    """The records of one training run, with what is found in the network at each.

    run: {fit: the fields of a TrainConfig, look}; nothing is looked at where `look` is empty.
    """
    import torch

    from attsvm.torch import config_of, fit

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bits again on the same processor
    try:
        task = run["fit"]["task"]
        config = config_of(task, {"spread": SPREAD, **run["fit"]})
        data = data_of(**data_fields(run["fit"]))
        looking = _at_images if task == "images" else _at_texts
        look: Look = looking(run, data) if run["look"] else lambda network: {}
        seen: list[dict[str, float]] = []

        @torch.no_grad()
        def watch(moment: Moment) -> None:
            if moment.record is not None or moment.step == 0:
                seen.append(look(moment.network.eval()))

        made = fit(config, data, watch=watch)
    finally:
        torch.set_num_threads(threads)
    rows = [record._asdict() | more for record, more in zip(made.records, seen, strict=True)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {**columns, "collapsed": np.full(len(rows), made.collapsed)}


def data_fields(fit: Plan) -> Plan:
    """The fields of a TrainConfig that decide which data are read, and which words are known."""
    names = ("task", "source", "length", "vocabulary")
    return {name: fit[name] for name in fit if name in names or name.endswith("_count")}


@lru_cache(maxsize=4)
def data_of(task: str, **fields: Any) -> Labelled:
    """The data of a run."""
    from attsvm.torch import config_of, load_data

    return load_data(config_of(task, fields))


def measure(group: Group, method: str, plan: Plan) -> Columns:
    """The records of a method from the initial networks of these seeds, at the rate it chooses.

    collapsed: of the run; tried: the runs that chose the rate, 0 where it is another method's;
    K_above, Q_above, V_above: how many entries are beyond the level. Other columns are those of
    `_at_images` and `_at_texts`.
    """
    from pandas import DataFrame, concat

    owner = plan["methods"][method].get("rate_of", method)
    rates = plan["methods"][owner]["rates"][plan["first_rate"] :]
    scores = {rate: _tuning_scores(owner, rate, plan) for rate in rates}
    rate = max(scores, key=lambda rate: float(np.mean(scores[rate])))  # the first of equal ones
    tried = sum(map(len, scores.values())) if owner == method else 0
    runs = [{"fit": _fit(plan, method, rate, seed), "look": plan["look"]} for seed in group.seeds]
    found = [DataFrame(kept(train_network, run)).assign(seed=run["fit"]["seed"]) for run in runs]
    table = concat(found).assign(rate=rate, tried=tried)
    return {name: table[name].to_numpy() for name in table}


def _tuning_scores(method: str, rate: float, plan: Plan) -> list[float]:
    """The best validation accuracy of each tuning run at this rate; 0 for one that collapsed."""
    fits = [_fit(plan, method, rate, seed) | plan["tuning"] for seed in plan["tuning_seeds"]]
    runs = [kept(train_network, {"fit": fit, "look": {}}) for fit in fits]
    return [0.0 if run["collapsed"][0] else float(run["valid_accuracy"].max()) for run in runs]


def _fit(plan: Plan, method: str, rate: float, seed: int) -> Plan:
    return {**plan["fit"], **plan["methods"][method]["fit"], "lr": rate, "seed": seed}


# What the studies on these networks have in common.
ON_IMAGES: dict[str, Any] = {
    "kind": "figure",
    "grid": {"method": list(IMAGES["methods"])},
    "run": {"plan": IMAGES},
    "seeds": 3,
    "group": 1,
    "measure": measure,
    "needs": ("torch", "fashion"),
}
ON_TEXTS: dict[str, Any] = {
    **ON_IMAGES,
    "source": "code",
    "grid": {"method": list(TEXTS["methods"])},
    "run": {"plan": TEXTS},
    "seeds": 5,
    "thresholds": {"matched": 0.8},
    "quick": {"run": {"plan": QUICK_TEXTS}, "seeds": 2, "thresholds": {"matched": 0.6}},
    "needs": ("torch", "reviews", "valence", "sklearn"),
}


# ---------------------------------------------------------------- looking


def _weight_sizes(network: Network, level: float) -> dict[str, float]:
    """Of K, Q and V: how many entries are beyond a level."""
    out = {}
    for letter, layers in network.projections.items():
        W = np.abs(np.stack([w.detach().double().numpy() for w in layers]))
        out[f"{letter}_above"] = float((level < W).sum()) if np.isfinite(W).all() else np.nan
    return out


def _at_images(run: Plan, data: Labelled) -> Look:
    """spread: 1/(T Σ s²), the share of the T tokens that a row s of attention is spread over (that
    is ‖s‖₁²/‖s‖₂² by T): the mean over test images, all rows, heads and layers. size: ‖K_hᵀ Q_h‖
    over all heads and layers. map_sum, map_least: of the first token's row in the last layer over
    the patches, mean over heads, the largest sum and the least entry.
    """
    import torch

    about = run["look"]
    x = torch.from_numpy(np.array(data.test.inputs[: about["inputs"]], dtype=np.float32))

    def look(network: Network) -> dict[str, float]:
        maps = [a.double() for a in network.attention(x)]
        spread = [1 / (a.shape[-1] * (a**2).sum(dim=-1)) for a in maps]
        shown = maps[-1][: about["maps"], :, 0, 1:].mean(dim=1)
        return {
            "spread": float(torch.stack(spread).mean()),
            "size": sum(_squared_size(block.attend) for block in network.blocks) ** 0.5,
            "map_sum": float(shown.sum(dim=1).max()),
            "map_least": float(shown.min()),
            **_weight_sizes(network, about["level"]),
        }

    return look


def _squared_size(attend: Any) -> float:
    """‖K_hᵀ Q_h‖² over all heads: the logits of a head are made of this matrix."""
    K, Q = (
        part.weight.double().unflatten(0, (attend.heads, -1)) for part in (attend.key, attend.query)
    )
    return float(((K.transpose(1, 2) @ Q) ** 2).sum())


def _at_texts(run: Plan, data: Labelled) -> Look:
    """Attention is that of the first token in the last layer, mean over heads. valence, bag: on the
    opinion words of test texts, by what it would be if all words had the same; opinion words are
    those that people rated at 1 or beyond (vaderSentiment), and those with the largest weights of
    the bag of words. unsummed: how far attention is from a sum of 1. bag_test: the accuracy of the
    bag of words.
    """
    import torch

    length, texts = run["fit"]["length"], data.test.inputs[: run["look"]["inputs"]]
    known = Vocabulary.of(data.train.inputs, run["fit"]["vocabulary"])
    numbers = known.encode(texts, length=length)
    word = (numbers != PAD) & (np.arange(length + 1) > 0)
    bag = kept(bag_of_words, {"data": data_fields(run["fit"]), "look": run["look"]})
    opinions = {"valence": _valence(), "bag": set(bag["words"].tolist())}
    marked = {name: np.zeros(word.shape, dtype=bool) for name in opinions}
    for name, words in opinions.items():
        for row, text in enumerate(texts):
            marked[name][row, 1 : 1 + len(text)] = [word in words for word in text]

    def look(network: Network) -> dict[str, float]:
        maps = network.attention(torch.from_numpy(numbers))
        a = maps[-1][:, :, 0].mean(dim=1).double().numpy()
        return {
            **{name: lift(a, word, opinion) for name, opinion in marked.items()},
            "unsummed": float(np.abs(a.sum(axis=1) - 1).max()),
            "bag_test": float(bag["bag_test"]),
            **_weight_sizes(network, run["look"]["level"]),
        }

    return look


def lift(attention: Floats, word: Any, opinion: Any) -> float:
    """The attention on opinion words by what it would be if all words had the same.

    attention: (n, L), from each text; word, opinion: (n, L), where one is. Texts without opinion
    words, or of these alone, are left out.
    """
    share = opinion.sum(axis=1) / word.sum(axis=1)
    fair = (share > 0) & (share < 1)
    on = (attention * opinion).sum(axis=1) / (attention * word).sum(axis=1)
    return float((on[fair] / share[fair]).mean())


def _valence() -> set[str]:
    """The words that people rated at 1 or beyond, of −4 to 4, in vaderSentiment's lexicon."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    lexicon = SentimentIntensityAnalyzer().lexicon
    return {word for word, valence in lexicon.items() if abs(float(valence)) >= 1}


def bag_of_words(plan: Plan) -> Columns:
    """Logistic regression on which words a text has: its strongest words, and its test accuracy.

    Each penalty is tried, and validation chooses.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    data = data_of(**plan["data"])
    words = Vocabulary.of(data.train.inputs, plan["data"]["vocabulary"]).words[len(SPECIAL) :]
    bag = CountVectorizer(analyzer=list, vocabulary=words, binary=True)
    parts = {name: (bag.transform(part.inputs), part.labels) for name, part in data.parts.items()}
    tried = [
        LogisticRegression(C=1 / (penalty * len(data.train)), solver="liblinear").fit(
            *parts["train"]
        )
        for penalty in plan["look"]["penalties"]
    ]
    best = max(tried, key=lambda model: model.score(*parts["valid"]))
    strongest = np.argsort(-np.abs(best.coef_[0]), kind="stable")[: plan["look"]["lexicon"]]
    return {
        "words": np.array(words)[strongest], "bag_test": np.array(best.score(*parts["test"])),
    }  # fmt: skip


# ---------------------------------------------------------------- comparing


def networks_of(table: DataFrame, matched: float) -> DataFrame:
    """One row per network (method, seed): its last record, and what was on the way.

    chosen: the test accuracy at the record with the best validation accuracy, the initial network
    left out; matched: that where training accuracy first reaches this level, on the line between
    two records; matched_NAME: the other columns at the first record that reaches it. Where it is
    not reached these are nan.
    """
    runs = table.groupby(NETWORK, sort=False)
    ends = runs.tail(1).set_index(NETWORK)
    trained = table[table.step > 0]
    best = trained.loc[trained.groupby(NETWORK).valid_accuracy.idxmax()].set_index(NETWORK)
    ends["chosen"] = best.test_accuracy
    ends["matched"] = {key: _accuracy_at(run, matched) for key, run in runs}
    first = table[table.train_accuracy >= matched].groupby(NETWORK).head(1).set_index(NETWORK)
    return ends.join(first.add_prefix("matched_"))


def _accuracy_at(run: DataFrame, level: float) -> float:
    """The test accuracy where training accuracy first reaches this level; nan where it does not."""
    x, y = run.train_accuracy.to_numpy(), run.test_accuracy.to_numpy()
    reached = np.flatnonzero(x >= level)
    if not reached.size:
        return float("nan")
    part = slice(max(reached[0] - 1, 0), reached[0] + 1)
    return float(np.interp(level, x[part], y[part]))


def difference(what: str, one: Series, other: Series) -> Checks:
    """The mean of the paired differences and its 95 % interval by Student's t, not judged.

    Pairs with a nan are left out.
    """
    apart = (one - other).dropna()
    mean, half = apart.mean(), student.ppf(0.975, len(apart) - 1) * apart.sem()
    for name, x in (("mean", mean), ("from", mean - half), ("to", mean + half)):
        yield info(f"{what}: {name}", x)


def premises(table: DataFrame, what: str, judged: int = 0) -> Premises:
    """What the networks are, and how many runs there are; judged is 0 where nothing is judged."""
    methods = table.groupby("method")
    return Premises(
        judged,
        f"{what}; {table.seed.nunique()} initial networks for each method; "
        f"{methods.seed.nunique().sum()} runs compared and {methods.tried.first().sum()} to choose "
        "rates, this many and no more",
    )
