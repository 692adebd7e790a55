"""Optimizers are found by name, with their options; anything else is refused with what is known."""

import pytest

from attsvm.errors import Unsupported
from attsvm.training.optimizers import OPTIMIZERS, optimizer_of


@pytest.mark.parametrize("name", [key for key in OPTIMIZERS if not key.endswith(":P")])
def test_plain_names(name):
    optimizer = optimizer_of(name)
    assert optimizer.name == name and optimizer_of(optimizer) is optimizer


@pytest.mark.parametrize("name", ["mirror:1.75", "nmirror:1.05", "mirror:10"])
def test_names_with_an_exponent(name):
    assert optimizer_of(name).name == name


@pytest.mark.parametrize("name", ["", "GD", "sgd", "gd:2", "adam:0.9", "mirrors:2", "sgd:2"])
def test_unknown_names_are_refused_with_the_known(name):
    with pytest.raises(Unsupported, match=r"unknown optimizer .*known are gd, ngd, .*adam"):
        optimizer_of(name)


def test_a_missing_exponent_is_named():
    with pytest.raises(Unsupported, match=r"write nmirror:P, such as nmirror:1\.75"):
        optimizer_of("nmirror")


@pytest.mark.parametrize("text", ["1", "1.0", "0.5", "0"])
@pytest.mark.parametrize("word", ["mirror", "nmirror"])
def test_exponents_up_to_one_are_refused(word, text):
    with pytest.raises(Unsupported, match="must be above 1"):
        optimizer_of(f"{word}:{text}")


@pytest.mark.parametrize(
    "text", ["", "P", "P:P", ".", "-2", "nan", "inf", "2x", "1e3", " 2", "2:3", "٣"]
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(Unsupported, match="number P above 1"):
        optimizer_of(f"mirror:{text}")


def test_options():
    assert optimizer_of("signum", momentum=0.5).name == "signum"
    with pytest.raises(Unsupported, match="no option beta: it takes beta1, beta2, eps"):
        optimizer_of("adam", beta=0.5)
    with pytest.raises(Unsupported, match="no option p: it takes none"):
        optimizer_of("mirror:2", p=3)
    with pytest.raises(Unsupported, match="made already"):
        optimizer_of(optimizer_of("adam"), eps=1.0)
    with pytest.raises(Unsupported, match="given by name"):
        optimizer_of(3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("signum", {"momentum": 1.0}),
        ("muon", {"momentum": -0.1}),
        ("adam", {"beta1": 0.9, "beta2": 0.8}),
        ("adam", {"beta2": 1.0}),
        ("adam", {"eps": -1e-8}),
        ("polyak", {"longest": 0.0}),
    ],
)
def test_options_out_of_range_are_refused(name, options):
    with pytest.raises(Unsupported, match=f"{name} has"):
        optimizer_of(name, **options)


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("adam", {"eps": True}, "a number"),
        ("signum", {"momentum": "high"}, "a number"),
        ("polyak", {"longest": "far"}, "a number"),
        ("muon", {"newton_schulz": 0.5}, "True or False"),
        ("spectral", {"newton_schulz": None}, "True or False"),
    ],
)
def test_options_of_another_kind_are_refused(name, options, kind):
    with pytest.raises(Unsupported, match=f"it must be {kind}"):
        optimizer_of(name, **options)


def test_an_option_may_be_given_as_its_own_default():
    assert optimizer_of("polyak", longest=None).name == "polyak"
    assert optimizer_of("adam", eps=0).name == "adam"
