"""A norm, an optimizer and a study in a file: steepest descent in the norm of the longest row.

solve FILE --norm outside.py:ROWS; train FILE --optimizer outside.py:BY_ROWS; reproduce outside.py
"""

import numpy as np

from attsvm import Norm, Optimizer, Problem, Tokens, measures, solve, train
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments import Premises, Study, at_least, at_most


class Rows(Norm):  # ‖W‖ = max_i ‖W_i‖, and its dual Σ_i ‖G_i‖
    name = "longest-row"
    value = staticmethod(lambda W: np.linalg.norm(W, axis=-1).max(axis=-1))
    dual = staticmethod(lambda G: np.linalg.norm(G, axis=-1).sum(axis=-1))
    dual_maximizer = staticmethod(lambda G: G / (np.linalg.norm(G, axis=-1)[..., None] + 1e-300))
    rounding = staticmethod(lambda shape: 1e-13)


def move(step):  # steepest descent in that norm: every row moves by the step size
    sizes = {k: step.lr * np.isfinite(log) for k, log in step.gradient.log_scale.items()}
    ways = {k: ROWS.dual_maximizer(G).T * sizes[k] for k, G in step.gradient.direction.items()}
    return {k: x - ways[k].T for k, x in step.params.items()}, step.state


ROWS, BY_ROWS = Rows(), Optimizer("by-rows", init=lambda params: {}, move=move)
DATA = sphere_arrays(3, 4, 5, seed=0)
TOKENS = Tokens(DATA["X"], queries=DATA["z"], labels=DATA["y"])


def measure(group, records=3000):
    """The share of the largest margin that a W of its norm can have, at a few steps."""
    path = train(TOKENS, optimizer=BY_ROWS, head=DATA["v"], lr=0.02, steps=records)
    best = solve(Problem.of(TOKENS, path.selection[0]), norm=ROWS)
    shares = measures.margin_share(path.weights["W"][1:, 0], best)
    return {
        "seed": np.zeros(len(shares), int),
        "step": path.steps[1:],
        "share": shares,
        "gap": np.full(len(shares), best.gap),
    }


def checks(table, thresholds):
    yield at_least("margin share", table.share.iloc[-1], thresholds["share"])
    yield at_most("gap", table.gap.max(), 1e-6)
    yield Premises(1, "one random instance", table.gap.max())


STUDY = Study(
    id="mine.rows",
    title="By rows",
    statement="Descent by rows tends to the largest margin in the norm of the longest row.",
    kind="theorem",
    source="measured",
    measure=measure,
    run={"records": 30000},
    checks=checks,
    thresholds={"share": 0.99},
    quick={"run": {"records": 3000}, "thresholds": {"share": 0.94}},
    figure={"kind": "curves", "x": "step", "value": "share", "log": "x"},
)
