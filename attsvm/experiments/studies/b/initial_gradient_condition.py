"""B: a first gradient that prefers the best tokens leads to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.plain_descent import (
    below_level,
    loss_and_pull,
    own_descent,
    proved_end,
    smoothness,
    three_inputs,
)
from attsvm.experiments.studies.shared.random_instances import best_problem, compact_sphere
from attsvm.experiments.studies.shared.rows import columns_of
from attsvm.experiments.study import (
    EXAMPLE,
    Found,
    Note,
    Premises,
    Study,
    at_least,
    at_most,
    equals,
    info,
)
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.landscape import initial_gradient_condition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

# The longest first step that is tried, a power of two: the rest is open.
_LONGEST = 40
# What stands in a row where its part has no such value. premise: the least margin of a best token
# under the first gradient. long: the least first step that proves the limit. risen: of random
# runs, whether the loss is not below that of W = 0.
_EMPTY = {
    "seed": 0, "first_step": np.nan, "step": -1, "margin": np.nan, "loss": np.nan,
    "premise": np.nan, "shortest": np.nan, "cosine": np.nan, "end": "", "apart": False,
    "risen": False, "long": np.nan, "long_end": "", "least_norm": np.nan, "gap": np.nan,
}  # fmt: skip


def measure(
    group: Group, part: str, first_steps: Sequence[float], example_steps: int, random_steps: int
) -> dict[str, Any]:
    """example: plain descent after first steps of several lengths on the three-input example, the
    same for every seed. random: plain descent from W = 0."""
    if part == "example":
        rows = _example(EXAMPLE, first_steps, example_steps)
    else:
        zeros = np.stack([_zero(t) for t in group.tokens])
        W = own_descent(group.tokens, group.heads, zeros, steps=random_steps).W[-1]
        found = group.solved(group.best)
        rows = [
            {"seed": seed, **_random(t, v, M, c)}
            for seed, t, v, M, c in zip(
                group.seeds, group.tokens, group.heads, W, found, strict=True
            )
        ]
    return columns_of(rows, _EMPTY)


def _zero(tokens: Tokens) -> Floats:
    return np.zeros((int(tokens.X.shape[2]), int(tokens.queries.shape[1])))


def _first(tokens: Tokens, v: Floats) -> tuple[Floats, float]:
    """−∇L(0), and the least margin of a best token under it: positive where the premise holds."""
    pull = loss_and_pull(tokens, v, _zero(tokens))[1]
    return pull, float(np.min(best_problem(tokens, v).margins(pull)))


def _example(seed: int, first_steps: Sequence[float], steps: int) -> list[dict[str, Any]]:
    """Runs from W(1) = −η(0)∇L(0) of the three-input example for each first step."""
    tokens, v = three_inputs()
    lr, problem = 1 / smoothness(tokens, v), best_problem(tokens, v)
    best = solve(problem)
    pull, premise = _first(tokens, v)
    count = len(first_steps)
    starts = np.stack([eta * pull for eta in first_steps])
    path = own_descent([tokens] * count, np.stack([v] * count), starts, steps=steps, records=40)
    out = []
    for k, eta in enumerate(first_steps):
        about = {
            "seed": seed, "first_step": eta, "premise": premise, "shortest": lr,
            "end": proved_end(tokens, v, path.W[-1, k], lr), "gap": float(best.gap),
            "cosine": cosine(path.W[-1, k], best),
        }  # fmt: skip
        for step, W in zip(path.steps, path.W[:, k], strict=True):
            margin, loss = float(problem.margins(W)[2]), loss_and_pull(tokens, v, W)[0]
            out.append({**about, "step": int(step), "margin": margin, "loss": loss})
    return out


def _random(tokens: Tokens, v: Floats, W: Floats, best: Any) -> dict[str, Any]:
    """What a run from W = 0 to W shows, and, inside the condition, the least first step that
    proves its limit."""
    lr = 1 / smoothness(tokens, v)
    pull, premise = _first(tokens, v)
    long = _long_enough(tokens, v, pull) if premise > 0 else np.nan
    return {
        "premise": premise,
        "apart": (initial_gradient_condition(tokens, v).sign > 0) != (premise > 0),
        "end": proved_end(tokens, v, W, lr),
        "risen": loss_and_pull(tokens, v, W)[0] >= loss_and_pull(tokens, v, _zero(tokens))[0],
        "long": long,
        # Below the level the limit is proved for every step up to 1/L_W.
        "long_end": proved_end(tokens, v, long * pull, lr) if np.isfinite(long) else "open",
        "least_norm": float(best.upper),
        "gap": float(best.gap),
    }


def _long_enough(tokens: Tokens, v: Floats, pull: Floats) -> float:
    """The least power of two η(0) after which W(1) is below the loss level; inf without one."""
    for k in range(-10, _LONGEST + 1):
        at = below_level(tokens, v, 2.0**k * pull)
        if at.excess < at.allowed:
            return float(2.0**k)
    return float("inf")


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Proofs of where descent ends inside the condition, after short and long first steps."""
    example = table[table.part == "example"].drop_duplicates(["first_step", "step"])
    last = example.groupby("first_step").last()
    wrong = last[last.end == "elsewhere"]
    yield at_least("three-input example: least margin under the first gradient",
                   last.premise.min(), 1e-3)  # fmt: skip
    yield equals("its first steps after which it is proved to end elsewhere", len(wrong), 0)
    yield info("of them no longer than 1/L_W", (wrong.index <= wrong.shortest).sum())
    yield info("its first steps after which it is proved to end at the best",
               (last.end == "best").sum())  # fmt: skip
    yield info("cosine to W^mm after the shortest", last.cosine.iloc[0])
    random = table[table.part == "random"].assign(met=lambda t: t.premise > 0)
    inside = random[random.met]
    yield equals("random runs inside the condition, proved to end elsewhere",
                 (inside.end == "elsewhere").sum(), 0)  # fmt: skip
    yield equals("instances inside on which no first step is long enough for a proof",
                 (inside.long_end != "best").sum(), 0)  # fmt: skip
    # By more than rounding.
    rises = example.groupby("first_step").loss.apply(lambda loss: (loss.diff() > 1e-14).any())
    yield equals("runs of the example whose loss rises", rises.sum(), 0)
    yield equals("random runs whose loss is not below that of W = 0", random.risen.sum(), 0)
    yield equals("instances where two computations of the condition differ", random.apart.sum(), 0)
    for (n, T, d), rows in random.groupby(["n", "T", "d"], sort=False):
        name, met, outside = f"{n}.{T}.{d}", rows[rows.met], rows[~rows.met]
        yield info(f"{name}: share of instances inside the condition", rows.met.mean())
        yield info(f"{name}: of them proved at the best tokens", (met.end == "best").mean())
        yield info(f"{name}: of them open", (met.end == "open").mean())
        yield info(f"{name}: outside, proved at the best tokens", (outside.end == "best").mean())
        yield info(f"{name}: median of the first steps that prove", met.long.median())
        yield info(f"{name}: the same times ‖W^mm‖", (met.long * met.least_norm).median())
    gap = max(last.gap.max(), inside.gap.max())
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    yield Premises(
        len(inside) + 1,
        f"{len(inside)} of {len(random)} random instances, and the example: the gradient at W = 0 "
        "prefers the best token of every input to each other one; η ≤ 1/L_W after the first step",
        gap,
    )
    if len(wrong):
        yield Note(
            "Read: Theorem 6 of the first version, whose proof leaves an inequality open. Run: "
            "plain descent from W = 0, η = 1/L_W after first steps of "
            f"{wrong.index.min():g} to {wrong.index.max():g}. A small instance: three inputs of "
            "two tokens, one query, key differences (−2.5, −3, 2), (−1.5, 1.5, 0.5) and "
            "(4, −4, 0.125), scores the third coordinates. The first input lifts the third at the "
            "start and is soon done; the second then turns W against it, and the run is proved to "
            "keep the worse token there for ever. It also has equal scores: Theorem 4 fails from "
            "W = 0. After a first step that is long enough the limit is proved: every margin grows "
            "with η(0), and W(1) is below the loss level."
        )


