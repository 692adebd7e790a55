"""C: transformers trained on movie reviews by mirror descent: accuracy, weights, attention.

Three studies look at the same networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.labelled import PAD, SPECIAL, Labelled, Vocabulary, words_of
from attsvm.experiments.group import Group
from attsvm.experiments.kept import Arrays, kept
from attsvm.experiments.studies.shared.networks import (
    LETTERS,
    Look,
    Plan,
    data_fields,
    data_of,
    difference,
    mean_and_sd,
    network_rows,
    networks_of,
    paired,
    run_count,
    train_network,
    weight_checks,
    weight_sizes,
)
from attsvm.experiments.study import Found, Note, Premises, Study, equals, info

if TYPE_CHECKING:
    from pandas import DataFrame, Series

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
    "methods": {
        "p = 1.1": {"optimizer": "mirror", "p": 1.1},
        "p = 1.5": {"optimizer": "mirror", "p": 1.5},
        "p = 2": {"optimizer": "sgd"},
        "p = 3": {"optimizer": "mirror", "p": 3.0},
        "p = 2, embeddings 10 ×": {"optimizer": "sgd", "embedding_lr": 10.0},
        "p = 2, rate of 1.1": {"optimizer": "sgd"},
        "AdamW": {"optimizer": "adamw"},
    },
    "rates": {
        "p = 1.1": [0.03, 0.1, 0.3],
        "p = 1.5": [0.1, 0.2, 0.4],
        "p = 2": [0.1, 0.3, 0.6],
        "p = 3": [0.01, 0.03, 0.1],
        "p = 2, embeddings 10 ×": [0.1, 0.3, 0.6],
        "AdamW": [5e-4, 2e-3, 5e-3],
    },
    "same_rate": {"p = 2, rate of 1.1": "p = 1.1"},
    "tuning_seeds": [100, 101, 102],
    "look": {"inputs": 300, "level": 0.208, "penalties": [3e-4, 1e-3, 3e-3, 1e-2], "lexicon": 200},
}  # fmt: skip
_SMALL = {"train_count": 600, "valid_count": 200, "test_count": 300, "length": 24}
QUICK: Plan = {
    **FULL,
    "fit": {**FULL["fit"], **_SMALL, "vocabulary": 2000, "width": 16, "epochs": 8, "measured": 300},
    "tuning": {"train_count": 300, "test_count": 100, "epochs": 4, "records": 1},
    "rates": {method: rates[1:] for method, rates in FULL["rates"].items()},
    "tuning_seeds": [100],
    "look": {**FULL["look"], "inputs": 50, "level": 0.295, "lexicon": 60},
}
# Sentences of our own, each with the word that a reader would name.
SENTENCES = (
    ("a wonderful film about two brothers and their farm", "wonderful"),
    ("the second half is dull and it never ends", "dull"),
    ("we laughed a lot because the script is funny", "funny"),
    ("what a boring story about a man in a car", "boring"),
    ("the music is beautiful and the pictures are too", "beautiful"),
    ("a bad idea made into a long movie", "bad"),
    ("it is the best thing that she has made so far", "best"),
    ("nobody in this family drama is worth our time , it fails", "fails"),
)
LEXICONS = {"valence": "rated by people", "bag": "by the bag of words"}


# ---------------------------------------------------------------- measuring


def measure(group: Group, method: str, plan: Plan) -> Arrays:
    """The records of the networks of these seeds, with their weights and their attention.

    Attention is that of the first token in the last layer, mean over heads. valence, bag: on the
    opinion words of test texts, by what it would be if all words had the same; opinion words are
    those that people rated at 1 or beyond (vaderSentiment), and those with the largest weights of
    the bag of words. named: on the named word of SENTENCES, from 0 (least) to 1. unsummed: how far
    attention is from a sum of 1. bag_train, bag_test: the accuracies of the bag of words.
    """
    return network_rows(group, method, plan, train_on_texts)


def train_on_texts(run: Plan) -> Arrays:
    """The records of one run."""
    return train_network(run, _looking)


def _looking(run: Plan, data: Labelled) -> Look:
    import torch

    length, texts = run["fit"]["length"], data.test.inputs[: run["look"]["inputs"]]
    known = Vocabulary.of(data.train.inputs, run["fit"]["vocabulary"])
    own = [words_of(text) for text, _ in SENTENCES]
    numbers = [known.encode(found, length=length) for found in (texts, own)]
    word = (numbers[0] != PAD) & (np.arange(length + 1) > 0)
    bag = kept(bag_of_words, {"data": data_fields(run["fit"]), "look": run["look"]})
    opinions = {"valence": _valence(), "bag": set(bag["words"].tolist())}
    marked = {name: np.zeros(word.shape, dtype=bool) for name in opinions}
    for name, words in opinions.items():
        for row, text in enumerate(texts):
            marked[name][row, 1 : 1 + len(text)] = [word in words for word in text]

    def look(network: Network) -> dict[str, float]:
        a, b = (
            network.attention(torch.from_numpy(x))[-1][:, :, 0].mean(dim=1).double().numpy()
            for x in numbers
        )
        scores = [_score(x, *pair) for x, pair in zip(b, SENTENCES, strict=True)]
        return {
            **{name: lift(a, word, opinion) for name, opinion in marked.items()},
            "named": float(np.mean(scores)),
            "unsummed": max(float(np.abs(x.sum(axis=1) - 1).max()) for x in (a, b)),
            **{name: float(bag[name]) for name in ("bag_train", "bag_test")},
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


def _score(attention: Floats, text: str, named: str) -> float:
    """The attention on the named word of a text, 0 for the least and 1 for the largest there is."""
    words = words_of(text)
    a = attention[1 : 1 + len(words)]
    return float((a[words.index(named)] - a.min()) / max(a.max() - a.min(), 1e-12))


def _valence() -> set[str]:
    """The words that people rated at 1 or beyond, of −4 to 4, in vaderSentiment's lexicon."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    lexicon = SentimentIntensityAnalyzer().lexicon
    return {word for word, valence in lexicon.items() if abs(float(valence)) >= 1}


