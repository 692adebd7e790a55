"""A: normalized steps make the norm grow linearly, plain steps logarithmically."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.example_starts import example_starts
from attsvm.experiments.study import Checks, Premises, Study, Table, at_most, equals


def measure(group: Group) -> dict[str, Any]:
    """A row for each record: ‖p‖, and log of the mean attention off the best tokens."""
    tokens, best = group.tokens[0], group.best[0]
    p = group.path.weights["p"][:, 0]
    logits = np.einsum("ntd,rd->rnt", np.asarray(tokens.keys), p)
    others = logits.copy()
    others[:, np.arange(tokens.n), best] = -np.inf
    off = np.logaddexp.reduce(others, axis=2) - np.logaddexp.reduce(logits, axis=2)
    return {
        "seed": group.seeds[0],
        "step": group.path.steps,
        "norm": np.linalg.norm(p, axis=1),
        "log_off": np.logaddexp.reduce(off, axis=1) - np.log(tokens.n),
    }


def _unexplained(x: Any, y: Any) -> float:
    """1 − R² of the straight line through y over x; nan where y does not change."""
    if np.ptp(y) == 0:
        return float("nan")
    return float(1 - np.corrcoef(x, y)[0, 1] ** 2)


def _slope(x: Any, y: Any) -> float:
    """The slope of the straight line through y over x."""
    return float(np.polyfit(x, y, 1)[0])


# A law is told from its rival when it leaves unexplained at most this share of what that one does.
APART = 0.01


def checks(table: Table, thresholds: Any) -> Checks:
    """Late ‖p‖ is straight in t and not in log t under ngd, and the other way round under gd.

    The margins grow with ‖p‖, so that attention off the best tokens falls exponentially in t under
    ngd and, with ‖p‖ ≈ ‖p^mm‖ log t, like 1/t under gd.
    """
    runs = {name: rows for name, rows in table.groupby("optimizer")}
    ngd, gd = (runs[name][runs[name].step >= thresholds["late"]] for name in ("ngd", "gd"))
    t, size, lost = (ngd[name].to_numpy(dtype=float) for name in ("step", "norm", "log_off"))
    yield equals("ngd: power of t in ‖p‖, late", _slope(np.log(t), np.log(size)), 1.0, within=0.02)
    yield at_most("ngd: unexplained by a line in t over that by one in log t, late",
                  _unexplained(t, size) / _unexplained(np.log(t), size), APART)  # fmt: skip
    way = ngd.lr.iloc[-1] * t[-1]
    yield equals("ngd: ‖p‖/(ηt) at the end", size[-1] / way, 1.0, within=0.02)
    yield at_most("ngd: log of the attention off the best tokens, unexplained by a line in t over "
                  "that by one in log t",
                  _unexplained(t, lost) / _unexplained(np.log(t), lost), APART)  # fmt: skip
    t, size, lost = (gd[name].to_numpy(dtype=float) for name in ("step", "norm", "log_off"))
    curve = _unexplained(np.log(t), size)
    yield at_most("gd: unexplained by a line in log t over that by one in t, late",
                  curve / _unexplained(t, size), APART)  # fmt: skip
    # A power of t has ‖p‖ straight in t^a; a logarithm has a → 0.
    yield at_most("gd: unexplained by a line in log t over that by one in t^(1/4), late",
                  curve / _unexplained(t**0.25, size), 0.1)  # fmt: skip
    yield equals("gd: power of 1/t in the attention off the best tokens",
                 -_slope(np.log(t), lost), 1.0, within=0.05)  # fmt: skip
    shown = thresholds["shown"]
    off = {name: rows.log_off[rows.step >= shown].iloc[0] for name, rows in runs.items()}
    yield at_most(f"ngd's attention off the best tokens over gd's, at step {shown}",
                  np.exp(off["ngd"] - off["gd"]), 0.1)  # fmt: skip
    yield Premises(2, "the published draw, both optimizers from p = 0")


STUDY = Study(
    id="A.gd-against-ngd",
    title="Plain and normalized descent",
    kind="figure",
    source="code",
    statement="From the same start, the norm of the prompt grows about linearly under normalized "
    "descent and about logarithmically under plain descent, and attention saturates accordingly: "
    "what the best tokens lack falls exponentially in the step under the one and like its inverse "
    "under the other.",
    family=example_starts,
    grid={"optimizer lr": [("gd", 1.0), ("ngd", 0.1)]},
    run={"example": "multi-input-planar", "model": "prompt", "steps": 20_000},
    measure=measure,
    checks=checks,
    thresholds={"late": 1000, "shown": 200},
    quick={"run": {"steps": 5000}, "thresholds": {"late": 500}},
    figure={
        "kind": "curves",
        "where": lambda t: t.step > 0,
        "x": "step",
        "value": "norm",
        "lines": "optimizer",
        "log": "xy",
        "ylabel": "‖p‖",
    },
    theorem="notebook",
    size="as published, run on from 200 steps to 20,000",
    published=True,
)
