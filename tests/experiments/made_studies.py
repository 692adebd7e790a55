"""Studies that exist in tests only: they run at once, in any process."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from attsvm import Tokens
from attsvm.experiments.group import Drawn
from attsvm.experiments.study import Note, Premises, Study, at_most, equals, info


def family(seeds, n=2, scale=1.0):
    X = [scale * np.random.default_rng([s, n]).standard_normal((n, 3, 2)) for s in seeds]
    return Drawn([Tokens(x) for x in X], alpha=np.zeros((len(X), n), int))


def size(group, pause=0.0, fault=-1, dies=""):
    time.sleep(pause)
    if fault in group.seeds:
        raise ValueError(f"seed {fault} is at fault")
    if dies and not Path(dies).exists():
        Path(dies).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    norms = np.array([float(np.linalg.norm(t.X)) for t in group.tokens])
    words = np.array(["a, b" if x > 3 else "17" for x in norms])
    return {"size": norms, "large": norms > 3.0, "word": words}


def steps(group):
    """Two rows for each instance."""
    seeds = np.repeat(group.seeds, 2)
    return {"seed": seeds, "step": np.tile([0, 1], len(group)), "value": seeds + 0.5}


def unlucky(group):
    """NaN, infinity and the ends of the float range."""
    values = [np.nan, np.inf, -np.inf, 1e-308, 5e-324, 1.7e308, 0.1 + 0.2]
    return {"value": np.array([values[s % len(values)] for s in group.seeds])}


def nothing(group):
    return {}


def checks(table, thresholds):
    yield at_most("largest size", table["size"].max(), thresholds["limit"])
    yield equals("rows", len(table), thresholds["rows"])
    yield info("share that is large", table.large.mean())
    yield Premises(len(table), f"{len(table)} instances", 1e-9)
    yield Note("A note.")


def made(name="Z.sizes", **changes):
    """A study that holds."""
    given = {
        "id": name, "title": "Sizes", "statement": "Tokens are small.", "kind": "figure",
        "source": "paper", "family": family, "measure": size, "checks": checks,
        "grid": {"n": [1, 2, 3], "scale": [1.0, 2.5]}, "seeds": 10, "group": 4,
        "thresholds": {"limit": 1e3, "rows": 60}, "size": "as published",
        "quick": {"seeds": 3, "thresholds": {"rows": 18}},
        "figure": {"kind": "curves", "x": "n", "lines": "scale", "value": "large"},
    }  # fmt: skip
    return Study(**{**given, **changes})


SLOW = made("Z.slow", group=2, run={"pause": 0.04})
STUDIES = (made(), made("Z.steps", family=None, measure=steps, grid={}, checks=None, figure=None))
