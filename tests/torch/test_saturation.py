"""The warning before saturation: against the true step of real runs, and on known courses."""

import math

import numpy as np
import pytest
import torch

from attsvm.torch import AttentionInputs, Monitor, Saturation, SaturationWarning
from attsvm.torch.monitor import extrapolate
from tests.torch.saturating import run


@pytest.mark.parametrize(("rule", "seed"), [("ngd", 0), ("sgd", 1), ("adam", 0)])
def test_the_warning_comes_before_and_names_about_the_step(rule, seed):
    said, truth = run(rule, seed, most=400)
    assert truth is not None, "the run was meant to saturate"
    assert said is not None and said.step < truth
    # It is given when saturation is expected within a doubling of the steps made.
    assert said.step < said.first <= said.expected <= 2 * said.step
    assert truth / 2 <= said.expected <= 2 * truth


def test_a_straight_course_is_extrapolated_exactly():
    steps = np.array([10, 12, 15, 18, 22, 27])
    columns = np.column_stack([0.1 * steps - 2, np.log1p(steps)])
    straight, slow = extrapolate(steps, columns, 4.5)
    assert straight[:2] == pytest.approx((65, 65)) and straight[2] > 65
    assert slow[::2] == pytest.approx((math.expm1(4.5),) * 2) and slow[1] < slow[0]


@pytest.mark.parametrize("rise", [0.0, -0.1])
def test_what_does_not_rise_is_not_expected_to_saturate(rise):
    steps = np.arange(10, 16)
    noise = np.random.default_rng(0).standard_normal((200, 6))
    found = extrapolate(steps, (rise * steps + noise).T, 50)
    # A slope of twice its standard error by chance alone: about 6 % of the time each way.
    assert sum(one is not None for one in found) <= 30


def test_few_records_say_nothing():
    assert extrapolate([1, 2, 3], np.array([[1.0], [2.0], [3.0]]), 4.0) == [None]
    gap = np.array([1.0, 2.0, 3.0, math.nan, 4.0, 5.0])[:, None]
    assert extrapolate([1, 2, 3, 4, 5, 6], gap, 9.0) == [None]


def follow(odds):
    """A monitor of one attention head with two keys and these odds, step by step."""
    model = torch.nn.Identity()
    left = iter(odds)

    def reads(m):
        k = torch.tensor([[[[next(left)], [0.0]]]], dtype=torch.float64)
        yield AttentionInputs("one", torch.ones_like(k[:, :, :1]), k)

    with Monitor(model, reads=reads, every=1) as monitor:
        for _ in odds:
            model(torch.zeros(1))
            monitor.step()
    return monitor


def test_each_head_is_warned_of_once():
    match = "attention head 0 of one will be saturated at about"
    with pytest.warns(SaturationWarning, match=match) as seen:
        monitor = follow([0.2 * t for t in range(60)])
    (said,) = monitor.warnings
    # 0.2 t reaches log(99) at 22.98, and 12 is the first record from which that is a doubling.
    assert said.expected == pytest.approx(math.log(99) / 0.2) and said.step == 12
    assert [said.message] == [str(one.message) for one in seen]


def test_a_saturated_head_is_reported_and_one_at_rest_is_not():
    with pytest.warns(SaturationWarning, match="step 0: attention head 0 of one is saturated"):
        monitor = follow([9.0])
    assert monitor.warnings == [Saturation(0, "one", 0, 0, 0, 0)]
    assert monitor.rows[0].saturated == 1.0
    assert follow([3.0] * 40).warnings == []
