"""Rates: known laws are named with their constants; too short, noisy or other ones are not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import BadTokens, Unsupported
from attsvm.theory.rates import COMPARED, NOT_YET, SHAPES, compare, fit
from tests.tolerances import EXACTLY

LAWS = {
    "1/log t": lambda l: -np.log(l),
    "log log t/log t": lambda l: np.log(np.log(l)) - np.log(l),
    "log t/t": lambda l: np.log(l) - l,
    "t^-a": lambda l: -0.7 * l,
    "exponential": lambda l: -0.5 * np.exp(l - l[-1]) * 40,
}


@pytest.mark.parametrize("far", [12.0, 120.0])
@pytest.mark.parametrize("name", COMPARED)
def test_each_law_is_named_with_its_constants(name, far):
    log_t = np.linspace(1.5, far, 400)
    y = np.log(3.0) + LAWS[name](log_t)
    found = compare(log_t, np.exp(y), clock="log t")
    assert found.verdict == name and found.decided and "times worse" in found.reason
    best = found.fits[0]
    assert_allclose(best.log_constant, np.log(3.0), atol=1e-8)
    assert best.settled and best.goodness > 1 - EXACTLY
    expected = {"t^-a": 0.7, "exponential": 20 * np.exp(-far)}.get(name)
    assert (best.exponent is None) == (expected is None)
    if expected is not None:
        assert_allclose(best.exponent, expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["(log log t)^2/log t", "(log t)^-a", "log t"])
def test_the_other_shapes_fit_their_own_law(name):
    log_t = np.linspace(2, 60, 300)
    y = SHAPES[name].s(log_t) * (-1.4 if SHAPES[name].free else 1.0)
    found = fit(log_t, np.exp(y), name, clock="log t")
    assert found.drift < EXACTLY and abs(found.log_constant) < EXACTLY
    assert found.exponent is None or abs(found.exponent - 1.4) < EXACTLY


def test_steps_and_their_logs_give_the_same_fit():
    t = np.arange(0, 3000)
    v = 1 / (1.0 + t) ** 0.4
    with np.errstate(divide="ignore"):
        assert fit(t, v, "t^-a") == fit(np.log(t), v, "t^-a", clock="log t")


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (lambda l: 1 / (l + 3), "between the halves"),  # 1/log t, seen too early
        (lambda l: l**-2.0, "between the halves"),  # a law that is not in the list
        (lambda l: np.exp(-l / 2) + 0.05 / l, "between the halves"),  # a change of law
    ],
)
def test_a_drifting_constant_is_not_yet_asymptotic(law, reason):
    log_t = np.linspace(1.5, 14, 400)
    found = compare(log_t, law(log_t), clock="log t")
    assert found.verdict == NOT_YET and not found.decided and reason in found.reason
    assert not found.fits[0].settled


def test_the_same_law_seen_long_enough_is_named():
    log_t = np.linspace(1.5, 120, 400)
    assert compare(log_t, 1 / (log_t + 3), clock="log t").verdict == "1/log t"


def test_a_short_window_cannot_tell_shapes_apart():
    log_t = np.linspace(100, 101, 200)
    noise = 1e-4 * np.random.default_rng(0).standard_normal(200)
    found = compare(log_t, np.exp(noise) / log_t, clock="log t")
    assert found.verdict == NOT_YET and "alike" in found.reason


def correlated(rng, n, rho):
    """A stationary series of unit variance in which neighbours correlate by rho."""
    x = rng.standard_normal(n)
    for k in range(1, n):
        x[k] = rho * x[k - 1] + np.sqrt(1 - rho**2) * x[k]
    return x


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_standard_errors_allow_for_correlated_noise(rho):
    rng = np.random.default_rng(5)
    log_t = np.linspace(2, 20, 400)
    runs = [np.exp(-0.5 * log_t + 0.1 * correlated(rng, 400, rho)) for _ in range(150)]
    fits = [fit(log_t, v, "t^-a", clock="log t") for v in runs]
    spread = np.std([f.exponent for f in fits])
    claimed = np.median([f.exponent_error for f in fits])
    assert 0.5 < claimed / spread < 1.5
    if rho:  # errors taken for independent would be too small by more than the block errors are
        x = log_t[log_t >= 11]
        naive = 0.1 / np.sqrt(((x - x.mean()) ** 2).sum())
        assert naive / spread < 0.4
    assert np.median([f.log_constant_error for f in fits]) > 0


def test_bad_series_are_refused():
    t = np.arange(1, 200)
    with pytest.raises(Unsupported, match="unknown shape"):
        fit(t, 1.0 / t, "1/t")
    with pytest.raises(Unsupported, match="two or more"):
        compare(t, 1.0 / t, shapes=["t^-a"])
    with pytest.raises(BadTokens, match="positive values"):
        fit(t, np.where(t > 150, 0.0, 1.0 / t), "t^-a")
    with pytest.raises(BadTokens, match="needs 8"):
        fit(t[:10], 1.0 / t[:10], "t^-a")
    with pytest.raises(BadTokens, match="both must be"):
        fit(t, np.ones((2, 3)), "t^-a")
    with pytest.raises(Unsupported, match="clock"):
        fit(t, 1.0 / t, "t^-a", clock="log")
    with pytest.raises(Unsupported, match="tail"):
        fit(t, 1.0 / t, "t^-a", tail=0.0)
    # before the window anything goes
    assert fit(t, np.where(t < 5, -1.0, 1.0 / t), "t^-a").settled
