"""One thread for small linear algebra, and as many as before afterwards."""

import pytest

from attsvm._utils import parallel


def test_the_threads_come_back(monkeypatch):
    count = [4]
    monkeypatch.setattr(
        parallel, "_switches", lambda: [(lambda: count[0], lambda n: count.__setitem__(0, n))]
    )
    with pytest.raises(ZeroDivisionError), parallel.one_thread():
        assert count == [1]
        raise ZeroDivisionError
    assert count == [4]


def test_another_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(parallel, "_switches", lambda: [])
    with parallel.one_thread():
        pass
