"""A norm, an optimizer and a claim in a file: steepest descent in the norm of the longest row.

solve FILE --norm outside.py:ROWS; train FILE --optimizer outside.py:BY_ROWS; reproduce --from
outside.py
"""

import numpy as np

from attsvm import Norm, Optimizer, Problem, Tokens, measures, solve, train
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.studies.claim import Claim, Finding, at_least, at_most
from attsvm.experiments.studies.shared import drawing, proof


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


def run(config):
    path = train(TOKENS, optimizer=BY_ROWS, head=DATA["v"], lr=0.02, steps=config["steps"])
    best = solve(Problem.of(TOKENS, path.selection[0]), norm=ROWS)
    found = {"steps": path.steps, "W": path.weights["W"][:, 0], "alpha": path.selection[0]}
    return found | proof.saved_solutions("best", [best])


def shares(result):  # of the largest margin that a W of its norm can have, and the certified gap
    best = proof.recertified("best", [Problem.of(TOKENS, result["alpha"])], ROWS, result)
    return measures.margin_share(result["W"][1:], best[0]), proof.worst_gap(best)


def check(config, result):
    (*_, last), gap = shares(result)
    tests = at_least("margin share", last, config["share"]), at_most("gap", gap, 1e-6)
    return Finding(tests, premises="one random instance", judged=1, gap=gap)


def plot(config, result):
    figure, (axes,) = drawing.panels()
    axes.semilogx(result["steps"][1:], shares(result)[0])
    axes.set(xlabel="step", ylabel="share of the largest margin")
    return figure


SAYS = "Descent by rows tends to the largest margin in the norm of the longest row."
FULL, QUICK = {"steps": 30000, "share": 0.99}, {"steps": 3000, "share": 0.94}
CLAIM = Claim("mine.rows", "By rows", "theorem", "measured", SAYS, FULL, QUICK, run, check, plot)
