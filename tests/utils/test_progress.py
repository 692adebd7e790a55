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
    progress._display.cache_clear()
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


def test_bars_inside_one_another_share_a_display(monkeypatch):
    terminal = watched(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.working("solving"), progress.bar("12 rows", late=True) as told:
        told(0.25, "gap 1e-3")
        said = [task.description for task in progress._display().tasks]
        assert said == ["solving", "12 rows: gap 1e-3"]
    assert "solving" in terminal.getvalue()
    with pytest.raises(ZeroDivisionError), progress.bar("fails"):
        _ = 1 / 0
    assert not progress._display().tasks and not progress._display().live.is_started
