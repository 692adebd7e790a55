"""C: the least loss in an ℓp ball has the direction of the ℓp solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    seeds_of,
)
from attsvm.experiments.studies.shared.mirror_runs import norm_name
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    share,
    worst_gap,
)
from attsvm.experiments.studies.shared.published import published_instance
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.regularization_path.ball import stationarity
from attsvm.theory.regularization_path.excess import Excess
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _drawn(config: Config, p: str) -> list[tuple[Tokens, Floats, Problem]]:
    """Tokens, head, and the problem of the best tokens, of each seed that exponent p is run on."""
    found = []
    seeds = seeds_of(config)
    for seed in seeds[: config["few"].get(p, len(seeds))]:
        tokens, v = published_instance(seed)
        found.append((tokens, v, Problem.of(tokens, Selection.best(tokens, v))))
    return found


def _multiples(config: Config, p: str) -> list[float]:
    """The radii in least norms: two for an exponent that is run on a few instances only."""
    multiples: list[float] = config["multiples"]
    return multiples[-2:] if p in config["few"] else multiples


def run(config: Config) -> Result:
    """The path of every instance and exponent, at multiples of the least norm."""
    out: Result = {}
    for p in config["exponents"]:
        best, W = [], []
        for tokens, v, problem in _drawn(config, p):
            best.append(solve(problem, norm_name(p)))
            radii = float(best[-1].upper) * np.array(_multiples(config, p))
            starts = 1 if p in config["few"] else config["starts"]
            path = regpath(tokens, norm=norm_name(p), head=v, radii=radii, starts=starts)
            W.append(path.weights["W"])
        out |= {f"{p}.W": np.stack(W), **saved_solutions(f"{p}.best", best)}
    return out


def _at(tokens: Tokens, v: Any, W: Floats) -> Evaluation:
    """Loss, gradient and attention at one W."""
    return evaluate(
        model_of("weight"),
        {"W": W[None]},
        Batch.of(tokens),
        head_of(v, tokens.d),
        loss_of("logistic"),
    )


def check(config: Config, result: Result) -> Finding:
    """Stationary points of the ball, no worse than the certified direction, ending in it."""
    gaps, judged, total, tests = [], 0, 0, []
    for p in config["exponents"]:
        drawn = _drawn(config, p)
        total += len(drawn)
        norm = norm_of(norm_name(p))
        best = recertified(f"{p}.best", [problem for *_, problem in drawn], norm, result)
        gaps.append(worst_gap(best))
        ends, shares, rests, sizes, wins, right = [], [], [], [], [], 0
        closer = []
        for b, (tokens, v, _) in enumerate(drawn):
            if best[b].W is None:
                continue
            judged += 1
            W = result[f"{p}.W"][b]
            alpha = Selection.best(tokens, v).indices
            excess = Excess.over(tokens, alpha, v, loss_of("logistic"))
            R = float(best[b].upper) * np.array(_multiples(config, p))
            here = [_at(tokens, v, M) for M in W]
            there = [_at(tokens, v, r * np.asarray(best[b].W) / float(best[b].upper)) for r in R]
            right += bool((selected(tokens, W[-1]) == alpha).all())
            ends.append(cosine(W[-1], best[b]))
            shares.append([share(M, best[b]) for M in W])
            closer.append(shares[-1][-1] - shares[-1][0])
            rests += [
                stationarity(norm, M, e.gradient.direction["W"][0])[0]
                for M, e in zip(W, here, strict=True)
            ]
            sizes += [float(norm.value(M)) / r - 1 for M, r in zip(W, R, strict=True)]
            wins += [
                excess(f.logs[0]).log - excess(e.logs[0]).log
                for e, f in zip(here, there, strict=True)
            ]
        last = np.array(shares)[:, -1]
        tests += [
            equals(f"p = {p}: paths that select the best tokens", right, len(ends)),
            at_least(f"p = {p}: least cosine at the last radius", min(ends), config["cosine"]),
            at_least(
                f"p = {p}: least margin share at the last radius", last.min(), config["share"]
            ),
            at_least(
                f"p = {p}: least gain in margin share, first to last radius", min(closer), 0.0
            ),
            at_most(f"p = {p}: largest stationarity residual in the ball", max(rests), 1e-6),
            at_most(f"p = {p}: largest | ‖W‖/R − 1 |", float(np.abs(sizes).max()), 1e-9),
            at_least(
                f"p = {p}: least log gain in excess loss over the certified direction",
                min(wins),
                -1e-9,
            ),
        ]
    tests.append(at_most("largest certified gap", max(gaps), 1e-6))
    premises = f"{judged} of {total} separable for the best tokens"
    return Finding(tuple(tests), premises, judged, max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """What is missing in cosine and in margin share, over R, by exponent."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    for k, p in enumerate(config["exponents"]):
        problems = [problem for *_, problem in _drawn(config, p)]
        best = recertified(f"{p}.best", problems, norm_name(p), result)
        W = result[f"{p}.W"]
        for b, c in enumerate(best):
            label = f"p = {p}, each instance" if b == 0 else None
            for axes, measure in ((left, cosine), (right, share)):
                axes.loglog(
                    _multiples(config, p),
                    [max(1 - measure(M, c), 1e-12) for M in W[b]],
                    ".-",
                    color=CYCLE[k],
                    linewidth=1,
                    label=label,
                )
    left.set(xlabel="R / least norm", ylabel="1 − cosine", title="Direction")
    right.set(xlabel="R / least norm", ylabel="1 − certified margin share", title="Margin")
    left.legend(frameon=False)
    return figure


_FULL = {
    "seeds": [1, 2, 3, 4, 5, 6],
    "exponents": ["1.1", "1.75", "2", "3"],
    # Of the exponent whose ball has the sharpest corners one instance, two radii and one start.
    "few": {"1.1": 1},
    "starts": 2,
    "multiples": [1.0, 3.0, 10.0, 30.0, 100.0, 1000.0],
    "cosine": 0.999,
    "share": 0.99,
}

CLAIM = Claim(
    id="C.mirror-path",
    title="ℓp regularization path",
    kind="theorem",
    trust="read",
    statement="The minimiser of the loss over ‖W‖_p ≤ R, divided by R, tends to the normalized ℓp "
    "solution at the best tokens as R grows. This is paper B's theorem for any norm, with the ℓp "
    "norm.",
    full=_FULL,
    quick={
        **_FULL,
        "exponents": ["1.75", "2", "3"],
        "seeds": [1, 2],
        "multiples": [1.0, 30.0, 1000.0],
        "starts": 1,
    },
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="B v1, Theorem 9",
)
