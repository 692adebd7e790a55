"""Heads that keep several tokens of an input: what both multi-token claims share.

Kept tokens O_i have a limit of their attention, the others lose it. Then, with logits that differ
by log-ratios of the limit inside O_i (finite part) and by R or more outside (direction),

    W ≈ W^fin + R W^mm
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.certificate import Certificate, certify
from attsvm.claims.claim import Config, Finding, Result, Test, at_least, at_most, noted, seeds_of
from attsvm.claims.shared.proof import worst_gap
from attsvm.claims.shared.random_instances import attention
from attsvm.claims.shared.work import place, solve, train
from attsvm.data.sphere import sphere_arrays
from attsvm.ground.arrays import Bools, Floats
from attsvm.heads import Head, Quadratic, Relu
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("finite", "direction", "one")
# The three predictions of W that are compared.
NAMES = ("finite part + direction", "direction alone", "one token")


def instances(config: Config, d: int) -> tuple[list[Tokens], Head]:
    """The instances of one dimension and their head."""
    n, T = config["size"]
    stack, heads = [], []
    for seed in seeds_of(config):
        a = sphere_arrays(n, T, d, seed=seed)
        draw = np.random.default_rng([seed, d])
        X, y = a["X"], a["y"]
        if config["head"] == "relu":
            V = draw.standard_normal((d, d))
            heads.append(V / np.linalg.norm(V))
            if (y > 0).all():  # published: at least one label is −1
                y[draw.integers(n)] = -1.0
        else:
            # Orthonormal tokens: the nearest to the draw.
            U, _, Vt = np.linalg.svd(X, full_matrices=False)
            X, y = U @ Vt, np.ones(n)
            heads.append(a["v"])
        stack.append(Tokens(X, queries=a["z"], labels=y))
    return stack, _head(config, np.stack(heads))


def _head(config: Config, rows: Floats) -> Head:
    """The head of these weights, (B, d, d) or (B, d)."""
    return Relu(rows) if config["head"] == "relu" else Quadratic(rows, config["penalty"])


def water_level(tokens: Tokens, v: Floats, penalty: float, *, among: Bools | None = None) -> Floats:
    """The attention (n, T) that maximises v·o − λ‖o‖² for orthonormal tokens: (γ − ν)₊/(2λ).

    among (n, T): the tokens that may have any; all without it.
    """
    out = np.zeros((tokens.n, tokens.T))
    for i, scores in enumerate(np.asarray(tokens.X) @ v):
        may = np.ones(tokens.T, dtype=bool) if among is None else among[i]
        high = np.sort(scores[may])[::-1]
        levels = (np.cumsum(high) - 2 * penalty) / np.arange(1, len(high) + 1)
        k = int(np.flatnonzero(high > levels)[-1])
        out[i, may] = np.maximum(scores[may] - levels[k], 0.0) / (2 * penalty)
    return out


def kept_tokens(config: Config, tokens: Tokens, head: Head, b: int, s: Floats) -> Bools | None:
    """O_i as booleans (n, T); None when the run is outside the premises.

    relu: by the published filter on the attention s, none between the two thresholds and some
    below. quadratic: premises from the closed form, which drops some token and none nearer than
    `clear` to the edge; O_i are the tokens with attention, or the closed form's if all have some.
    """
    low, high = config["filter"]
    kept = s >= high
    if isinstance(head, Quadratic):
        limit = water_level(tokens, head.v[b], head.penalty)
        scores = np.asarray(tokens.X) @ head.v[b]
        level = (scores - 2 * head.penalty * limit)[np.arange(tokens.n), limit.argmax(axis=1)]
        if (np.abs(scores - level[:, None]) < config["clear"]).any() or (limit > 0).all():
            return None
        return limit > 0 if kept.all() else kept
    if ((s > low) & (s < high)).any():
        return None
    return None if kept.all() else kept


def problems(tokens: Tokens, kept: Bools, s: Floats) -> dict[str, Problem]:
    """The finite part, the direction, and the one-token problem of the same run."""
    keep = Selection.of(tokens, kept)
    # Without several kept tokens nothing is asked of the finite part, which is then zero.
    none = keep.single
    return {
        "finite": Problem.of(tokens, keep, b=np.zeros(tokens.n))
        if none
        else Problem.finite(tokens, keep, s),
        "direction": Problem.of(tokens, keep),
        "one": Problem.of(tokens, Selection.of(tokens, s.argmax(axis=1))),
    }


@dataclass(frozen=True, eq=False)
class Compared:
    """One accepted run: the instance, its certificates by part, 1 − correlation of the three
    predictions at each record (R, 3), and the attention at the end (n, T)."""

    place: int
    best: dict[str, Certificate]
    away: Floats
    s: Floats


def _moving(stack: Sequence[Tokens], head: Head) -> list[int]:
    """The instances with a gradient at W = 0. Where no unit of a ReLU head sees any input there is
    none: W stays at zero, and the filter drops the run."""
    pooled = np.stack([np.asarray(tokens.X).mean(axis=1) for tokens in stack])
    return np.flatnonzero(head.gradient(pooled).any(axis=(1, 2))).tolist()


def run(config: Config) -> Result:
    """Descent with decreasing steps in every dimension, and the problems of the accepted runs."""
    out: Result = {}
    for d in config["dimensions"]:
        stack, head = instances(config, d)
        moving = _moving(stack, head)
        movers = _head(config, getattr(head, head.block)[moving])
        path = train(
            [stack[b] for b in moving],
            head=movers,
            rule=config["rule"],
            lr=config["lr"],
            steps=config["steps"],
            schedule=config["schedule"],
        )
        records = np.unique(np.linspace(0, len(path.steps) - 1, 24).round().astype(int))[1:]
        W = np.zeros((len(records), len(stack), d, d))
        W[:, moving] = path.weights["W"][records]
        out |= {f"{d}.steps": path.steps[records], f"{d}.W": W}
        found: dict[str, list[Certificate]] = {part: [] for part in PARTS}
        for b, tokens in enumerate(stack):
            s = attention(tokens, W[-1, b])
            kept = kept_tokens(config, tokens, head, b, s)
            if kept is not None:
                for part, problem in problems(tokens, kept, s).items():
                    found[part].append(solve(problem))
        for part in PARTS:
            out |= _padded(f"{d}.{part}", found[part], (d, d))
    return out


def _padded(name: str, found: Sequence[Certificate], shape: tuple[int, int]) -> Result:
    """Solutions of problems of several sizes, multipliers padded with zeros."""
    place(name, found)
    m = max((c.problem.m for c in found), default=0)
    ties = max((c.problem.ties for c in found), default=0)
    W, lam = np.full((len(found), *shape), np.nan), np.zeros((len(found), m))
    mu = np.zeros((len(found), ties))
    for k, c in enumerate(found):
        W[k] = np.nan if c.W is None else c.W
        lam[k, : c.problem.m], mu[k, : c.problem.ties] = c.multipliers, c.tie_multipliers
    return {f"{name}.W": W, f"{name}.multipliers": lam, f"{name}.ties": mu}


def _recertified(name: str, k: int, problem: Problem, result: Result) -> Certificate:
    """The Certificate of the k-th solution; multipliers that are not on file count as 0."""
    W = result[f"{name}.W"][k]
    lam, mu = (
        np.resize(np.append(a, np.zeros(count)), count)
        for a, count in (
            (result[f"{name}.multipliers"][k], problem.m),
            (result[f"{name}.ties"][k], problem.ties),
        )
    )
    return certify(problem, "frobenius", None if np.isnan(W).any() else W, lam, mu)


def compared(config: Config, result: Result, d: int) -> list[Compared]:
    """The accepted runs of one dimension, from the saved weights; solutions certified again."""
    stack, head = instances(config, d)
    W = result[f"{d}.W"]
    out: list[Compared] = []
    for b, tokens in enumerate(stack):
        s = attention(tokens, W[-1, b])
        kept = kept_tokens(config, tokens, head, b, s)
        if kept is None or len(out) >= len(result[f"{d}.finite.W"]):
            continue
        best = {
            part: _recertified(f"{d}.{part}", len(out), problem, result)
            for part, problem in problems(tokens, kept, s).items()
        }
        out.append(Compared(b, best, _away(W[:, b], best), s))
    return out


def _away(W: Floats, best: dict[str, Certificate]) -> Floats:
    """1 − correlation of W (R, d, d) with the three predictions, (R, 3); nan without a solution."""
    found = [c.W for c in (best[part] for part in PARTS)]
    out = np.full((len(W), 3), np.nan)
    finite, direction, one = found
    if finite is None or direction is None or one is None:
        return out
    for r, M in enumerate(W):
        R = np.vdot(M - finite, direction) / np.vdot(direction, direction)
        for k, target in enumerate((finite + R * direction, direction, one)):
            out[r, k] = 1 - np.vdot(M, target) / (np.linalg.norm(M) * np.linalg.norm(target))
    return out


# Config, d and the runs: tests on where they end, and a reason where one is due.
Ends = Callable[[Config, int, list[Compared]], tuple[list[Test], str]]


def _sizes(config: Config, d: int, ends: Floats) -> list[Test]:
    """1 − correlation of the whole prediction, against what is known of it.

    relu: the published readings, which are means; twice the reading allows for other draws, for
    the unknown width of the published head and for our steps. quadratic: no reading is published.
    The logits of dropped tokens lie at R + log(γ-gap) instead of R, so that they spread by
    ½ log(2/clear) to both sides at most, and R ≥ log(1/high) once attention on them is below
    `high`: the part of W off the prediction is about the ratio of the two.
    """
    what = f"1 − correlation, {NAMES[0]}"
    mean = float(ends.mean()) if len(ends) else np.nan
    median = float(np.median(ends)) if len(ends) else np.nan
    if config["head"] == "relu":
        return [
            at_most(f"d = {d}: mean {what}", mean, 2 * config["away"][str(d)]),
            noted(f"d = {d}: median {what}", median),
        ]
    off = 0.5 * np.log(2 / config["clear"]) / np.log(1 / config["filter"][1])
    return [
        noted(f"d = {d}: mean {what}", mean),
        at_most(f"d = {d}: median {what}", median, round(0.5 * float(off) ** 2, 4)),
    ]


def check(config: Config, result: Result, *, ends_of: Ends) -> Finding:
    """The prediction with the finite part is nearest, then the direction, then one token.

    ends_of: what is asked, for the head at hand, of the ends of the runs of one dimension.
    """
    tests: list[Test] = []
    gaps, judged, total, infeasible = [0.0], 0, 0, 0
    reasons: list[str] = []
    for d in config["dimensions"]:
        runs = compared(config, result, d)
        total += config["seeds"]
        feasible = [r for r in runs if r.best["direction"].status != "inseparable"]
        infeasible += len(runs) - len(feasible)
        judged += len(feasible)
        gaps += [worst_gap(list(r.best.values())) for r in feasible]
        ends = np.array([r.away[-1] for r in feasible]).reshape(-1, 3)
        several = np.array([r.best["finite"].problem.ties > 0 for r in feasible], dtype=bool)
        # Where each input keeps one token the three predictions are one. Of the others few are
        # accepted, and a single one that is not settled yet outweighs a mean.
        middle = np.median(ends[several], axis=0) if several.any() else np.full(3, np.nan)
        tests += [
            noted(f"d = {d}: runs judged", len(feasible)),
            noted(f"d = {d}: of them with several tokens kept", int(several.sum())),
            *_sizes(config, d, ends[:, 0]),
            at_least(
                f"d = {d}: median, several kept, of {NAMES[1]} less that of {NAMES[0]}",
                middle[1] - middle[0],
                0.0,
            ),
            # Far nearer: less than half as far.
            at_least(
                f"d = {d}: median, several kept, of {NAMES[2]} over that of {NAMES[1]}",
                middle[2] / middle[1],
                config["times"],
            ),
        ]
        more, reason = ends_of(config, d, feasible)
        tests += more
        reasons += [reason] if reason else []
    tests.append(at_most("largest certified gap", max(gaps), norm_of("frobenius").tolerance))
    premises = (
        f"{judged} of {total} runs judged: some input drops a token, {config['premise']}; "
        f"{infeasible} infeasible"
    )
    return Finding(tuple(tests), premises, judged, max(gaps), "; ".join(reasons))


def plot(config: Config, result: Result) -> Figure:
    """1 − correlation of the three predictions over the steps, runs that keep several tokens."""
    from attsvm.claims.shared.drawing import CYCLE, band, panels

    dims: list[Any] = config["dimensions"]
    figure, axes = panels(len(dims), sharey=True, figsize=(max(10.0, 3 * len(dims)), 4.6))
    for ax, d in zip(axes, dims, strict=True):
        runs = [r for r in compared(config, result, d) if r.best["finite"].problem.ties]
        away = np.array([r.away for r in runs]).reshape(len(runs), -1, 3)
        for k, name in enumerate(NAMES):
            if len(runs):
                band(
                    ax,
                    result[f"{d}.steps"],
                    np.maximum(away[:, :, k].T, 1e-9),
                    colour=CYCLE[k],
                    label=name,
                )
        ax.set(xscale="log", yscale="log", xlabel="step", title=f"d = {d}: {len(runs)} runs")
    axes[0].set_ylabel("1 − correlation (median, middle half)")
    axes[0].legend(frameon=False, fontsize=7.5, loc="lower left")
    return figure
