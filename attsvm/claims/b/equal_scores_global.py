"""B: when all but the best token of an input share one score, every start ends at the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.claims.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.claims.shared.random_instances import best_problem, stacked, standing
from attsvm.claims.shared.work import solve_many, train
from attsvm.ground.arrays import Floats
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.front import solve
from attsvm.theory.landscape import equal_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _instances(config: Config) -> tuple[list[Tokens], Floats]:
    return stacked(config["shape"], seeds_of(config), equal_scores=True)


def _smooth(tokens: Tokens, v: Floats) -> float:
    """L_W = (1/n) Σ (‖v‖²‖z‖²‖X‖⁴/4 + 3‖v‖‖z‖²‖X‖³), which bounds the slope of the gradient."""
    X = np.linalg.norm(np.asarray(tokens.X), ord=2, axis=(1, 2))
    z, size = np.linalg.norm(tokens.queries, axis=1), float(np.linalg.norm(v))
    return float(np.mean(size**2 * z**2 * X**4 / 4 + 3 * size * z**2 * X**3))


def _adverse(tokens: Tokens, v: Floats) -> Floats | None:
    """A start from which the descent does not find the best tokens, where there is such a one.

    Let V be the solution of the best tokens of all inputs but i. At r V those pull with w e^−r; if
    some token of input i leads its best one by ρ > 1 under V, input i pulls with w_i e^−ρr only,
    and the descent goes on along V. Here r is such that this is a hundredth of what the weakest of
    the others has, and at least 30. The input with the largest ρ is taken; None without one.
    """
    X, z, labels = np.asarray(tokens.X), tokens.queries, np.asarray(tokens.labels)
    top = Selection.best(tokens, v).indices
    scores = np.sort(tokens.scores(v), axis=1)
    pull = (scores[:, -1] - scores[:, 0]) / 4  # gap times |ℓ'|, which is a quarter at score 0
    most, start = 1.0, None
    for i in range(tokens.n):
        rest = np.arange(tokens.n) != i
        V = solve(best_problem(Tokens(X[rest], queries=z[rest], labels=labels[rest]), v)).W
        lead = -np.inf if V is None else float(((X[i] - X[i, top[i]]) @ V @ z[i]).max())
        if V is not None and lead > most:
            ratio = max(float(pull[i] / pull[rest].min()), 1.0)
            most, start = lead, max(30.0, np.log(100 * ratio) / (lead - 1)) * V
    separable = start is not None and solve(best_problem(tokens, v)).status == "optimal"
    return start if separable and equal_scores(tokens, v) else None


def _adverse_starts(config: Config) -> tuple[list[int], Floats]:
    """The instances, of those searched, that have such a start, and the starts (K, d, d)."""
    stack, heads = stacked(config["shape"], range(config["searched"]), equal_scores=True)
    found = [_adverse(t, v) for t, v in zip(stack, heads, strict=True)]
    starts = [W for W in found if W is not None]
    d = stack[0].d
    return [b for b, W in enumerate(found) if W is not None], np.reshape(starts, (-1, d, d))


def run(config: Config) -> Result:
    """Plain and normalized descent from starts of several sizes on every instance."""
    stack, heads = _instances(config)
    out: Result = dict(
        saved_solutions(
            "best", solve_many([best_problem(t, v) for t, v in zip(stack, heads, strict=True)])
        )
    )
    step = min(1 / _smooth(t, v) for t, v in zip(stack, heads, strict=True))
    for k, size in enumerate(config["starts"]):
        for rule, lr, steps in (("gd", step, config["gd_steps"]), ("ngd", 0.1, config["steps"])):
            path = train(
                stack, head=heads, rule=rule, lr=lr, steps=steps, init=f"normal:{size}", seed=k
            )
            rows = np.unique(np.linspace(0, len(path.steps) - 1, 30).round().astype(int))
            out |= {
                f"{rule}.{k}.steps": path.steps[rows],
                f"{rule}.{k}.loss": path.loss[rows],
                f"{rule}.{k}.W": path.weights["W"][rows],
            }
    places, starts = _adverse_starts(config)
    out["adverse.W"] = starts[None]
    if places:
        found, tops = stacked(config["shape"], places, equal_scores=True)
        path = train(found, head=tops, lr=0.1, steps=config["steps"], init={"W": starts})
        rows = np.unique(np.linspace(0, len(path.steps) - 1, 30).round().astype(int))
        out |= {
            "adverse.steps": path.steps[rows],
            "adverse.W": path.weights["W"][rows],
            **saved_solutions(
                "adverse.best",
                solve_many([best_problem(t, v) for t, v in zip(found, tops, strict=True)]),
            ),
        }
    return out


def check(config: Config, result: Result) -> Finding:
    """Normalized runs all end at the best tokens in the certified direction; plain ones near."""
    stack, heads = _instances(config)
    pairs = list(zip(stack, heads, strict=True))
    best = recertified("best", [best_problem(t, v) for t, v in pairs], "frobenius", result)
    inside = [
        c.status != "inseparable" and equal_scores(t, v)
        for c, (t, v) in zip(best, pairs, strict=True)
    ]
    wrong = late = rises = shrinks = runs = 0
    cosines, slow = [], []
    for k in range(len(config["starts"])):
        W, plain = result[f"ngd.{k}.W"], result[f"gd.{k}.W"]
        for b, (tokens, v) in enumerate(pairs):
            if not inside[b]:
                continue
            runs += 1
            wrong += standing(tokens, v, W[-1, b])[0] != "global"
            cosines.append(cosine(W[-1, b], best[b]))
            late += standing(tokens, v, plain[-1, b])[0] not in ("global", "undecided")
            slow.append(cosine(plain[-1, b], best[b]))
            # A loss that has run into its infimum may move by rounding.
            rises += bool((np.diff(result[f"gd.{k}.loss"][:, b]) > 1e-15).any())
            # −⟨∇L, W^mm⟩ > 0 everywhere under equal scores, so this never stops growing.
            D = np.zeros(plain.shape[2:]) if best[b].W is None else np.asarray(best[b].W)
            along = np.einsum("rij,ij->r", plain[:, b], D)
            shrinks += bool((np.diff(along) <= 0).any())
    gap = worst_gap([c for c, i in zip(best, inside, strict=True) if i])
    places, _ = _adverse_starts(config)
    ends = (
        zip(
            *stacked(config["shape"], places, equal_scores=True),
            result["adverse.W"][-1],
            strict=True,
        )
        if places
        else ()
    )
    strayed = sum(standing(t, v, W)[0] != "global" for t, v, W in ends)
    tests = (
        noted(f"instances of {config['searched']} with a start that contradicts", len(places)),
        equals("normalized runs from these starts that do not end at the best tokens", strayed, 0),
        equals("normalized runs that do not end at the best tokens", wrong, 0),
        at_least(
            "normalized: least correlation to the certified direction",
            float(np.min(cosines)),
            config["correlation"],
        ),
        equals("plain runs with η = 1/L decided on other tokens", late, 0),
        equals("plain runs whose loss rises", rises, 0),
        equals("plain runs whose part along the certified direction ever shrinks", shrinks, 0),
        noted("plain: median correlation to the certified direction", float(np.median(slow))),
        at_most("largest certified gap", gap, norm_of("frobenius").tolerance),
    )
    premises = (
        f"{sum(inside)} of {len(stack)} instances are separable and have equal scores; "
        f"{len(config['starts'])} starts each"
    )
    reason = (
        f"{strayed} runs from starts along the solution of all inputs but one, and {wrong} from "
        "random starts, do not end at the best tokens: attention of one input on its best token "
        "falls faster than what the others have left to gain, so that its pull never catches up"
        if strayed + wrong
        else ""
    )
    return Finding(tests, premises, runs + len(places), gap, reason)


def _away(W: Floats, best: Floats) -> Floats:
    """1 − correlation (R, B) of the records W (R, B, d, d) to the solutions (B, d, d)."""
    norms = np.linalg.norm(W, axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
    return 1 - np.einsum("rbij,bij->rb", W, best) / norms


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation to the certified direction over the steps: by rule and size of the start,
    and from the starts that contradict the statement."""
    from attsvm.claims.shared.drawing import CYCLE, band, panels

    figure, axes = panels(3, sharey=True, figsize=(10.5, 3.9))
    for ax, rule, title in zip(
        axes, ("ngd", "gd"), ("Normalized steps", "Plain steps, η = 1/L"), strict=False
    ):
        for k, size in enumerate(config["starts"]):
            steps = np.maximum(result[f"{rule}.{k}.steps"], 0.5)
            away = _away(result[f"{rule}.{k}.W"], result["best.W"])
            band(ax, steps, away, colour=CYCLE[k], label=f"start of deviation {size:g}")
        ax.set(xscale="log", yscale="log", xlabel="step", title=title)
    if "adverse.steps" in result:
        away = _away(result["adverse.W"], result["adverse.best.W"])
        axes[2].plot(np.maximum(result["adverse.steps"], 0.5), away, color=CYCLE[6], linewidth=1)
    axes[2].set(xscale="log", yscale="log", xlabel="step", title="Contradicting starts")
    axes[0].set_ylabel("1 − correlation (median, middle half)")
    axes[0].legend(frameon=False, fontsize=7.5, loc="lower left")
    return figure


