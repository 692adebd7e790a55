"""The text networks that several studies look at, and a bag of words beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.labelled import PAD, SPECIAL, Labelled, Vocabulary
from attsvm.experiments.group import Group
from attsvm.experiments.runner import kept
from attsvm.experiments.studies.shared.networks import (
    Look,
    Plan,
    data_fields,
    data_of,
    network_rows,
    train_network,
    weight_sizes,
)
from attsvm.experiments.table import Columns

if TYPE_CHECKING:
    from attsvm.torch.networks import Network

# The published runs have three to six layers of width 384 on 512 word pieces, and take days. level:
# as far beyond the bound 1/√width of the initial weights as the published 0.06 is beyond that of
# width 384. penalties, lexicon: of the bag of words.
FULL: Plan = {
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
_SMALL = {"train_count": 600, "valid_count": 200, "test_count": 300, "length": 24}
QUICK: Plan = {
    **FULL,
    "fit": {**FULL["fit"], **_SMALL, "vocabulary": 2000, "width": 16, "epochs": 8, "measured": 300},
    "tuning": {"train_count": 300, "test_count": 100, "epochs": 4, "records": 1},
    "tuning_seeds": [100],
    "first_rate": 1,
    "look": {**FULL["look"], "inputs": 50, "level": 0.295, "lexicon": 60},
}


def measure(group: Group, method: str, plan: Plan) -> Columns:
    """The records of the networks of these seeds, with their weights and their attention.

    Attention is that of the first token in the last layer, mean over heads. valence, bag: on the
    opinion words of test texts, by what it would be if all words had the same; opinion words are
    those that people rated at 1 or beyond (vaderSentiment), and those with the largest weights of
    the bag of words. unsummed: how far attention is from a sum of 1. bag_test: the accuracy of the
    bag of words.
    """
    return network_rows(group, method, plan, train_on_texts)


# What the studies on these networks have in common.
STUDIED: dict[str, Any] = {
    "kind": "figure",
    "source": "code",
    "grid": {"method": list(FULL["methods"])},
    "run": {"plan": FULL},
    "seeds": 5,
    "group": 1,
    "measure": measure,
    "thresholds": {"matched": 0.8},
    "quick": {"run": {"plan": QUICK}, "seeds": 2, "thresholds": {"matched": 0.6}},
    "needs": ("torch", "reviews", "valence", "sklearn"),
}


def train_on_texts(run: Plan) -> Columns:
    """The records of one run."""
    return train_network(run, _looking)


def _looking(run: Plan, data: Labelled) -> Look:
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
            **weight_sizes(network, run["look"]["level"]),
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
