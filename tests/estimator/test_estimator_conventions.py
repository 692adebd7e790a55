"""The scikit-learn face keeps scikit-learn's conventions, and is used with its tools.

scikit-learn's own checks hand over tables (n, d). `Rows` takes such a table, sets a constant token
beside each row, and changes nothing else, so `check_estimator` runs whole on it: cloning,
parameters, repr, pickling, idempotent fits, unfitted and malformed inputs, labels, dtypes, order
and subsets of samples. Checks that cannot apply:

    check_estimators_empty_data_messages   asks for a message with a shape of two axes; (n, T, 0)
                                           is refused with its own three
    check_fit2d_predict1d                  asks for the advice to reshape to two axes
    check_array_api_input                  runs only under SCIPY_ARRAY_API
    check_classifier_data_not_an_array     its second half needs pandas

Checks of sample weights, sparse inputs, several outputs, class weights and partial fits are not
asked of an estimator without them. `RowScaler` does the same for TokenScaler, each row an input of
one token.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags

from attsvm.errors import Unsupported
from attsvm.estimator import MaxMarginAttention, TokenScaler
from tests.estimator.test_estimator import task, unsettled
from tests.tolerances import GAP

# Refused in words of their own: see above.
OTHER_WORDS = {"check_estimators_empty_data_messages", "check_fit2d_predict1d"}
# Passed as far as the installed packages let them run.
MAY_SKIP = {"check_array_api_input", "check_classifier_data_not_an_array"}


def beside_one(X):
    """Rows (n, d) as inputs (n, 2, d) of the row and a constant token; anything else as it is."""
    if issparse(X):
        return X
    rows = np.asarray(X)
    return np.stack([rows, np.ones_like(rows)], axis=1) if rows.ndim == 2 else rows


class Rows(MaxMarginAttention):
    """The estimator for tables."""

    def fit(self, X, y):
        return super().fit(beside_one(X), y)

    def decision_function(self, X):
        return super().decision_function(beside_one(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class RowScaler(TokenScaler):
    """The scaler for tables: rows as inputs of one token, and back."""

    def fit(self, X, y=None):
        return super().fit(one_token(X), y)

    def transform(self, X):
        made = super().transform(one_token(X))
        return made[:, 0] if made.shape[1] == 1 else made

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def one_token(X):
    """Rows (n, d) as inputs (n, 1, d); anything else as it is."""
    if issparse(X):
        return X
    rows = np.asarray(X)
    return rows[:, None] if rows.ndim == 2 else rows


@unsettled
@pytest.mark.parametrize(
    "estimator", [Rows(max_iter=40, lr=0.3), RowScaler()], ids=["Rows", "RowScaler"]
)
def test_the_checks_of_scikit_learn(estimator):
    expected = dict.fromkeys(OTHER_WORDS, "three axes")
    done = estimator_checks.check_estimator(
        estimator, on_fail=None, on_skip=None, expected_failed_checks=expected
    )
    found = {status: set() for status in ("passed", "failed", "xfail", "skipped")}
    for check in done:
        found[check["status"]].add(check["check_name"])
    assert not found["failed"], [c["exception"] for c in done if c["status"] == "failed"]
    assert found["xfail"] == OTHER_WORDS
    assert found["skipped"] <= MAY_SKIP
    assert len(found["passed"]) > 40


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimators_unfitted",
    ],
)
@pytest.mark.parametrize("kind", [MaxMarginAttention, TokenScaler])
def test_checks_without_data(check, kind):
    run = getattr(estimator_checks, check)
    run(kind.__name__, kind())


def test_tags_ask_for_three_axes_and_take_several_classes():
    tags = get_tags(MaxMarginAttention())
    assert tags.input_tags.three_d_array and not tags.input_tags.two_d_array
    assert tags.classifier_tags.multi_class and not tags.classifier_tags.multi_label
    assert tags.target_tags.required


@unsettled
def test_the_same_fit_twice_and_from_a_clone():
    X, y = task(20)
    model = MaxMarginAttention(max_iter=40, init="normal:0.3", seed=3)
    first = model.fit(X, y).decision_function(X)
    assert np.array_equal(model.fit(X, y).decision_function(X), first)
    assert np.array_equal(clone(model).fit(X, y).decision_function(X), first)
    other = clone(model).set_params(seed=4).fit(X, y).decision_function(X)
    assert not np.allclose(other, first, rtol=GAP)


@unsettled
def test_in_a_pipeline_and_a_grid():
    X, y = task(40)
    flat = X.reshape(40, -1)
    shape = FunctionTransformer(lambda rows: rows.reshape(len(rows), 5, 8))
    line = make_pipeline(shape, MaxMarginAttention(max_iter=100))
    assert line.fit(flat, y).score(flat, y) > 0.9
    grid = {"maxmarginattention__optimizer": ["gd", "ngd"], "maxmarginattention__lr": [1e-6, 0.1]}
    search = GridSearchCV(line, grid, cv=2, error_score="raise").fit(flat, y)
    assert search.best_params_["maxmarginattention__lr"] == 0.1
    assert search.best_score_ > 0.8
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_without_scikit_learn_the_import_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "attsvm.estimator")
    with pytest.raises(Unsupported, match=r"needs scikit-learn: pip install scikit-learn$"):
        __import__("attsvm.estimator")
