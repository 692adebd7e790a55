"""The evidence runs and says what it found."""

from __future__ import annotations

from tests.training.evidence import main
from tests.training.finding import Finding, above, below, equal


def test_a_part_is_printed_with_its_verdicts(capsys):
    assert main(["--quick", "clock"]) == 0
    shown = capsys.readouterr()
    assert "part 1 of 1: clock" in shown.err
    assert "halves with the step | yes |" in shown.out
    assert "0 figures not met" in shown.out


def test_an_unknown_part_is_refused(capsys):
    assert main(["--quick", "speed"]) == 2
    assert "parts: gradients, far" in capsys.readouterr().err


def test_a_figure_that_is_missed_is_seen():
    assert str(below("a", 2e-3, 1e-3)) == "| a | 0.002 | ≤ 1e-03 | NO |"
    assert str(above("b", 0.5, 0.4, 2)) == "| b | 0.50 | ≥ 0.4 | yes |"
    assert equal("c", [1], [2]).met is False
    assert str(Finding("d", "1")) == "| d | 1 | – | – |"
