"""Equalities between optimizers, models, clocks and parts of one run."""

from __future__ import annotations

import pytest

from tests.tolerances import ROUNDING
from tests.training.relations import (
    continued_equals_whole,
    curves_apart,
    every_combination,
    mirror_against_descent,
    prompt_against_weight,
)


@pytest.mark.parametrize("optimizer", ["gd", "ngd"])
def test_the_prompt_is_the_weight_with_one_query(optimizer):
    assert prompt_against_weight(optimizer) <= ROUNDING


@pytest.mark.parametrize(("mirror", "plain"), [("mirror:2", "gd"), ("nmirror:2", "ngd")])
def test_the_exponent_two_is_gradient_descent(mirror, plain):
    assert mirror_against_descent(mirror, plain) <= ROUNDING


@pytest.mark.parametrize(("model", "optimizer"), every_combination())
def test_a_continued_run_is_the_whole_one_in_every_digit(model, optimizer, tmp_path):
    assert continued_equals_whole(model, optimizer, tmp_path)


def test_normalized_and_plain_steps_follow_one_curve():
    """At equal flow time; the distance is of the order of the step, so it halves with it."""
    apart = curves_apart(0.02), curves_apart(0.01)
    assert apart[0] < 2e-3
    assert apart[0] / apart[1] == pytest.approx(2.0, rel=0.05)
