"""What is told to a terminal while work goes on, and that nothing is told elsewhere."""

import io
import sys

import pytest

from attsvm._utils import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def watched(monkeypatch):
    """A terminal in place of standard error."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.mark.parametrize("late", [True, False])
def test_nobody_watching_a_file_is_told_anything(monkeypatch, late):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.bar("rows", late=late) as told:
        assert told is None


def test_long_work_shows_how_things_stand(monkeypatch):
    terminal = watched(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.bar("12 rows", late=True) as told:
        told(0.5, "gap 1e-2")
    assert "12 rows" in terminal.getvalue() and "gap 1e-2" in terminal.getvalue()


def test_inside_a_turning_sign_the_words_go_there(monkeypatch):
    watched(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.working("solving"), progress.bar("12 rows", late=True) as told:
        told(0.25, "gap 1e-3")
        assert "gap 1e-3, 25 %" in str(progress._sign.status)
    assert progress._sign is None


def test_a_bar_inside_another_is_silent(monkeypatch):
    watched(monkeypatch)
    with progress.bar("outer") as outer:
        assert outer is not None
        outer(0.5)
        for late in (True, False):
            with progress.bar("inner", late=late) as inner:
                assert inner is None
    with pytest.raises(ZeroDivisionError), progress.bar("fails") as show:
        assert show is not None
        _ = 1 / 0
    with progress.bar("after") as show:
        assert show is not None
