"""The warning before saturation: against the true step of real runs, and on known courses."""

import math

import numpy as np
import pytest
import torch

from attsvm.torch import Monitor, Saturation, SaturationWarning
from attsvm.torch.monitor import extrapolate
from tests.torch.saturating import run


@pytest.mark.parametrize(("rule", "seed"), [("ngd", 0), ("sgd", 1), ("adam", 0)])
def test_the_warning_comes_before_and_names_about_the_step(rule, seed):
    said, truth = run(rule, seed, most=400)
    assert truth is not None, "the run was meant to saturate"
    assert said is not None and said.step < truth
    # It is given when saturation is expected within a doubling of the steps made.
    assert said.step < np.fmin(said.linear, said.log) <= said.expected <= 2 * said.step
    assert truth / 2 <= said.expected <= 2 * truth


def test_a_straight_course_is_extrapolated_exactly():
    steps = np.array([10, 12, 15, 18, 22, 27])
    columns = np.column_stack([0.1 * steps - 2, np.log1p(steps)])
    straight, slow = extrapolate(steps, columns, 4.5).T
    assert straight[:2] == pytest.approx((65, 65)) and straight[2] > 65
    assert slow[::2] == pytest.approx((math.expm1(4.5),) * 2) and slow[1] < slow[0]


@pytest.mark.parametrize("rise", [0.0, -0.1])
def test_what_does_not_rise_is_not_expected_to_saturate(rise):
    steps = np.arange(10, 16)
    noise = np.random.default_rng(0).standard_normal((200, 6))
    found = extrapolate(steps, (rise * steps + noise).T, 50)
    # A slope of twice its standard error by chance alone: about 6 % of the time each way.
    assert np.isfinite(found[0]).sum() <= 30


def test_few_records_say_nothing():
    assert np.isnan(extrapolate([1, 2, 3], np.array([[1.0], [2.0], [3.0]]), 4.0)).all()
    gap = np.array([1.0, 2.0, 3.0, math.nan, 4.0, 5.0])[:, None]
    assert np.isnan(extrapolate([1, 2, 3, 4, 5, 6], gap, 9.0)).all()


def follow(odds):
    """A monitor of one attention head with two keys and these odds, step by step."""

    class One(torch.nn.Module):
        def forward(self, odds):
            k = torch.tensor([[[[odds], [0.0]]]], dtype=torch.float64)
            return torch.nn.functional.scaled_dot_product_attention(k[:, :, :1] * 0 + 1, k, k)

    model = One()
    with Monitor(model, every=1) as monitor:
        for one in odds:
            model(one)
            monitor.step()
    return monitor


def test_each_head_is_warned_of_once():
    match = r"step 12: L0H0 \(One\) at the current rate saturated at step 23 \(linear fit\)"
    with pytest.warns(SaturationWarning, match=match) as seen:
        monitor = follow([0.2 * t for t in range(60)])
    (said,) = monitor.warnings
    # 0.2 t reaches log(99) at 22.98, and 12 is the first record from which that is a doubling.
    assert said.expected == pytest.approx(math.log(99) / 0.2) and said.step == 12
    assert [said.message] == [str(one.message) for one in seen]


def test_a_saturated_head_is_reported_and_one_at_rest_is_not():
    with pytest.warns(SaturationWarning, match=r"step 0: L0H0 \(One\) is saturated"):
        monitor = follow([9.0])
    assert monitor.warnings == [Saturation(0, "One", 0, 0, 0, 0, "L0H0")]
    assert monitor.rows[0].saturated == 1.0
    assert follow([3.0] * 40).warnings == []