def bag_of_words(plan: Plan) -> Arrays:
    """Logistic regression on which words a text has: its strongest words, and accuracies.

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
    accuracy = {f"bag_{name}": np.array(best.score(*parts[name])) for name in ("train", "test")}
    return {"words": np.array(words)[strongest], **accuracy}


# ---------------------------------------------------------------- judging: nothing is, for now


_PAIRS = (
    ("p = 1.1", "p = 2"),
    ("p = 1.1", "p = 2, embeddings 10 ×"),
    ("p = 1.1", "AdamW"),
    ("p = 1.1", "p = 1.5"),
    ("p = 3", "p = 2"),
)
_WHY = {
    "accuracy": "Not the published parameterization: embeddings begin here with a spread of 0.1 "
    "and there with N(0, 1), and in separate runs of a network as theirs with N(0, 1), ℓ1.1 was "
    "ahead of gradient descent in 8 of 8 pairs. The reason is rates, not geometry: an entry w "
    "moves under p at the rate lr |w|^(2−p)/(p−1), and gradient descent with the same rate for "
    "each tensor was as good.",
    "weights": "Not the published parameterization: how many entries lie above a level follows the "
    "effective rate lr |w|^(2−p)/(p−1), and with embeddings of spread 0.1 in place of 1 that is "
    "another one. What p itself changes is the shape: in separate runs of a network as theirs "
    "‖w‖₁²/(n‖w‖₂²) of K was .24 under ℓ1.1 and .49 under gradient descent, .55 with the rates of "
    "ℓ1.1.",
    "attention": "Not the published parameterization: embeddings begin here with a spread of 0.1 "
    "and there with N(0, 1). In separate runs of a network as theirs two lexicons show no "
    "difference, and the published score (.44 under ℓ1.1, .31 under gradient descent) lies at the "
    "level of random attention on the same sentences (.44 to .48).",
}


def _counted(table: DataFrame, what: str) -> Premises:
    count = table.seed.nunique()
    return Premises(0, f"{what}; {count} initial networks for each method; {run_count(table)}")


def accuracy_checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """ℓ1.1 beside gradient descent in test accuracy, and the controls."""
    level = thresholds["matched"]
    found = networks_of(table, level)
    chosen, matched = found.chosen, found.matched
    for one, other in _PAIRS:
        what = f"{one} less {other}"
        yield from difference(f"{what}, test accuracy", chosen[one], chosen[other])
        yield from difference(f"{what}, at training {level:g}", matched[one], matched[other])
    for method, rows in found.groupby("method", sort=False):
        yield from mean_and_sd(f"{method}: test accuracy", rows.chosen)
        yield from mean_and_sd(f"{method}: test accuracy at the end", rows.test_accuracy)
        yield from mean_and_sd(f"{method}: training accuracy at the end", rows.train_accuracy)
        yield from mean_and_sd(f"{method}: test accuracy at training {level:g}", rows.matched)
        yield info(f"{method}: runs that reach it", rows.matched.count())
        yield info(f"{method}: runs that collapse", rows.collapsed.sum())
        yield info(f"{method}: rate chosen", rows.rate.iloc[0])
        yield info(f"{method}: tuning runs that collapse", rows.tuning_collapsed.iloc[0])
    bag = table.bag_test.iloc[0]
    yield info("bag of words: test accuracy", bag)
    yield info("bag of words: training accuracy", table.bag_train.iloc[0])
    yield Note(
        f"{_WHY['accuracy']} Test accuracy of ℓ1.1 against gradient descent: "
        f"{_points(chosen, 'p = 2')}; at equal training accuracy {level:g}: "
        f"{_points(matched, 'p = 2')}; against gradient descent with ten times the rate for "
        f"embeddings: {_points(chosen, 'p = 2, embeddings 10 ×')}; against AdamW: "
        f"{_points(chosen, 'AdamW')}; a bag of words has {100 * bag:.1f} %, ℓ1.1 "
        f"{100 * chosen['p = 1.1'].mean():.1f} %."
    )
    yield _counted(table, "IMDB reviews; a collapsed run counts with the accuracy it has")


def _points(accuracy: Series, other: str) -> str:
    """The difference of ℓ1.1 to another method, in points."""
    mean, low, high = (100 * x for x in paired(accuracy["p = 1.1"], accuracy[other]))
    return f"{mean:+.1f} points ({low:+.1f} to {high:+.1f})"


def weight_level_checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """How many entries of K, Q and V are above the level, under ℓ1.1 and gradient descent."""
    level = thresholds["matched"]
    found = networks_of(table, level)
    for other, when, words in (
        ("p = 2", "", "at the end"),
        ("p = 2", "matched_", f"at training accuracy {level:g}"),
        ("p = 2, rate of 1.1", "", "at the same rate"),
    ):
        for letter in LETTERS:
            count = found[f"{when}{letter}_above"]
            what = f"{letter}: p = 1.1 less {other}, {words}"
            yield from difference(what, count["p = 1.1"], count[other])
    yield from weight_checks(found)
    yield Note(_WHY["weights"])
    yield _counted(table, "entries of K, Q and V beyond a level set before training")


def attention_checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Attention on opinion words beside that of gradient descent, by both lexicons."""
    found = networks_of(table, thresholds["matched"])
    apart = found.unsummed.max(skipna=False)
    yield equals("attention that does not sum to 1", apart, 0, within=1e-4)
    for name, words in LEXICONS.items():
        for part, when in ((name, ""), (f"matched_{name}", ", at matched accuracy")):
            what = f"p = 1.1 less p = 2, words {words}{when}"
            yield from difference(what, found[part]["p = 1.1"], found[part]["p = 2"])
        for method, values in found[name].groupby("method", sort=False):
            yield from mean_and_sd(f"{method}: times the even share on words {words}", values)
    for method, values in found.named.groupby("method", sort=False):
        yield from mean_and_sd(f"{method}: score of the named word", values)
    yield Note(_WHY["attention"])
    yield _counted(table, "attention of the first token, last layer, mean over heads")