def figure(table: DataFrame, study: Study) -> Figure:
    """The example after short and long first steps, and first steps that prove the limit."""
    from attsvm.plotting.studies import panels

    drawn, axes = panels(2, figsize=(10.0, 4.2))
    example = table[table.part == "example"].drop_duplicates(["first_step", "step"])
    _draw_example(axes[0], example)
    _draw_long(axes[1], table[(table.part == "random") & (table.premise > 0)])
    return drawn


def _draw_example(axes: Axes, example: DataFrame) -> None:
    from attsvm.plotting.studies import CYCLE, level

    colours = {"best": CYCLE[0], "elsewhere": CYCLE[1], "open": "0.5"}
    names = {"best": "proved: best tokens", "elsewhere": "proved: elsewhere", "open": "open"}
    # Runs that end at one place share a label.
    labels: dict[float, list[str]] = {}
    for eta, path in example.groupby("first_step"):
        axes.plot(np.maximum(path.step, 0.6), path.margin, color=colours[path.end.iloc[0]])
        last = path.margin.iloc[-1]
        near = next((y for y in labels if abs(y - last) < 0.2 * abs(y)), last)
        labels.setdefault(near, []).append(f"{eta:.3g}")
    for y, etas in labels.items():
        axes.annotate(f" η(0) = {', '.join(etas)}", (example.step.max(), y), fontsize=7,
                      va="center", annotation_clip=False)  # fmt: skip
    for end in example.end.unique():
        axes.plot([], [], color=colours[end], label=names[end])
    level(axes, 0.0)
    axes.set(xscale="log", xlabel="step", ylabel="margin of the third input's best token",
             title="Three inputs from W = 0", xlim=(0.6, example.step.max() * 300))  # fmt: skip
    axes.set_yscale("symlog", linthresh=1.0)
    axes.legend(frameon=False, fontsize=7.5, loc="lower left")


