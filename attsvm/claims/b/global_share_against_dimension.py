"""B: the larger the dimension, the more runs end at the best tokens."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    equals,
    seeds_of,
)
from attsvm.claims.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.claims.shared.random_instances import best_problem, compact, standing
from attsvm.claims.shared.work import solve_many, train
from attsvm.ground.arrays import Floats
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens
from attsvm.theory.landscape import all_tight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES = ("global", "local", "not yet")


def _instances(config: Config, d: int) -> tuple[list[Tokens], Floats]:
    pairs = [compact([*config["size"], d], seed) for seed in seeds_of(config)]
    return [tokens for tokens, _ in pairs], np.stack([v for _, v in pairs])


def run(config: Config) -> Result:
    """Normalized descent from W = 0 in every dimension, and the best tokens' problems."""
    out: Result = {}
    for d in config["dimensions"]:
        stack, heads = _instances(config, d)
        path = train(stack, head=heads, lr=config["lr"], steps=config["steps"])
        out[f"{d}.W"] = path.weights["W"][-1]
        problems = [best_problem(t, v) for t, v in zip(stack, heads, strict=True)]
        out |= saved_solutions(f"{d}.best", solve_many(problems))
    return out


def _shares(config: Config, result: Result, d: int) -> tuple[dict[str, float], int, float]:
    """Shares by where runs end and of all-tight instances; all-tight ones that end at other
    tokens; the largest gap."""
    stack, heads = _instances(config, d)
    problems = [best_problem(t, v) for t, v in zip(stack, heads, strict=True)]
    best = recertified(f"{d}.best", problems, "frobenius", result)
    tight = [c.W is not None and all_tight(c) is True for c in best]
    where = [standing(t, v, W)[0] for t, v, W in zip(stack, heads, result[f"{d}.W"], strict=True)]
    count = Counter(w if w in ("global", "local") else "not yet" for w in where)
    out = {place: count[place] / len(stack) for place in PLACES}
    astray = sum(t and w == "local" for t, w in zip(tight, where, strict=True))
    gap = worst_gap([c for c in best if c.status != "inseparable"])
    return {**out, "all tight": sum(tight) / len(stack)}, astray, gap


def _errors(before: float, after: float, count: int) -> float:
    """after − before over its standard error, of shares of `count` runs each; 0 when equal."""
    error = np.sqrt((before * (1 - before) + after * (1 - after)) / count)
    return 0.0 if before == after else float((after - before) / max(error, 1 / count))


def check(config: Config, result: Result) -> Finding:
    """The share of global ends and of all-tight instances rises to one with d."""
    found = {d: _shares(config, result, d) for d in config["dimensions"]}
    low, high = min(found), max(found)
    ends = {d: found[d][0]["global"] for d in (low, high)}
    tight = [shares["all tight"] for shares, _, _ in found.values()]
    # Differences are judged by their standard error, that of two shares of so many runs. To one:
    # at most one in twenty is short of it.
    tests: list[Test] = [
        at_least(
            "rise of the share of global ends, smallest to largest d, in standard errors",
            _errors(ends[low], ends[high], config["seeds"]),
            2.0,
        ),
        at_least("share of global ends at the largest d", ends[high], 0.95),
        at_least(
            "share of all-tight instances at the largest d", found[high][0]["all tight"], 0.95
        ),
        at_least(
            "least rise of the share of all-tight instances from one d to the next, in "
            "standard errors",
            min(_errors(a, b, config["seeds"]) for a, b in pairwise(tight)),
            -2.0,
        ),
        equals(
            "all-tight instances that end at other tokens than the best",
            sum(astray for _, astray, _ in found.values()),
            0,
        ),
        at_most(
            "largest certified gap",
            max(gap for _, _, gap in found.values()),
            norm_of("frobenius").tolerance,
        ),
    ]
    premises = (
        f"{config['seeds']} seeds in each of {len(found)} dimensions; ends that are undecided or "
        "not locally optimal count as not yet"
    )
    gap = max(gap for _, _, gap in found.values())
    return Finding(tuple(tests), premises, config["seeds"] * len(found), gap)


def plot(config: Config, result: Result) -> Figure:
    """Where runs end, stacked by share, and the share of all-tight instances, over d."""
    from attsvm.claims.shared.drawing import CYCLE, panels

    figure, (ax,) = panels(1, figsize=(7.5, 4.6))
    dims = config["dimensions"]
    shares = [_shares(config, result, d)[0] for d in dims]
    base = np.zeros(len(dims))
    for k, place in enumerate(PLACES):
        part = np.array([s[place] for s in shares])
        ax.bar(
            range(len(dims)),
            part,
            bottom=base,
            width=0.62,
            label=place,
            color=(CYCLE[0], CYCLE[4], "#c8c8c8")[k],
        )
        base += part
    ax.plot(
        range(len(dims)),
        [s["all tight"] for s in shares],
        "o-",
        color=CYCLE[6],
        label="all margins tight",
    )
    ax.set_xticks(range(len(dims)), [str(d) for d in dims])
    n, T = config["size"]
    ax.set(xlabel=f"d (n = {n}, T = {T})", ylabel="share of runs", title="Where runs end")
    ax.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


_FULL = {
    "size": [4, 6],
    "dimensions": [4, 8, 16, 32, 64, 256, 1024],
    "seeds": 100,
    "lr": 0.1,
    "steps": 2000,
}

CLAIM = Claim(
    id="B.global-share-against-dimension",
    title="Large dimensions lead to the best tokens",
    kind="figure",
    trust="as recalled",
    statement="On random instances, the share of runs that end at the best token of every input "
    "rises to one with the dimension, as does the share of instances whose margins are all tight, "
    "where no other end is possible.",
    full=_FULL,
    quick={**_FULL, "dimensions": [4, 16, 64, 1024], "seeds": 30},
    run=run,
    check=check,
    plot=plot,
    differs="The sizes of the published figure are not known to us; those here are our own.",
    reference="tarzanagh2023svm",
)