_FULL = {
    "shape": [4, 6, 10],
    "seeds": 30,
    "starts": [0.1, 1.0, 3.0],
    "steps": 10_000,
    "gd_steps": 20_000,
    "searched": 200,
    # 10,000 steps of 0.1 are a way of 1,000. A start of length up to 30 and a tenth of the
    # way spent on other tokens leave 0.13 across, a correlation of 0.99.
    "correlation": 0.99,
}

CLAIM = Claim(
    id="B.equal-scores-global",
    title="Equal scores: every start ends at the best tokens",
    kind="theorem",
    trust="as recalled",
    statement="If all tokens of an input but its best share one score and the best tokens can be "
    "separated, gradient descent on W with a step of at most 1/L converges in direction to the "
    "max-margin solution of the best tokens from every start. Tested on random starts and on "
    "starts made to contradict it.",
    full=_FULL,
    quick={**_FULL, "seeds": 8, "gd_steps": 5000},
    run=run,
    check=check,
    plot=plot,
    differs="The statement, as recalled, does not hold from every start. The smallest case is two "
    "inputs of two tokens with key differences (1, 0) and (−2, 1) and a prompt started at (R, 0): "
    "input 1 pulls by e^−r, input 2, whose best token is 2r behind, by e^−2r, so that the second "
    "coordinate grows by no more than about e^−R for ever, and the direction stays at (1, 0), "
    "where (1, 3) is the solution. In general, where the solution of all "
    "inputs but one leaves the best token of that one behind by more than the margin, its pull is "
    "the smaller the further W goes along it, and W keeps to that solution. On two such runs from "
    "random starts, six times as many normalized steps changed nothing, and plain descent with "
    "η = 1/L decided on the same tokens within 300,000 steps.",
    reference="tarzanagh2023svm",
)
