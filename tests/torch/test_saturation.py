"""The warning before saturation: against the true step of real runs, and on known courses."""

import math

import numpy as np
import pytest
import torch

from attsvm.torch import Monitor, Reading, Saturation, SaturationWarning
from attsvm.torch.saturation import course_of
from tests.torch.saturating import run


@pytest.mark.parametrize(("rule", "seed"), [("ngd", 0), ("sgd", 1), ("adam", 0)])
def test_the_warning_comes_before_and_names_about_the_step(rule, seed):
    said, truth = run(rule, seed, most=400)
    assert truth is not None, "the run was meant to saturate"
    assert said is not None and said.step < truth
    # It is given when saturation is expected within a doubling of the steps made.
    assert said.step < said.first <= said.expected <= 2 * said.step
    assert truth / 2 <= said.expected <= 2 * truth


def test_a_straight_course_is_carried_on_exactly():
    steps = [10, 12, 15, 18, 22, 27]
    found = course_of(steps, [0.1 * t - 2 for t in steps], 4.5)
    assert found.expected == found.first == pytest.approx(65)
    assert found.last > 65
    slow = course_of(steps, [math.log1p(t) for t in steps], 4.5)
    assert slow.expected == slow.last == pytest.approx(math.expm1(4.5))
    assert slow.first < slow.last


@pytest.mark.parametrize("rise", [0.0, -0.1])
def test_what_does_not_rise_is_not_expected_to_saturate(rise):
    draw = np.random.default_rng(0)
    steps = np.arange(10, 16)
    found = [course_of(steps, rise * steps + draw.standard_normal(6), 50) for _ in range(200)]
    # A slope of twice its standard error by chance alone: about 6 % of the time each way.
    assert sum(one is not None for one in found) <= 30


def test_few_records_say_nothing():
    assert course_of([1, 2, 3], [1.0, 2.0, 3.0], 4.0) is None
    assert course_of([1, 2, 3, 4, 5, 6], [1.0, 2.0, 3.0, math.nan, 4.0, 5.0], 9.0) is None


def watched(odds):
    """The warnings of a head with two keys and these odds, step by step, and the monitor."""
    model = torch.nn.Identity()
    left = iter(odds)

    def reads(m):
        q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        yield Reading("one", q, torch.tensor([[[[next(left)], [0.0]]]], dtype=torch.float64))

    with Monitor(model, reads=reads, every=1) as monitor:
        for _ in odds:
            model(torch.zeros(1))
            monitor.step()
    return monitor


def test_each_head_is_warned_of_once():
    with pytest.warns(SaturationWarning, match="head 0 of one will be saturated at about") as seen:
        monitor = watched([0.2 * t for t in range(60)])
    assert len(seen) == 1 and len(monitor.warnings) == 1
    (said,) = monitor.warnings
    # 0.2 t reaches log(99) at 22.98, and 12 is the first record from which that is a doubling.
    assert said.expected == pytest.approx(math.log(99) / 0.2)
    assert said.step == 12
    assert said.message == str(seen[0].message)


def test_a_head_that_is_saturated_already_is_said_so():
    with pytest.warns(SaturationWarning, match="step 0: head 0 of one is saturated"):
        monitor = watched([9.0])
    assert monitor.warnings == [Saturation(0, "one", 0, 0, 0, 0)]
    assert monitor.rows[0].saturated == 1.0


def test_a_head_at_rest_is_not_warned_of():
    assert watched([3.0] * 40).warnings == []
