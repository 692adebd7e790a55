"""Optimizers by name, with their options, weight decay and schedules; what else is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm.errors import Unsupported
from attsvm.training.optimizers import OPTIMIZERS, Gradient, optimizer_of, schedule_of, with_decay
from tests.tolerances import ROUNDING

PLAIN = [key for key in OPTIMIZERS if not key.endswith(":P")]


@pytest.mark.parametrize("name", [*PLAIN, "mirror:1.75", "nmirror:1.05", "mirror:10"])
def test_names(name):
    optimizer = optimizer_of(name)
    assert optimizer.name == name and optimizer_of(optimizer) is optimizer


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (
            r"unknown optimizer .*known are gd, ngd, .*adam",
            ["", "GD", "sgd", "gd:2", "adam:0.9", "mirrors:2", "sgd:2"],
        ),
        (r"write nmirror:P, such as nmirror:1\.75", ["nmirror"]),
        ("must be above 1", [f"{m}:{p}" for m in ("mirror", "nmirror") for p in (1, 1.0, 0.5, 0)]),
        (
            "number P above 1",
            [f"mirror:{p}" for p in ("", "P", "P:P", ".", "-2", "nan", "inf", "2x", "1e3", " 2",
                                     "2:3", "٣")],
        ),
    ],
)  # fmt: skip
def test_other_names_are_refused_with_what_is_known(said, names):
    for name in names:
        with pytest.raises(Unsupported, match=said):
            optimizer_of(name)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("adam", {"beta": 0.5}, "no option beta: it takes beta1, beta2, eps"),
        ("mirror:2", {"p": 3}, "no option p: it takes none"),
        (optimizer_of("adam"), {"eps": 1.0}, "made already"),
        (3, {}, "given by name"),
        ("signum", {"momentum": 1.0}, "signum has"),
        ("adam", {"beta1": 0.9, "beta2": 0.8}, "adam has"),
        ("polyak", {"longest": 0.0}, "polyak has"),
        ("adam", {"eps": float("nan")}, "adam has ε = nan"),
        ("adam", {"eps": True}, "it must be a number"),
        ("muon", {"newton_schulz": 0.5}, "it must be True or False"),
    ],
)
def test_other_options_are_refused(name, options, said):
    with pytest.raises(Unsupported, match=said):
        optimizer_of(name, **options)


LR = np.array([0.1, 0.03])


def after(optimizer, W, G):
    """W after one step of an optimizer from a fresh state."""
    gradient = Gradient({"W": G}, {"W": np.zeros(2)})
    return optimizer.update({"W": W}, gradient, optimizer.init({"W": W}), LR, np.ones(2), 0)[0]["W"]


@pytest.mark.parametrize("name", [key for key in OPTIMIZERS if not key.endswith(":P")])
def test_decay_shrinks_beside_the_step(name):
    optimizer, (W0, G) = optimizer_of(name), np.random.default_rng(0).standard_normal((2, 2, 4, 3))
    decayed = with_decay(optimizer, 0.5)
    step = after(optimizer, W0, G) - W0
    W = after(decayed, W0, G)
    assert_allclose(W, (1 - LR[:, None, None] * 0.5) * W0 + step, rtol=ROUNDING, atol=ROUNDING)
    assert decayed.norm is None and decayed.name == f"{name}+decay:0.5"
    assert with_decay(optimizer, 0.0) is optimizer


@pytest.mark.parametrize("name", ["mirror:3", "nmirror:2"])
def test_decay_is_not_defined_for_mirror_descent(name):
    with pytest.raises(Unsupported, match=name):
        with_decay(optimizer_of(name), 0.1)


@pytest.mark.parametrize("decay", [-0.1, np.inf, np.nan])
def test_a_bad_decay_is_refused(decay):
    with pytest.raises(Unsupported, match="weight decay"):
        with_decay(optimizer_of("gd"), decay)


def test_schedules():
    assert [schedule_of("constant")(t) for t in (0, 9)] == [1.0, 1.0]
    assert [schedule_of("sqrt")(t) for t in (0, 3, 99)] == [1.0, 0.5, 0.1]
    assert schedule_of(lambda t: 2 / (1 + t))(3) == 0.5
    with pytest.raises(Unsupported, match="known are constant, sqrt"):
        schedule_of("cosine")
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(Unsupported, match="at step 4"):
            schedule_of(lambda t, bad=bad: bad)(4)
