"""Optimizers are found by name, with their options; anything else is refused with what is known."""

import pytest

from attsvm.errors import Unsupported
from attsvm.training.optimizers import OPTIMIZERS, optimizer_of

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
        ("muon", {"momentum": -0.1}, "muon has"),
        ("adam", {"beta1": 0.9, "beta2": 0.8}, "adam has"),
        ("adam", {"beta2": 1.0}, "adam has"),
        ("adam", {"eps": -1e-8}, "adam has"),
        ("polyak", {"longest": 0.0}, "polyak has"),
        ("adam", {"eps": float("nan")}, "adam has ε = nan"),
        ("adam", {"eps": True}, "it must be a number"),
        ("signum", {"momentum": "high"}, "it must be a number"),
        ("polyak", {"longest": "far"}, "it must be a number"),
        ("muon", {"newton_schulz": 0.5}, "it must be True or False"),
        ("spectral", {"newton_schulz": None}, "it must be True or False"),
    ],
)
def test_other_options_are_refused(name, options, said):
    with pytest.raises(Unsupported, match=said):
        optimizer_of(name, **options)


def test_an_option_may_be_given_as_its_own_default():
    assert optimizer_of("signum", momentum=0.5).name == "signum"
    assert optimizer_of("polyak", longest=None).name == "polyak"
    assert optimizer_of("adam", eps=0).name == "adam"
