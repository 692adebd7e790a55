"""A small spec with a family and a measure of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

# A family and a measure without training, that take a moment.
OWN = """
import time

import numpy as np

from attsvm import Tokens
from attsvm.experiments.sweep import Drawn


def family(seeds, n=2, scale=1.0):
    X = [scale * np.random.default_rng([s, n]).standard_normal((n, 3, 2)) for s in seeds]
    return Drawn([Tokens(x) for x in X], alpha=np.zeros((len(X), n), int))


def size(group, pause=0.0, fault=-1):
    time.sleep(pause)
    if fault in group.seeds:
        raise ValueError(f"seed {fault} is at fault")
    norms = np.array([float(np.linalg.norm(t.X)) for t in group.tokens])
    words = np.array(["a, b" if x > 3 else "c" for x in norms])
    return {"size": norms, "large": norms > 3.0, "word": words}
"""

SPEC = """
title = "Sizes"
family = "own.py:family"
measure = "own.py:size"
seeds = 10
group = 4
[fixed]
pause = 0.0
[grid]
n = [1, 2, 3]
scale = [1.0, 2.5]
[figure]
kind = "curves"
x = "n"
lines = "scale"
value = "large"
"""


@pytest.fixture
def spec_file(tmp_path) -> Path:
    """The spec, beside the file it names."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "sizes.toml").write_text(SPEC)
    return tmp_path / "sizes.toml"
