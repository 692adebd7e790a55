"""What studies of trained networks compute from their records, by hand."""

import numpy as np
import pytest
from pandas import DataFrame, Series
from scipy.stats import ttest_rel

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared import networks
from attsvm.experiments.studies.shared.networks import difference, lift, measure, networks_of


def records(method, seed, train, valid, test):
    steps = np.arange(len(train))
    return DataFrame(
        {"method": method, "seed": seed, "step": steps, "train_accuracy": train,
         "valid_accuracy": valid, "test_accuracy": test, "size": 10.0 * steps}
    )  # fmt: skip


def test_a_network_is_compared_where_validation_chooses_and_where_training_is_equal():
    table = DataFrame(
        [
            *records("a", 0, [0.5, 0.7, 0.9], [0.9, 0.6, 0.6], [0.1, 0.2, 0.3]).to_dict("records"),
            *records("a", 1, [0.5, 0.6], [0.5, 0.6], [0.4, 0.5]).to_dict("records"),
        ]
    )
    found = networks_of(table, matched=0.75)
    assert found.chosen.tolist() == [0.2, 0.5]  # not the initial network; the first of equal ones
    assert found.matched["a"][0] == pytest.approx(0.2 + 0.1 / 4)
    assert np.isnan(found.matched["a"][1])
    assert found["size"].tolist() == [20.0, 10.0]
    assert found.matched_size["a"][0] == 20.0 and np.isnan(found.matched_size["a"][1])


def test_differences_are_paired_with_an_interval_by_students_t():
    one, other = Series([2.0, 4.0, 6.0, np.nan]), Series([1.0, 2.0, 3.0, 5.0])
    mean, low, high = (check.seen for check in difference("apart", one, other))
    law = ttest_rel(one[:3], other[:3]).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((2.0, law.low, law.high))


CALLS = []


def train(run):
    fit = run["fit"]
    CALLS.append((fit["lr"], fit["seed"], bool(run["look"])))
    best = {0.1: 0.6, 0.2: 0.9, 0.4: 0.8}[fit["lr"]]
    return {"valid_accuracy": np.array([0.5, best]), "collapsed": np.full(2, fit["lr"] == 0.2)}


def test_the_best_rate_of_a_method_that_does_not_collapse_is_taken(monkeypatch):
    CALLS.clear()
    monkeypatch.setattr(networks, "train_network", train)
    methods = {"a": {"fit": {}, "rates": [0.1, 0.2, 0.4]}, "b": {"fit": {}, "rate_of": "a"}}
    plan = {"fit": {}, "tuning": {}, "methods": methods, "tuning_seeds": [7], "first_rate": 0,
            "look": {"inputs": 1}}  # fmt: skip
    rows = measure(Group((0, 1)), "a", plan)
    assert CALLS == [(0.1, 7, False), (0.2, 7, False), (0.4, 7, False), (0.4, 0, True),
                     (0.4, 1, True)]  # fmt: skip
    assert rows["seed"].tolist() == [0, 0, 1, 1]
    assert set(rows["rate"]) == {0.4} and set(rows["tried"]) == {3}
    other = measure(Group((0,)), "b", plan)
    assert set(other["rate"]) == {0.4} and set(other["tried"]) == {0}
    later = measure(Group((0,)), "a", {**plan, "first_rate": 1})
    assert set(later["rate"]) == {0.4} and set(later["tried"]) == {2}


def test_attention_on_opinion_words_is_measured_by_the_even_share():
    word = np.array([[False, True, True, True, True], [False, True, True, False, False]])
    opinion = np.array([[False, True, False, False, False], [False] * 5])
    even = np.full((2, 5), 0.2)
    assert lift(even, word, opinion) == pytest.approx(1.0)
    more = np.array([[0.2, 0.4, 0.1, 0.1, 0.2], [0.2] * 5])
    assert lift(more, word, opinion) == pytest.approx(2.0)  # half of the words' attention, not 1/4
