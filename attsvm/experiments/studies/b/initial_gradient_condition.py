"""B: a first gradient that prefers the best tokens leads to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.studies.claim import (
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
from attsvm.experiments.studies.shared.plain_descent import (
    FinalState,
    below_level,
    loss_and_pull,
    proved_end,
    safe_step,
    smoothness,
    three_inputs,
)
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.random_instances import best_problem, compact
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import initial_gradient_condition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RECORDS = 40
# The longest first step that is tried, a power of two: the rest is open.
_LONGEST = 40


def _name(shape: Sequence[int]) -> str:
    return ".".join(map(str, shape))


def _pairs(config: Config, shape: Sequence[int]) -> list[tuple[Tokens, Floats]]:
    return [compact(shape, seed) for seed in seeds_of(config)]


def _zero(tokens: Tokens) -> Floats:
    return np.zeros((int(tokens.X.shape[2]), int(tokens.queries.shape[1])))


def _first(tokens: Tokens, v: Floats) -> tuple[Floats, float]:
    """−∇L(0), and the least margin of a best token under it: positive where the premise holds."""
    pull = loss_and_pull(tokens, v, _zero(tokens))[1]
    return pull, float(np.min(best_problem(tokens, v).margins(pull)))


def _after_first(config: Config) -> Floats:
    """W(1) = −η(0)∇L(0) of the three-input example for each first step (K, 3, 3)."""
    pull, _ = _first(*three_inputs())
    return np.stack([eta * pull for eta in config["first_steps"]])


def run(config: Config) -> Result:
    """Plain descent after first steps of several lengths on the example, and from W = 0."""
    tokens, v = three_inputs()
    count = len(config["first_steps"])
    path = train(
        [tokens] * count,
        head=np.stack([v] * count),
        optimizer="gd",
        lr=1 / smoothness(tokens, v),
        steps=config["steps"],
        init={"W": _after_first(config)},
    )
    rows = np.unique(np.linspace(0, len(path.steps) - 1, _RECORDS).round().astype(int))
    out: Result = {
        "three.steps": path.steps[rows],
        "three.W": path.weights["W"][rows],
        **saved_solutions("three.best", [solve(best_problem(tokens, v))]),
    }
    for shape in config["shapes"]:
        pairs = _pairs(config, shape)
        stack, heads = [t for t, _ in pairs], np.stack([v for _, v in pairs])
        zeros = np.stack([_zero(t) for t in stack])
        path = train(
            stack,
            head=heads,
            optimizer="gd",
            lr=safe_step(stack, heads),
            steps=config["random_steps"],
            init={"W": zeros},
        )
        name = f"random.{_name(shape)}"
        best = solve_many([best_problem(t, v) for t, v in pairs])
        out |= {f"{name}.W": path.weights["W"][-1], **saved_solutions(f"{name}.best", best)}
    return out


def _long_enough(tokens: Tokens, v: Floats) -> float:
    """The least power of two η(0) after which W(1) is below the loss level; inf without one."""
    pull, _ = _first(tokens, v)
    for k in range(-10, _LONGEST + 1):
        at = below_level(tokens, v, 2.0**k * pull)
        if at.excess < at.allowed:
            return float(2.0**k)
    return float("inf")


class _ConditionValues:
    """What the random runs of one shape show."""

    def __init__(self, config: Config, result: Result, shape: Sequence[int]) -> None:
        pairs = _pairs(config, shape)
        stack, heads = [t for t, _ in pairs], np.stack([v for _, v in pairs])
        lr, name = safe_step(stack, heads), f"random.{_name(shape)}"
        best = recertified(
            f"{name}.best", [best_problem(t, v) for t, v in pairs], "frobenius", result
        )
        self.met = np.array([_first(t, v)[1] > 0 for t, v in pairs])
        self.apart = sum(
            (initial_gradient_condition(t, v).least.sign > 0) != m
            for (t, v), m in zip(pairs, self.met, strict=True)
        )
        self.ends: list[FinalState] = [
            proved_end(t, v, W, lr) for (t, v), W in zip(pairs, result[f"{name}.W"], strict=True)
        ]
        self.risen = sum(
            loss_and_pull(t, v, W)[0] >= loss_and_pull(t, v, _zero(t))[0]
            for (t, v), W in zip(pairs, result[f"{name}.W"], strict=True)
        )
        inside = np.flatnonzero(self.met)
        self.best = [best[b] for b in inside]
        self.long = np.array([_long_enough(*pairs[b]) for b in inside])
        # Below the level the limit is proved for every step up to 1/L_W.
        self.missed = sum(
            not np.isfinite(eta)
            or proved_end(*pairs[b], eta * _first(*pairs[b])[0], 1 / smoothness(*pairs[b]))
            != "best"
            for b, eta in zip(inside, self.long, strict=True)
        )
        self.sizes = np.array([c.upper for c in self.best])

    def count(self, end: FinalState, *, met: bool) -> int:
        """Runs with this end, inside or outside the condition."""
        return sum(e == end for e, m in zip(self.ends, self.met, strict=True) if m == met)


def check(config: Config, result: Result) -> Finding:
    """Proofs of where descent ends inside the condition, after short and long first steps."""
    tokens, v = three_inputs()
    lr = 1 / smoothness(tokens, v)
    (best,) = recertified("three.best", [best_problem(tokens, v)], "frobenius", result)
    _, margin = _first(tokens, v)
    ends = _example_ends(config, result)
    short = [end for eta, end in zip(config["first_steps"], ends, strict=True) if eta <= lr]
    seen = {_name(s): _ConditionValues(config, result, s) for s in config["shapes"]}
    inside = sum(int(s.met.sum()) for s in seen.values())
    gap = worst_gap([best, *(c for s in seen.values() for c in s.best)])
    wrong = ends.count("elsewhere")
    tests = [
        at_least("three-input example: least margin under the first gradient", margin, 1e-3),
        equals("its first steps after which it is proved to end elsewhere", wrong, 0),
        noted("of them no longer than 1/L_W", short.count("elsewhere")),
        noted("its first steps after which it is proved to end at the best", ends.count("best")),
        noted("cosine to W^mm after the shortest", cosine(result["three.W"][-1, 0], best)),
        equals(
            "random runs inside the condition, proved to end elsewhere",
            sum(s.count("elsewhere", met=True) for s in seen.values()),
            0,
        ),
        equals(
            "instances inside on which no first step is long enough for a proof",
            sum(s.missed for s in seen.values()),
            0,
        ),
        equals("runs of the example whose loss rises", _rises(result), 0),
        equals(
            "random runs whose loss is not below that of W = 0",
            sum(s.risen for s in seen.values()),
            0,
        ),
        equals(
            "instances where two computations of the condition differ",
            sum(s.apart for s in seen.values()),
            0,
        ),
    ]
    for name, s in seen.items():
        tests += [
            noted(f"{name}: share of instances inside the condition", float(s.met.mean())),
            noted(f"{name}: of them proved at the best tokens", _share(s, "best", met=True)),
            noted(f"{name}: of them open", _share(s, "open", met=True)),
            noted(f"{name}: outside, proved at the best tokens", _share(s, "best", met=False)),
            noted(f"{name}: median of the first steps that prove", _median(s.long)),
            noted(f"{name}: the same times ‖W^mm‖", _median(s.long * s.sizes)),
        ]
    tests.append(at_most("largest certified gap", gap, norm_of("frobenius").tolerance))
    premises = (
        f"{inside} of {sum(len(s.met) for s in seen.values())} random instances, and the example: "
        "the gradient at W = 0 prefers the best token of every input to each other one; "
        "η ≤ 1/L_W after the first step"
    )
    return Finding(tuple(tests), premises, inside + 1, gap, _reason(config, ends) if wrong else "")


def _reason(config: Config, ends: Sequence[FinalState]) -> str:
    steps = [
        eta for eta, end in zip(config["first_steps"], ends, strict=True) if end == "elsewhere"
    ]
    return (
        "Read: Theorem 6 of the first version, whose proof leaves an inequality open. Run: plain "
        f"descent from W = 0, η = 1/L_W after first steps of {min(steps):g} to {max(steps):g}. "
        "A small instance: three inputs of two tokens, one query, key differences "
        "(−2.5, −3, 2), (−1.5, 1.5, 0.5) and (4, −4, 0.125), scores the third coordinates. The "
        "first input lifts the third at the start and is soon done; the second then turns W "
        "against it, and the run is proved to keep the worse token there for ever. It also has "
        "equal scores: Theorem 4 fails from W = 0. After a first step that is long enough the "
        "limit is proved: every margin grows with η(0), and W(1) is below the loss level."
    )


def _rises(result: Result) -> int:
    """Runs of the example whose loss rises by more than rounding."""
    tokens, v = three_inputs()
    loss = np.array([[loss_and_pull(tokens, v, M)[0] for M in W] for W in result["three.W"]])
    return int((np.diff(loss, axis=0) > 1e-14).any(axis=0).sum())


def _example_ends(config: Config, result: Result) -> list[FinalState]:
    tokens, v = three_inputs()
    return [proved_end(tokens, v, W, 1 / smoothness(tokens, v)) for W in result["three.W"][-1]]


def _share(seen: _ConditionValues, end: FinalState, *, met: bool) -> float:
    total = int((seen.met == met).sum())
    return seen.count(end, met=met) / total if total else float("nan")


def _median(values: Any) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def plot(config: Config, result: Result) -> Figure:
    """The example after short and long first steps, and first steps that prove the limit."""
    from attsvm.experiments.studies.shared.drawing import panels

    figure, axes = panels(2, figsize=(10.0, 4.2))
    _draw_example(axes[0], config, result)
    _draw_long(axes[1], config, result)
    return figure


def _draw_example(axes: Axes, config: Config, result: Result) -> None:
    from attsvm.experiments.studies.shared.drawing import CYCLE, level

    tokens, v = three_inputs()
    problem: Problem = best_problem(tokens, v)
    colours = {"best": CYCLE[0], "elsewhere": CYCLE[1], "open": "0.5"}
    names = {"best": "proved: best tokens", "elsewhere": "proved: elsewhere", "open": "open"}
    steps, ends = result["three.steps"], _example_ends(config, result)
    # Runs that end at one place share a label.
    labels: dict[float, list[str]] = {}
    for k, (eta, end) in enumerate(zip(config["first_steps"], ends, strict=True)):
        margin = [float(problem.margins(W)[2]) for W in result["three.W"][:, k]]
        axes.plot(np.maximum(steps, 0.6), margin, color=colours[end])
        near = next((y for y in labels if abs(y - margin[-1]) < 0.2 * abs(y)), margin[-1])
        labels.setdefault(near, []).append(f"{eta:.3g}")
    for y, etas in labels.items():
        text = f" η(0) = {', '.join(etas)}"
        axes.annotate(text, (steps[-1], y), fontsize=7, va="center", annotation_clip=False)
    for end in dict.fromkeys(ends):
        axes.plot([], [], color=colours[end], label=names[end])
    level(axes, 0.0)
    axes.set(xscale="log", xlabel="step", ylabel="margin of the third input's best token")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_title("Three inputs from W = 0")
    axes.set_xlim(0.6, steps[-1] * 300)
    axes.legend(frameon=False, fontsize=7.5, loc="lower left")


def _draw_long(axes: Axes, config: Config, result: Result) -> None:
    from attsvm.experiments.studies.shared.drawing import CYCLE

    for k, shape in enumerate(config["shapes"]):
        pairs = _pairs(config, shape)
        inside = [b for b, p in enumerate(pairs) if _first(*p)[1] > 0]
        sizes = np.linalg.norm(result[f"random.{_name(shape)}.best.W"], axis=(1, 2))[inside]
        long = [_long_enough(*pairs[b]) for b in inside]
        axes.loglog(1 / sizes, long, "o", markersize=4, color=CYCLE[k], alpha=0.7,
                    label=f"n, T, d = {', '.join(map(str, shape))}")  # fmt: skip
    reach = np.array(axes.get_xlim())
    axes.loglog(reach, reach, ":", color="0.5")
    axes.annotate("η(0) = 1/‖W^mm‖", (reach[1], reach[1] / 4), ha="right", va="top", fontsize=7.5)
    axes.set(xlabel="1/‖W^mm‖", ylabel="least η(0) = 2^k that proves the limit")
    axes.set_title("First steps that are long enough")
    axes.legend(frameon=False, fontsize=7.5)


_FULL = {
    # 1/394 is 1/L_W of the example; 0.4 is 1/‖W^mm‖.
    "first_steps": [0.0025, 0.4, 4.0, 64.0, 256.0],
    "steps": 100_000,
    "shapes": [[2, 3, 2], [3, 4, 6], [3, 4, 24]],
    "seeds": 60,
    "random_steps": 40_000,
}

CLAIM = Claim(
    id="B.initial-gradient-condition",
    title="A first gradient that prefers the best tokens",
    kind="question",
    trust="read",
    statement="If the gradient at W = 0 prefers the best token of every input to each other one, "
    "plain descent from there, with a first step of at most O(1/‖W^mm‖) and later ones of at most "
    "1/L_W, converges in direction to the max-margin solution of the best tokens. It is asked as a "
    "question: O(·) hides a constant, the proof asks for a first step that is long, not short, and "
    "it leaves an inequality open.",
    full=_FULL,
    quick={**_FULL, "steps": 60_000, "seeds": 6, "random_steps": 2000},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Theorem 6",
)
