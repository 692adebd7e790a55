"""The time that compiling takes is told apart from the time of the work."""

from dataclasses import astuple

import pytest
from numba.core import event

from attsvm._utils import meter
from attsvm._utils.compiled import njit


def test_compiling_is_told_apart():
    @njit(cache=False)
    def kernel(x):
        return x + 1

    with meter.timed() as first:
        kernel(1)
    with meter.timed() as second:
        kernel(2)
    assert first.compiling.wall > 0 and first.compiling.cpu > 0
    assert second.compiling == meter.Spent(0.0, 0.0)
    assert second.run.wall > 0


def test_the_two_parts_are_the_whole(monkeypatch):
    """Kernels within kernels count once, and so do threads that wait for one another."""
    clock = iter([0.0, 1.0, 4.0, 6.0, 7.0, 10.0])
    monkeypatch.setattr(meter, "_now", lambda: meter.Spent(now := next(clock), now / 2))
    with meter.timed() as took:  # 0: begins
        _tell(event.EventStatus.START)  # 1: an outer kernel begins
        _tell(event.EventStatus.START)
        _tell(event.EventStatus.END)
        _tell(event.EventStatus.END)  # 4: and has ended
        _tell(event.EventStatus.START)  # 6
        _tell(event.EventStatus.END)  # 7
    assert astuple(took.compiling) == pytest.approx((4.0, 2.0))
    assert astuple(took.run) == pytest.approx((6.0, 3.0))


def _tell(status):
    event.broadcast(event.Event("numba:compiler_lock", status))
