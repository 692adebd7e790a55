"""A: a penalty that vanishes leads where a growing ball does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import Claim, Config, Finding, Result, at_most, equals
from attsvm.experiments.studies.shared.prompt_paths import (
    PromptMeasures,
    instance,
    problem,
    prompt_measures,
    separable,
    unsettled,
)
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.regularization_path.paths import penalty_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The largest over the instances of each of these is held against its threshold. That the first two
# and the loss vanish is the claim; the other two are exact at a minimiser, and their thresholds are
# for rounding and the ends of iterations.
_WORST = {
    # An angle of 0.045. ‖p‖ is about log(1/λ) ‖p^mm‖, 690 times at the least penalty, and p is
    # p^mm times that plus a constant: 31 times ‖p^mm‖ may stand across it.
    "away": ("1 − cosine at the least penalty", 1e-3),
    # log(1/λ) grows 150 times in between; the angle falls as 1/log(1/λ), 1 − cosine as its square.
    "left": ("1 − cosine at the least penalty, over that at the largest", 0.01),
    "loss": ("log of the loss above its floor, least penalty", -20.0),
    # ∇L changes by the factor e^−1 while p grows by ‖p^mm‖: p is right to 1e-3 of that.
    "still": ("‖∇L + λp‖ / ‖λp‖, all penalties", 1e-3),
    "above": ("L + λ‖p‖²/2 above that of the best multiple of p^mm, in λ‖p‖²/2", 1e-9),
}


def run(config: Config) -> Result:
    """The prompts of least loss with penalty, for every penalty, on the separable instances."""
    best = solve_many([problem(config, seed) for seed in config["seeds"]])
    p = np.full((len(config["seeds"]), len(config["penalties"]), config["d"]), np.nan)
    for k, seed in enumerate(config["seeds"]):
        if separable(best[k]):
            tokens, v = instance(config, seed)
            path = penalty_path(
                tokens,
                config["penalties"],
                model="prompt",
                head=v,
                loss=config["loss"],
                starts=config["starts"],
            )
            p[k] = path.weights["p"]
    return {"p": p, **saved_solutions("best", best)}


def _unbalanced(found: PromptMeasures, p: Floats, penalties: Floats) -> Floats:
    """‖∇L + λp‖/‖λp‖ at each prompt (R, d), cut off at sizes whose squares leave the floats."""
    size = np.exp(np.minimum(found.log_scale - np.log(penalties), 300.0))
    rest = found.gradient * size[:, None] + p
    return np.linalg.norm(rest, axis=1) / np.linalg.norm(p, axis=1)


def _objective(found: PromptMeasures, p: Floats, penalties: Floats) -> Floats:
    """(L − floor)/λ + ‖p‖²/2 at each prompt (R, d)."""
    return np.exp(found.log_excess - np.log(penalties)) + (p**2).sum(axis=1) / 2


def check(config: Config, result: Result) -> Finding:
    """Directions, losses and stationarity at every penalty, from the prompts alone."""
    best = recertified("best", [problem(config, s) for s in config["seeds"]], "frobenius", result)
    inside = [k for k, c in enumerate(best) if separable(c)]
    gap = worst_gap([best[k] for k in inside])
    penalties = np.array(config["penalties"])
    rows: dict[str, list[float]] = {name: [] for name in _WORST}
    right = 0
    for k in inside:
        p, seed = result["p"][k], config["seeds"][k]
        found = prompt_measures(config, seed, config["loss"], p)
        away = [1 - cosine(x[:, None], best[k]) for x in p]
        unit = np.asarray(best[k].W)[:, 0] / best[k].upper
        own = _objective(found, p, penalties)
        above = []
        for size in np.geomspace(0.5, 2.0, 41):
            ray = unit * np.linalg.norm(p, axis=1)[:, None] * size
            above.append(
                own - _objective(prompt_measures(config, seed, config["loss"], ray), ray, penalties)
            )
        right += int(found.right[-1])
        rows["away"].append(away[-1])
        rows["left"].append(away[-1] / max(away[0], 1e-300))
        rows["loss"].append(float(found.log_excess[-1]))
        rows["still"].append(float(_unbalanced(found, p, penalties).max()))
        rows["above"].append(float((np.max(above, axis=0) / (p**2).sum(axis=1) * 2).max()))
    tests = [equals("instances that select the best tokens", right, len(inside))]
    for name, (what, threshold) in _WORST.items():
        tests.append(at_most(what, float(np.max(rows[name] or [np.nan])), threshold))
    tests += [
        equals("problems neither solved nor proved infeasible", unsettled(best), 0),
        at_most("largest certified gap", gap, 1e-9),
    ]
    premises = (
        f"best tokens separable in {len(inside)} of {len(best)} random instances, each input with "
        "one best token; only those are judged"
    )
    return Finding(tuple(tests), premises, len(inside), gap)


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine to the certified direction and the norm, over the penalty."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, level, panels

    figure, (left, right) = panels(2)
    best = recertified("best", [problem(config, s) for s in config["seeds"]], "frobenius", result)
    inside = [k for k, c in enumerate(best) if separable(c)]
    digits = -np.log10(config["penalties"])
    away = [[1 - cosine(x[:, None], best[k]) for x in result["p"][k]] for k in inside]
    size = [np.linalg.norm(result["p"][k], axis=1) / best[k].upper for k in inside]
    band(left, digits, np.array(away).T, colour=CYCLE[0], label="median, middle half")
    band(right, digits, np.array(size).T, colour=CYCLE[1], label="median, middle half")
    right.plot(digits, digits * np.log(10), "--", color="#444444", linewidth=1, label="log 1/λ")
    level(left, 1e-3, "asked at the least penalty: 1e-3")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="−log₁₀ of the penalty λ",
        title="Direction",
        ylabel="1 − cosine to the certified direction",
    )
    right.set(
        xscale="log",
        yscale="log",
        xlabel="−log₁₀ of the penalty λ",
        title="Norm",
        ylabel="‖p‖ / ‖p^mm‖",
    )
    left.legend(frameon=False)
    right.legend(frameon=False)
    return figure


_FULL = {
    "n": 5,
    "T": 5,
    "d": 8,
    "seeds": list(range(8)),
    "starts": 1,
    "loss": "logistic",
    "penalties": [1e-2, 1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128, 1e-300],
}

CLAIM = Claim(
    id="A.vanishing-penalty",
    title="A vanishing penalty",
    kind="theorem",
    trust="derived",
    statement="When each input has one best token and some prompt selects them all, the prompt "
    "that minimises the loss plus λ‖p‖²/2 tends, for λ → 0, to the same direction as the prompt of "
    "least loss in a growing ball: the max-margin one. It is the least in its own ball.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 1], "penalties": [1e-2, 1e-8, 1e-300]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)
