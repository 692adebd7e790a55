"""B: when all but the best token of an input share one score, every start ends at the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import Claim, Config, Finding, Result, at_least, at_most, equals, noted
from attsvm.claims.proof import cosine, kept, recertified, worst_gap
from attsvm.claims.random_instances import best_problem, stacked, standing
from attsvm.landscape import equal_scores
from attsvm.solvers.many import solve_many
from attsvm.tokens import Floats, Tokens
from attsvm.training import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _instances(config: Config) -> tuple[list[Tokens], Floats]:
    return stacked(config["shape"], range(config["seeds"]), equal_scores=True)


def _smooth(tokens: Tokens, v: Floats) -> float:
    """L_W = (1/n) Σ (‖v‖²‖z‖²‖X‖⁴/4 + 3‖v‖‖z‖²‖X‖³), which bounds the slope of the gradient."""
    X = np.linalg.norm(np.asarray(tokens.X), ord=2, axis=(1, 2))
    z, size = np.linalg.norm(tokens.queries, axis=1), float(np.linalg.norm(v))
    return float(np.mean(size**2 * z**2 * X**4 / 4 + 3 * size * z**2 * X**3))


def run(config: Config) -> Result:
    """Plain and normalized descent from starts of several sizes on every instance."""
    stack, heads = _instances(config)
    out: Result = dict(kept("best", solve_many([best_problem(t, v) for t, v in
                                                zip(stack, heads, strict=True)])))  # fmt: skip
    step = min(1 / _smooth(t, v) for t, v in zip(stack, heads, strict=True))
    for k, size in enumerate(config["starts"]):
        for rule, lr, steps in (("gd", step, config["gd_steps"]), ("ngd", 0.1, config["steps"])):
            path = train(stack, head=heads, rule=rule, lr=lr, steps=steps,
                         init=f"normal:{size}", seed=k)  # fmt: skip
            rows = np.unique(np.linspace(0, len(path.steps) - 1, 30).round().astype(int))
            out |= {f"{rule}.{k}.steps": path.steps[rows], f"{rule}.{k}.loss": path.loss[rows],
                    f"{rule}.{k}.W": path.weights["W"][rows]}  # fmt: skip
    return out


def check(config: Config, result: Result) -> Finding:
    """Normalized runs all end at the best tokens in the certified direction; plain ones near."""
    stack, heads = _instances(config)
    pairs = list(zip(stack, heads, strict=True))
    best = recertified("best", [best_problem(t, v) for t, v in pairs], "frobenius", result)
    inside = [c.status != "inseparable" and equal_scores(t, v)
              for c, (t, v) in zip(best, pairs, strict=True)]  # fmt: skip
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
    tests = (
        equals("normalized runs that do not end at the best tokens", wrong, 0),
        at_least("normalized: least correlation to the certified direction",
                 float(np.min(cosines)), config["correlation"]),
        equals("plain runs with η = 1/L decided on other tokens", late, 0),
        equals("plain runs whose loss rises", rises, 0),
        equals("plain runs whose part along the certified direction ever shrinks", shrinks, 0),
        noted("plain: median correlation to the certified direction", float(np.median(slow))),
        at_most("largest certified gap", gap, 1e-8),
    )  # fmt: skip
    premises = (
        f"{sum(inside)} of {len(stack)} instances are separable and have equal scores; "
        f"{len(config['starts'])} starts each"
    )
    return Finding(tests, premises, runs, gap)


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation to the certified direction over the steps, by rule and size of the start."""
    from attsvm.claims.drawing import CYCLE, band, panels

    figure, axes = panels(2, sharey=True)
    best = result["best.W"]
    for ax, rule, title in zip(axes, ("ngd", "gd"), ("Normalized steps", "Plain steps, η = 1/L"),
                               strict=True):  # fmt: skip
        for k, size in enumerate(config["starts"]):
            W, steps = result[f"{rule}.{k}.W"], np.maximum(result[f"{rule}.{k}.steps"], 0.5)
            norms = np.linalg.norm(W, axis=(2, 3)) * np.linalg.norm(best, axis=(1, 2))
            away = 1 - np.einsum("rbij,bij->rb", W, best) / norms
            band(ax, steps, away, colour=CYCLE[k], label=f"start of deviation {size:g}")
        ax.set(xscale="log", yscale="log", xlabel="step", title=title)
    axes[0].set_ylabel("1 − correlation (median, middle half)")
    axes[0].legend(frameon=False, fontsize=7.5)
    return figure


_FULL = {"shape": [4, 6, 10], "seeds": 30, "starts": [0.1, 1.0, 3.0], "steps": 10_000,
         "gd_steps": 20_000, "correlation": 0.99}  # fmt: skip

CLAIM = Claim(
    id="B.equal-scores-global",
    title="Equal scores: every start ends at the best tokens",
    kind="theorem",
    trust="as recalled",
    statement="If all tokens of an input but its best share one score and the best tokens can be "
    "separated, gradient descent on W with a step of at most 1/L converges in direction to the "
    "max-margin solution of the best tokens from every start.",
    full=_FULL,
    quick={**_FULL, "seeds": 8, "gd_steps": 5000},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
)
