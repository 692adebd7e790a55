"""The scikit-learn face: decisions, certificates, warnings, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from attsvm.datasets import EXAMPLES
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.estimator import MaxMarginAttention
from tests.contracts.outside import LOSS, OPTIMIZER
from tests.tolerances import DIRECTION, ROUNDING

unsettled = pytest.mark.filterwarnings("ignore::attsvm.errors.ConvergenceWarning")


def task(n=60, T=4, d=8, **options):
    """Contexts with the query as the last token, so that "last" asks for the context."""
    arrays = EXAMPLES["contextual"](n, T, d, **options)
    return np.concatenate([arrays["X"], arrays["z"][:, None]], axis=1), arrays["y"]


@pytest.fixture(scope="module")
def fitted():
    """A small fit, its training inputs and labels, and inputs it has not seen."""
    X, y = task(90)
    with pytest.warns(ConvergenceWarning):
        return MaxMarginAttention(max_iter=300).fit(X[:50], y[:50]), X, y


def test_it_learns_where_to_look(fitted):
    model, X, y = fitted
    assert model.score(X[:50], y[:50]) == 1.0
    assert model.score(X[50:], y[50:]) > 0.9


def test_what_a_fit_leaves(fitted):
    model, X, _ = fitted
    assert model.classes_.tolist() == [-1, 1]
    assert model.coef_.shape == (8,) and model.attention_.shape == (8, 8)
    assert model.n_iter_ == 300 == model.path_.steps[-1] and model.n_features_in_ == 8
    assert np.array_equal(model.selection_, model.attention(X[:50]).argmax(axis=1))
    assert model.state_ == model.outcome_.state == "undecided"
    assert model.certificate_.norm.name == "frobenius"
    assert model.certificate_.verify().ok


def test_decisions_are_the_formula(fitted):
    model, X, _ = fitted
    logits = np.einsum("ntd,de,ne->nt", X, model.attention_, X[:, -1])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.attention(X), weights, rtol=1e-9, atol=ROUNDING)
    values = np.einsum("nt,ntd,d->n", weights, X, model.coef_)
    np.testing.assert_allclose(model.decision_function(X), values, rtol=1e-9, atol=1e-9)
    assert np.array_equal(model.predict(X), np.where(values > 0, 1, -1))


def test_saturated_weights_read_one_token(fitted):
    model, X, _ = fitted
    sure = pickle.loads(pickle.dumps(model))
    sure.attention_ = 1e200 * model.attention_
    top = model.attention(X).argmax(axis=1)
    chosen = X[np.arange(len(X)), top]
    np.testing.assert_allclose(sure.decision_function(X), chosen @ sure.coef_, rtol=ROUNDING)
    assert np.array_equal(sure.attention(X), np.eye(5)[top])


def test_inputs_may_have_another_number_of_tokens(fitted):
    model, X, _ = fitted
    last = X[:, -1:]
    assert np.array_equal(model.attention(last), np.ones((len(X), 1)))
    np.testing.assert_allclose(model.decision_function(last), last[:, 0] @ model.coef_)
    twice = np.concatenate([X[:, :1], X], axis=1)
    assert model.attention(twice).shape == (len(X), 6)


def test_a_parameter_set_after_fit_waits_for_the_next(fitted):
    model, X, _ = fitted
    other = pickle.loads(pickle.dumps(model)).set_params(query=None)
    assert np.array_equal(other.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("name", ["joint-tight", "joint-relaxed"])
def test_a_prompt_tends_to_the_published_limit_without_a_warning(name):
    arrays = EXAMPLES[name]()
    limit = {"joint-tight": (4 / 3, 1 / 3), "joint-relaxed": (1.0, 0.0)}[name]
    start = {"p": arrays["p0"], "v": arrays["v0"]}
    model = MaxMarginAttention(query=None, init=start).fit(arrays["X"], arrays["y"])
    assert model.state_ == "at a locally optimal selection"
    assert model.selection_.tolist() == [1, 1, 1]
    np.testing.assert_allclose(model.certificate_.W[:, 0], limit, atol=DIRECTION)
    unit = model.attention_ / np.linalg.norm(model.attention_)
    assert unit @ np.array(limit) / np.linalg.norm(limit) > 0.9999
    assert model.outcome_.correlation > 0.9999
    assert model.score(arrays["X"], arrays["y"]) == 1.0


@unsettled
@pytest.mark.parametrize(
    ("options", "norm"),
    [
        ({"optimizer": "adam"}, "max"),
        ({"optimizer": "muon"}, "spectral"),
        ({"optimizer": "nmirror:1.75"}, "l1.75"),
        ({"optimizer": "adam", "norm": "nuclear"}, "nuclear"),
        ({"norm": "l1"}, "l1"),
    ],
)
def test_the_norm_is_the_predicted_one_unless_given(options, norm):
    X, y = task(12)
    model = MaxMarginAttention(max_iter=30, **options).fit(X, y)
    assert model.certificate_.norm.name == norm
    assert model.certificate_.problem is model.outcome_.certificate.problem
    again = pickle.loads(pickle.dumps(model))
    assert again.certificate_.upper == model.certificate_.upper
    assert np.array_equal(again.predict(X), model.predict(X))


def test_an_undecided_run_warns():
    X, y = task(20)
    with pytest.warns(ConvergenceWarning, match=r"after 3 steps .* undecided"):
        model = MaxMarginAttention(max_iter=3).fit(X, y)
    assert model.state_ == "undecided"


def test_a_saturated_run_on_worse_tokens_warns():
    # The prompt holds the tokens 0 of score zero; the tokens 1 next to them score higher.
    arrays = EXAMPLES["joint-tight"]()
    held = {"p": np.array([-60.0, 0.0]), "v": np.array([0.0, 1.0])}
    model = MaxMarginAttention(query=None, init=held, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="saturated on tokens that are not locally optimal"):
        model.fit(arrays["X"], arrays["y"])
    assert model.state_ == "saturated" and model.selection_.tolist() == [0, 0, 0]


def test_a_run_that_leaves_the_floats_warns_once():
    X, y = task(10)
    wild = MaxMarginAttention(optimizer="mirror:1.01", lr=1e8, max_iter=10, init="normal:1")
    with pytest.warns(ConvergenceWarning, match="left the range of floats") as said:
        wild.fit(X, y)
    assert len(said) == 1
    assert np.isfinite(wild.coef_).all() and wild.n_iter_ < 10


def test_one_token_leaves_nothing_to_select():
    X, y = task(20)
    model = MaxMarginAttention(max_iter=50).fit(X[:, :1], y)
    assert model.certificate_ is None and model.state_ == "unknown"
    assert not model.selection_.any()


@unsettled
def test_repeated_tokens_are_no_obstacle():
    X, y = task(20)
    padded = np.concatenate([np.zeros((20, 2, 8)), X], axis=1)
    model = MaxMarginAttention(max_iter=200).fit(padded, y)
    np.testing.assert_allclose(model.attention(padded).sum(axis=1), 1.0, rtol=ROUNDING)
    assert model.score(padded, y) > 0.9


@unsettled
@pytest.mark.parametrize("names", [("no", "yes"), (0, 1), (True, False), (7.0, 3.0)])
def test_any_two_classes_will_do(names):
    X, y = task(40)
    labels = np.where(y > 0, names[1], names[0])
    model = MaxMarginAttention(max_iter=300).fit(X, labels)
    assert model.classes_.tolist() == sorted(names)
    assert np.array_equal(model.predict(X), labels)
    second = model.decision_function(X) > 0
    assert np.array_equal(second, labels == model.classes_[1])


@unsettled
def test_first_and_last_ask_from_their_ends():
    X, y = task(20)
    last = MaxMarginAttention(max_iter=40).fit(X, y)
    first = MaxMarginAttention(max_iter=40, query="first").fit(X[:, ::-1], y)
    np.testing.assert_allclose(
        first.decision_function(X[:, ::-1]), last.decision_function(X), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda X, y: (X[0], y), BadTokens, r"X has shape \(5, 8\); it must be \(n, T, d\)"),
        (lambda X, y: (X[None], y), BadTokens, r"it must be \(n, T, d\)"),
        (lambda X, y: (X[:, :, :0], y), BadTokens, "an axis is empty"),
        (lambda X, y: (np.where(X > 1, np.nan, X), y), ValueError, r"^Input X contains NaN\.$"),
        (lambda X, y: (1e80 * X, y), BadTokens, "entries must be finite and below"),
        (lambda X, y: (X, y[:3]), ValueError, "inconsistent numbers of samples"),
        (lambda X, y: (X, None), BadTokens, "target y is None"),
        (lambda X, y: (X, 0 * y), BadTokens, "y has one class only, 0.0"),
        (lambda X, y: (X, np.stack([y, y], axis=1)), ValueError, "1d array"),
        (lambda X, y: (X, y + 0.5 * X[:, 0, 0]), ValueError, "continuous"),
    ],
)
def test_bad_input_is_one_sentence(change, kind, words):
    with pytest.raises(kind, match=words):
        MaxMarginAttention(max_iter=5).fit(*change(*task(12)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "weight"}, "model 'weight' does not train a decoder"),
        ({"model": "joint-prompt"}, "has no query: set query=None"),
        ({"query": "mean"}, "query is 'mean'"),
        ({"query": np.ones(2)}, "query is an array"),
        ({"optimizer": "sgd"}, "unknown optimizer 'sgd'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"loss": None}, "loss is None: it is given by name"),
        ({"norm": "l0"}, "norm 'l0'"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"max_iter": 1.5}, "max_iter is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"init": 0}, "init is 0"),
    ],
)
def test_a_bad_parameter_is_named_at_fit(options, words):
    model = MaxMarginAttention(**options)
    with pytest.raises(Unsupported, match=words):
        model.fit(*task(12))


def test_predict_refuses_what_it_was_not_fitted_for(fitted):
    model, X, _ = fitted
    with pytest.raises(NotFittedError):
        MaxMarginAttention().attention(X)
    with pytest.raises(BadTokens, match="X has 7 features, but MaxMarginAttention is expecting 8"):
        model.predict(X[:, :, :7])
    with pytest.raises(BadTokens, match=r"it must be \(n, T, d\)"):
        model.predict(X[0])
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(np.where(X > 1, np.inf, X))


@unsettled
def test_a_rule_and_a_loss_of_ones_own():
    a = EXAMPLES["joint-tight"]()
    model = MaxMarginAttention(
        query=None, optimizer=OPTIMIZER, loss=LOSS, norm="frobenius", max_iter=300
    )
    model.fit(a["X"], a["y"])
    assert model.outcome_.limit.status == "unknown"
    assert model.certificate_.status == "optimal"
    assert model.get_params()["optimizer"] is OPTIMIZER
