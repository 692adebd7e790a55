"""What claims on trained text networks share: one config, so that they look at the same runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from attsvm._utils.arrays import Floats
from attsvm.datasets.labelled import SPECIAL, Labelled, Vocabulary
from attsvm.experiments.studies.claim import Config, Result
from attsvm.experiments.studies.shared.network_fits import data_at
from attsvm.experiments.studies.shared.network_runs import all_runs
from attsvm.experiments.studies.shared.stored import TrainingRun, done

# The published runs have three to six layers of width 384 on 512 word pieces, and take days.
FULL: Config = {
    "fit": {
        "task": "text",
        "source": "imdb",
        "train_count": 8000,
        "valid_count": 1000,
        "test_count": 2500,
        "length": 64,
        "vocabulary": 8000,
        "width": 32,
        "hidden": 64,
        "layers": 1,
        "heads": 4,
        "batch": 32,
        "epochs": 14,
        "records": 2,
        "measured": 1500,
        "stop_accuracy": 0.995,
    },
    "tuning": {"train_count": 4000, "test_count": 1000, "epochs": 12, "records": 1},
    "methods": {
        "1.1": {"optimizer": "mirror", "p": 1.1},
        "1.5": {"optimizer": "mirror", "p": 1.5},
        "2": {"optimizer": "sgd"},
        "3": {"optimizer": "mirror", "p": 3.0},
        "2, embeddings 10 ×": {"optimizer": "sgd", "embedding_lr": 10.0},
        "2, rate of 1.1": {"optimizer": "sgd"},
        "AdamW": {"optimizer": "adamw"},
    },
    "rates": {
        "1.1": [0.03, 0.1, 0.3],
        "1.5": [0.1, 0.2, 0.4],
        "2": [0.1, 0.3, 0.6],
        "3": [0.01, 0.03, 0.1],
        "2, embeddings 10 ×": [0.1, 0.3, 0.6],
        "AdamW": [5e-4, 2e-3, 5e-3],
    },
    "same_rate": {"2, rate of 1.1": "1.1"},
    "tuning_models": [100, 101, 102],
    "models": [0, 1, 2, 3, 4],
    "look": 300,
    "images": 0,
    "matched": 0.8,
    # As far beyond the bound 1/√width of the initial weights as the published 0.06 is beyond
    # that of width 384.
    "level": 0.208,
    "penalties": [3e-4, 1e-3, 3e-3, 1e-2],
    "lexicon": 200,
}
_SMALL = {"train_count": 600, "valid_count": 200, "test_count": 300, "length": 24}
QUICK: Config = {
    **FULL,
    "fit": {**FULL["fit"], **_SMALL, "vocabulary": 2000, "width": 16, "epochs": 8, "measured": 300},
    "tuning": {"train_count": 300, "test_count": 100, "epochs": 4, "records": 1},
    "rates": {method: rates[1:] for method, rates in FULL["rates"].items()},
    "tuning_models": [100],
    "models": [0, 1],
    "look": 50,
    "matched": 0.6,
    "level": 0.295,
    "lexicon": 60,
}


def bag_of_words(plan: Config) -> Result:
    """Logistic regression on which words a text has: weights, accuracies, right (n,).

    Each penalty is tried, and validation chooses.
    """
    data, known = _data_and_words(plan)
    X, y = (
        _counts(known, data.train.inputs),
        np.where(np.asarray(data.train.labels) == 1, 1.0, -1.0),
    )
    best: Result = {}
    tried = []
    for penalty in plan["penalties"]:
        w = _logistic(X, y, penalty)
        right = [_right(w, known, part) for part in (data.valid, data.test)]
        tried.append(right[0].mean())
        if not best or right[0].mean() > best["valid"]:
            train = _right(w, known, data.train).mean()
            best = {
                "weights": w,
                "valid": right[0].mean(),
                "right": right[1],
                "train": np.array(train),
            }
    return {**best, "valid": np.array(tried)}


def bag_run(config: Config) -> TrainingRun:
    """The run of the bag of words."""
    return TrainingRun(bag_of_words, {"fit": config["fit"], "penalties": config["penalties"]})


def text_runs(config: Config) -> list[TrainingRun]:
    """Every run of the text networks, and the bag of words."""
    return [bag_run(config), *all_runs(config)]


def _data_and_words(plan: Config) -> tuple[Labelled, Vocabulary]:
    data = data_at(plan)
    return data, Vocabulary.of(data.train.inputs, plan["fit"]["vocabulary"])


def _counts(known: Vocabulary, texts: Any) -> csr_array:
    """Which words each text has (n, words + 1), the last column 1."""
    rows, columns = [], []
    for row, text in enumerate(texts):
        own = {known.numbers[word] for word in text if word in known.numbers}
        for column in (*sorted(own), len(known)):
            rows.append(row)
            columns.append(column)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(known) + 1))


def _logistic(X: csr_array, y: Floats, penalty: float) -> Floats:
    """argmin mean log(1 + e^{−y Xw}) + penalty/2 ‖w‖²."""

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = y * (X @ w)
        slope = -y * np.exp(-np.logaddexp(0.0, margin)) / len(y)
        value = np.logaddexp(0.0, -margin).mean() + penalty / 2 * (w @ w)
        return float(value), X.T @ slope + penalty * w

    found = minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B")
    return np.asarray(found.x, dtype=np.float64)


def _right(w: Floats, known: Vocabulary, part: Any) -> Floats:
    said = (_counts(known, part.inputs) @ w > 0).astype(np.int64)
    return (said == np.asarray(part.labels)).astype(np.float64)


@lru_cache(maxsize=1)
def _valence() -> dict[str, float]:
    """The words of vaderSentiment's lexicon with their valence, −4 to 4."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return {word: float(x) for word, x in SentimentIntensityAnalyzer().lexicon.items()}


def bag_arrays(config: Config) -> Result:
    """The arrays of the bag of words under `bag.`."""
    made = done(bag_run(config))
    weights = np.zeros(config["fit"]["vocabulary"] + 1)
    weights[: len(made["weights"]) - 1] = made["weights"][:-1]
    weights[-1] = made["weights"][-1]
    return {"bag.weights": weights, **{f"bag.{k}": made[k] for k in ("right", "train", "valid")}}


def opinion_masks(config: Config, weights: Floats) -> dict[str, Floats]:
    """Which of the words (look, length + 1) of the texts looked at are opinion words, 0 or 1.

    By two lexicons: `valence`, the words that people rated at 1 or beyond (vaderSentiment), and
    `bag`, the words with the largest weights of the bag of words on the training texts. nan where
    there is no word.
    """
    data, known = _data_and_words({"fit": config["fit"]})
    strength = np.abs(weights[:-1])
    strength[: len(SPECIAL)] = 0.0
    strongest = set(np.argsort(-strength, kind="stable")[: config["lexicon"]].tolist())
    rated = {word for word, x in _valence().items() if abs(x) >= 1}
    texts = data.test.inputs[: config["look"]]
    numbers = known.encode(texts, length=config["fit"]["length"])
    out = {name: np.full(numbers.shape, np.nan) for name in ("valence", "bag")}
    for row, text in enumerate(texts):
        for place, word in enumerate(text[: config["fit"]["length"]], start=1):
            out["valence"][row, place] = word in rated
            out["bag"][row, place] = int(numbers[row, place]) in strongest
    return out
