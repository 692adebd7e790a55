"""Bars: one at a time on the screen, none where nobody is watching."""

import io
import sys

import pytest

from attsvm.ground.progress import bar


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def test_nobody_watches_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with bar("work") as show:
        assert show is None


def test_a_bar_inside_another_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Screen())
    with bar("outer") as outer:
        assert outer is not None
        outer(0.5)
        with bar("inner") as inner:
            assert inner is None
    with pytest.raises(ZeroDivisionError), bar("fails") as show:
        assert show is not None
        _ = 1 / 0
    with bar("after") as show:
        assert show is not None
