"""Probabilities, several classes and the scaler of tokens."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.estimator import MaxMarginAttention, TokenScaler
from tests.contracts.outside import LOSS
from tests.estimator.test_estimator import task, unsettled
from tests.tolerances import ROUNDING


def three(n=60, seed=0):
    """Inputs of three tokens, one of them far along the axis of its class, the others small."""
    rng = np.random.default_rng(seed)
    X, y = 0.1 * rng.standard_normal((n, 3, 4)), rng.integers(0, 3, n)
    X[np.arange(n), rng.integers(0, 3, n), y] += 2.0
    return X, np.array(["ash", "birch", "cedar"])[y]


@pytest.fixture(scope="module")
def trees():
    """A fit of three classes, and inputs it has not seen."""
    X, y = three(90)
    return MaxMarginAttention(query=None, max_iter=200).fit(X[:60], y[:60]), X[60:], y[60:]


def test_three_classes(trees):
    model, X, y = trees
    assert model.classes_.tolist() == ["ash", "birch", "cedar"]
    assert model.coef_.shape == (3, 4) and model.attention_.shape == (3, 4)
    assert model.selection_.shape == (3, 60) and len(model.path_) == len(model.state_) == 3
    assert all(certificate.verify().ok for certificate in model.certificate_)
    assert model.attention(X).shape == (30, 3, 3)
    np.testing.assert_allclose(model.attention(X).sum(axis=2), 1.0)
    assert model.decision_function(X).shape == (30, 3)
    assert np.array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(1)])
    assert model.score(X, y) > 0.9


@unsettled
def test_each_decision_is_that_of_two_classes(trees):
    model, X, _ = trees
    fitted, y = three(90)
    alone = MaxMarginAttention(query=None, max_iter=200).fit(fitted[:60], y[:60] == "birch")
    assert np.array_equal(alone.coef_, model.coef_[1])
    np.testing.assert_allclose(alone.decision_function(X), model.decision_function(X)[:, 1])
    assert np.array_equal(alone.attention(X), model.attention(X)[:, 1])


def test_three_classes_with_a_query():
    X, y = three(30)
    with pytest.warns(ConvergenceWarning, match="^class (ash|birch|cedar): after 30 steps"):
        model = MaxMarginAttention(max_iter=30).fit(X, y)
    assert model.attention_.shape == (3, 4, 4) and model.attention(X[:, :2]).shape == (30, 3, 2)


def test_probabilities_of_several_classes(trees):
    model, X, _ = trees
    odds = expit(model.decision_function(X))
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    far = model.predict_proba(-1e4 * X)  # where every class says no, beyond the range of exp
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1.0, rtol=ROUNDING)


@unsettled
@pytest.mark.parametrize(("loss", "scale"), [("logistic", 1.0), ("exponential", 2.0)])
def test_probabilities_of_two_classes(loss, scale):
    X, y = task(30)
    model = MaxMarginAttention(loss=loss, max_iter=60).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], expit(scale * model.decision_function(X)), rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=ROUNDING)
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    model.set_params(loss="linear")  # waits for the next fit
    assert np.array_equal(model.predict_proba(X), found)


@pytest.mark.parametrize("loss", ["linear", "squared", LOSS])
def test_other_losses_have_no_probabilities(loss):
    model = MaxMarginAttention(loss=loss)
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(np.zeros((1, 1, 1)))


def test_scaler_keeps_the_axes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 5, 3)) * [1.0, 10.0, 1e-3] + [0.0, 7.0, -2.0]
    scaler = TokenScaler()
    made = scaler.fit_transform(X)
    assert made.shape == X.shape
    np.testing.assert_allclose(made.mean(axis=(0, 1)), 0.0, atol=1e-9)
    np.testing.assert_allclose(made.std(axis=(0, 1)), 1.0, rtol=1e-9)
    np.testing.assert_allclose(scaler.inverse_transform(made), X, rtol=1e-9, atol=1e-12)
    assert scaler.transform(X[:2, :1]).shape == (2, 1, 3)
    plain = TokenScaler(center=False, scale=False).fit_transform(X)
    assert np.array_equal(plain, X)
    assert np.array_equal(TokenScaler(scale=False).fit(X).scale_, np.ones(3))


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_scaler_of_extreme_sizes(size):
    X = size * np.array([[[1.0, 3.0], [-1.0, 3.0]], [[1.0, 3.0], [-1.0, 3.0]]])
    made = TokenScaler().fit_transform(X)
    np.testing.assert_allclose(made, np.sign(X) * [1.0, 0.0], atol=1e-12)


def test_scaler_of_one_token_and_float32():
    made = TokenScaler().fit_transform(np.full((1, 1, 2), 0.1, np.float32))
    assert made.dtype == np.float64 and np.array_equal(made, np.zeros((1, 1, 2)))


def test_scaler_refuses():
    with pytest.raises(BadTokens, match=r"it must be \(n, T, d\)"):
        TokenScaler().fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="NaN"):
        TokenScaler().fit(np.full((1, 1, 1), np.nan))
    with pytest.raises(BadTokens, match="X has 3 features, but TokenScaler is expecting 2"):
        TokenScaler().fit(np.zeros((2, 2, 2))).transform(np.zeros((2, 2, 3)))


@unsettled
def test_scaler_and_classifier_in_one_line():
    X, y = three(60)
    line = make_pipeline(TokenScaler(), MaxMarginAttention(query=None, max_iter=100))
    assert cross_val_score(line, 1e6 * X, y, cv=3).mean() > 0.9
