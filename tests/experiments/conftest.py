"""A sweep in TOML, beside the file it names."""

from pathlib import Path

import pytest

SWEEP = """
title = "Sizes"
family = "own.py:family"
measure = "own.py:size"
seeds = 10
group = 4
[run]
pause = 0.0
[grid]
n = [1, 2, 3]
scale = [1.0, 2.5]
[figure]
kind = "curves"
x = "n"
lines = "scale"
value = "large"
[quick]
seeds = 3
"""


@pytest.fixture
def sweep_file(tmp_path) -> Path:
    """The sweep of tests.experiments.made_studies as a file."""
    own = Path(__file__).with_name("made_studies.py").read_text()
    (tmp_path / "own.py").write_text(own)
    (tmp_path / "sizes.toml").write_text(SWEEP)
    return tmp_path / "sizes.toml"