def _draw_long(axes: Axes, inside: DataFrame) -> None:
    from attsvm.plotting.studies import CYCLE

    for k, (shape, rows) in enumerate(inside.groupby(["n", "T", "d"], sort=False)):
        axes.loglog(1 / rows.least_norm, rows.long, "o", markersize=4, color=CYCLE[k], alpha=0.7,
                    label=f"n, T, d = {', '.join(map(str, shape))}")  # fmt: skip
    reach = np.array(axes.get_xlim())
    axes.loglog(reach, reach, ":", color="0.5")
    axes.annotate("η(0) = 1/‖W^mm‖", (reach[1], reach[1] / 4), ha="right", va="top", fontsize=7.5)
    axes.set(xlabel="1/‖W^mm‖", ylabel="least η(0) = 2^k that proves the limit",
             title="First steps that are long enough")  # fmt: skip
    axes.legend(frameon=False, fontsize=7.5)


STUDY = Study(
    id="B.initial-gradient-condition",
    title="A first gradient that prefers the best tokens",
    kind="question",
    source="paper",
    statement="If the gradient at W = 0 prefers the best token of every input to each other one, "
    "plain descent from there, with a first step of at most O(1/‖W^mm‖) and later ones of at most "
    "1/L_W, converges in direction to the max-margin solution of the best tokens. It is asked as a "
    "question: O(·) hides a constant, the proof asks for a first step that is long, not short, and "
    "it leaves an inequality open.",
    family=compact_sphere,
    grid={
        "part n T d": [
            ("example", 3, 2, 3),
            ("random", 2, 3, 2),
            ("random", 3, 4, 6),
            ("random", 3, 4, 24),
        ]
    },
    run={
        # 1/394 is 1/L_W of the example; 0.4 is 1/‖W^mm‖.
        "first_steps": [0.0025, 0.4, 4.0, 64.0, 256.0],
        "example_steps": 100_000,
        "random_steps": 40_000,
    },
    seeds=60,
    group=30,
    measure=measure,
    checks=checks,
    quick={"run": {"example_steps": 60_000, "random_steps": 2000}, "seeds": 6},
    figure=figure,
    reference="tarzanagh2023svm",
    theorem="v1, Theorem 6",
)