_ABOVE = [f"{letter}_above" for letter in LETTERS]
_EVEN = "attention, times the even share"
_CURVES = {"kind": "curves", "x": "epoch", "middle": "mean"}
_SHARED: dict[str, Any] = {
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
    "reference": "julistiono2024mirror",
}

STUDIES = (
    Study(
        id="C.opinion-words",
        title="Attention on opinion words under p = 1.1 against gradient descent",
        statement="After training on movie reviews, the attention of the first token in the last "
        "layer is more on words that carry an opinion under ℓ1.1 mirror descent than under "
        "gradient descent.",
        checks=attention_checks,
        figure=_CURVES | {"value": list(LEXICONS), "panels": "method", "ylabel": _EVEN},
        differs="The networks are those of C.real-text. Opinion words are named by two lexicons "
        "and not by hand: words that people rated at 1 or beyond (vaderSentiment), and the words "
        "with the largest weights of a bag of words. The published score, of one nominated word in "
        "each of 50 sentences, is noted for sentences of our own.",
        size="one layer of width 32 and 14 epochs, for 6 of 384 and up to 1,000",
        **_SHARED,
    ),
    Study(
        id="C.real-text",
        title="Mirror descent with p = 1.1 against gradient descent on movie reviews",
        statement="Trained on movie reviews, a transformer has a higher test accuracy under ℓ1.1 "
        "mirror descent than under gradient descent.",
        checks=accuracy_checks,
        figure=_CURVES | {"value": "test_accuracy", "lines": "method", "ylabel": "test accuracy"},
        differs="One layer of width 32 on the first 64 words, in place of three to six of width "
        "384 on 512 word pieces; rates are tuned for every method alike, on validation; every run "
        "has an initial network of its own (the released trials copy one); the accuracy is that at "
        "the record which validation chooses (the released outputs choose on the test set); and "
        "there are controls: equal training accuracy, a larger rate for embeddings, AdamW and a "
        "bag of words.",
        theorem="notebook",
        size="one layer of width 32, 64 words and 14 epochs, for 3 to 6 of 384, 512 and up to "
        "1,000",
        **_SHARED,
    ),
    Study(
        id="C.sparser-weights",
        title="Attention weights under p = 1.1 against gradient descent",
        statement="After training on movie reviews, fewer entries of K, Q and V are above a level "
        "set before training under ℓ1.1 mirror descent than under gradient descent.",
        checks=weight_level_checks,
        figure=_CURVES | {"value": _ABOVE, "panels": "method", "ylabel": "entries above the level"},
        differs="The networks are those of C.real-text. The level is as far beyond the bound of "
        "the initial weights as the published 0.06 is for width 384. The released counts are of "
        "one run each; here the counts are also taken at equal training accuracy and at the same "
        "rate.",
        size="one layer of width 32 and 14 epochs, for 6 of 384 and up to 1,000",
        **_SHARED,
    ),
)
