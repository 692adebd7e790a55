"""B: under either premise the loss falls along W^mm everywhere, and the norm of W diverges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
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
    equal_scored,
    loss_and_pull,
    reached_norm,
    safe_step,
)
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.random_instances import attention, best_problem, compact
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.landscape import (
    all_tight,
    descent_along,
    equal_scores,
    least_descent,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The family whose tokens but the best share one score; the others are named by their dimension.
_EQUAL = "equal"
_RECORDS = 25


def _pairs(config: Config, family: str) -> list[tuple[Tokens, Floats]]:
    n, T = config["size"]
    if family == _EQUAL:
        return [equal_scored([n, T, config["equal"]], seed) for seed in seeds_of(config)]
    return [compact([n, T, int(family)], seed) for seed in seeds_of(config)]


def _families(config: Config) -> list[str]:
    return [*map(str, config["dimensions"]), _EQUAL]


def _descended(config: Config) -> list[str]:
    """The families that plain descent is run on: the highest dimension, and equal scores."""
    return [str(max(config["dimensions"])), _EQUAL]


def run(config: Config) -> Result:
    """The point of least descent along W^mm that a search finds, and plain descent from starts of
    several sizes."""
    out: Result = {}
    for family in _families(config):
        best, points, sampled = [], [], []
        for seed, (tokens, v) in zip(seeds_of(config), _pairs(config, family), strict=True):
            best.append(solve(best_problem(tokens, v)))
            if best[-1].W is None:
                points.append(np.full(best[-1].problem.shape, np.nan))
                sampled.append(np.nan)
                continue
            found = least_descent(
                tokens,
                v,
                best[-1],
                radius=config["radius"],
                seed=seed,
                samples=config["samples"],
                rounds=config["rounds"],
            )
            points.append(found.W)
            sampled.append(float(found.sampled))
        out |= {f"{family}.W": np.stack(points), f"{family}.sampled": np.array(sampled)}
        out |= saved_solutions(f"{family}.best", best)
    for family in _descended(config):
        pairs = _pairs(config, family)
        stack, heads = [t for t, _ in pairs], np.stack([v for _, v in pairs])
        for k, size in enumerate(config["starts"]):
            path = train(
                stack,
                head=heads,
                optimizer="gd",
                lr=safe_step(stack, heads),
                steps=config["steps"],
                init=f"normal:{size}",
                seed=config["start"] + k,
            )
            rows = np.unique(np.linspace(0, len(path.steps) - 1, _RECORDS).round().astype(int))
            out |= {
                f"{family}.{k}.steps": path.steps[rows],
                f"{family}.{k}.path": path.weights["W"][rows],
            }
    return out


def _formula(tokens: Tokens, v: Any, W: Floats, D: Floats, *, tight: bool) -> float:
    """(1/n) Σ |ℓ'| s_opt (γ_opt − f) where all margins of D are tight, else
    (1/n) Σ |ℓ'| s_opt gap Σ_t s_t (margin of t), which needs equal scores; logistic loss."""
    s, scores = attention(tokens, W), tokens.scores(v)
    top = Selection.best(tokens, v).indices
    rows = np.arange(tokens.n)
    f = (s * scores).sum(axis=1)
    gaps = scores[rows, top][:, None] - scores
    if tight:
        inner = (s * gaps).sum(axis=1)
    else:
        logits = np.einsum("ntd,de,ne->nt", np.asarray(tokens.X), D, tokens.queries)
        inner = gaps.max(axis=1) * (s * (logits[rows, top][:, None] - logits)).sum(axis=1)
    return float(np.mean(s[rows, top] * inner / (1 + np.exp(f))))


@dataclass
class _Descents:
    """What the points of least descent show, by premise."""

    tight: int = 0
    equal: int = 0
    loose: int = 0
    rising: int = 0
    witnesses: int = 0
    error: float = 0.0
    gap: float = 0.0
    least: dict[str, float] = field(
        default_factory=lambda: {"B.1": np.inf, "B.2": np.inf, "loose": np.inf}
    )

    def add(self, tokens: Tokens, v: Floats, W: Floats, best: Certificate) -> None:
        """One instance with the point that was found on it."""
        self.gap = max(self.gap, worst_gap([best]))
        if best.W is None:
            return
        D = np.asarray(best.W)
        value = descent_along(tokens, v, W, D)
        tight = all_tight(best)
        premise = "B.2" if equal_scores(tokens, v) else "B.1" if tight else "loose"
        if premise == "loose" and tight is None:
            return
        self.least[premise] = min(self.least[premise], value.value)
        if premise == "loose":
            self.loose += 1
            self.witnesses += value.sign < 0
            return
        self.tight += premise == "B.1"
        self.equal += premise == "B.2"
        self.rising += value.sign <= 0
        wanted = _formula(tokens, v, W, D, tight=premise == "B.1")
        self.error = max(self.error, abs(value.value - wanted))


@dataclass
class _Growth:
    """What plain descent shows: counts, and ratios to the bounds of docs/global-statements.md."""

    runs: int = 0
    rises: int = 0
    shrinks: int = 0
    gradient: float = 0.0
    reach: float = np.inf
    grown: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)

    def add(
        self,
        pair: tuple[Tokens, Floats],
        best: Certificate,
        steps: Floats,
        W: Floats,
        lr: float,
    ) -> None:
        """One run, W (R, d, dq) at these steps."""
        tokens, v = pair
        D = np.asarray(best.W)
        size = float(np.linalg.norm(D))
        found = [loss_and_pull(tokens, v, M) for M in W]
        loss = np.array([excess for excess, _ in found])
        pull = np.array([float(np.linalg.norm(g)) for _, g in found])
        norms = np.linalg.norm(W, axis=(1, 2))
        self.runs += 1
        # A loss near its infimum, and a part along W^mm that hardly grows, move by rounding.
        self.rises += bool((np.diff(loss) > 1e-14).any())
        along = np.einsum("rij,ij->r", W, D)
        self.shrinks += bool((np.diff(along) < -1e-12 * (1 + np.abs(along[1:]))).any())
        way = lr * float(steps[-1])
        self.gradient = max(self.gradient, float(pull.min()) ** 2 * way / (2 * loss[0]))
        asked = reached_norm(tokens, v, size=size, start=float(norms[0]), way=way)
        self.reach = min(self.reach, float(norms.max()) / asked if asked > 0 else np.inf)
        self.grown.append(float(norms[-1] - norms[0]))
        self.last.append(float(pull[-1] / pull.max()))


def _descents(config: Config, result: Result) -> _Descents:
    out = _Descents()
    for family in _families(config):
        pairs = _pairs(config, family)
        problems = [best_problem(*p) for p in pairs]
        best = recertified(f"{family}.best", problems, "frobenius", result)
        for (tokens, v), c, W in zip(pairs, best, result[f"{family}.W"], strict=True):
            if c.status != "infeasible":
                out.add(tokens, v, W, c)
    return out


def _growths(config: Config, result: Result) -> _Growth:
    out = _Growth()
    for family in _descended(config):
        pairs = _pairs(config, family)
        lr = safe_step([t for t, _ in pairs], np.stack([v for _, v in pairs]))
        problems = [best_problem(*p) for p in pairs]
        best = recertified(f"{family}.best", problems, "frobenius", result)
        for k in range(len(config["starts"])):
            steps, W = result[f"{family}.{k}.steps"], result[f"{family}.{k}.path"]
            for b, (pair, c) in enumerate(zip(pairs, best, strict=True)):
                inside = all_tight(c) is True or (c.W is not None and equal_scores(*pair))
                if inside and c.W is not None:
                    out.add(pair, c, steps, W[:, b], lr)
    return out


def check(config: Config, result: Result) -> Finding:
    """Descent along W^mm is positive at the worst points under B.1 and under B.2, and plain runs
    keep to the bounds that follow from it."""
    seen, grown = _descents(config, result), _growths(config, result)
    tests = (
        at_least("instances with all margins tight (B.1)", seen.tight, 1),
        at_least("instances with equal scores (B.2)", seen.equal, 1),
        equals("of both, with a point where the loss does not fall along W^mm", seen.rising, 0),
        # Both are sums of a dozen products of size up to 1: rounding of 1e-15 each.
        at_most("largest difference from the derived formulas", seen.error, 1e-13),
        noted("least −⟨∇L, W^mm⟩ found under B.1", seen.least["B.1"]),
        noted("least −⟨∇L, W^mm⟩ found under B.2", seen.least["B.2"]),
        equals("plain runs whose loss rises", grown.rises, 0),
        equals("plain runs whose part along W^mm ever shrinks", grown.shrinks, 0),
        # Both bounds are derived: Σ η‖∇L‖²/2 ≤ L(0) − L⋆, and the growth of ⟨W, W^mm⟩.
        at_most("least ‖∇L‖² along a run, as a share of 2(L − L⋆)/(ηk)", grown.gradient, 1.0),
        at_least("largest norm along a run over the norm it must have reached", grown.reach, 1.0),
        noted("median ‖∇L‖ at the last step over its largest", _median(grown.last)),
        noted("median growth of ‖W‖", _median(grown.grown)),
        # That it can fail is shown by one point.
        at_least(
            "instances with neither premise and a point where the loss rises along W^mm",
            seen.witnesses,
            1,
        ),
        noted("the same as a share of them", seen.witnesses / max(seen.loose, 1)),
        noted("least −⟨∇L, W^mm⟩ found on those", seen.least["loose"]),
        at_most("largest certified gap", seen.gap, norm_of("frobenius").tolerance),
    )
    points = config["samples"] + 128 * config["rounds"]
    premises = (
        f"{seen.tight} instances with all margins tight and {seen.equal} with equal scores, "
        f"{points} points each, ‖W‖ up to {config['radius']:g}; {grown.runs} plain runs with "
        f"η ≤ 1/L_W; {seen.loose} instances with neither premise, judged by whether it can fail"
    )
    return Finding(tests, premises, seen.tight + seen.equal, seen.gap)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def _size(tokens: Tokens, v: Any, W: Floats, D: Floats) -> float:
    """−⟨∇L(W), D⟩ as a share of ‖∇L(W)‖‖D‖, by its parts along the unit matrices."""
    value = descent_along(tokens, v, W, D).value
    basis = np.eye(D.size).reshape(-1, *D.shape)
    gradient = np.array([descent_along(tokens, v, W, E).value for E in basis])
    return value / float(np.linalg.norm(gradient) * np.linalg.norm(D))


def plot(config: Config, result: Result) -> Figure:
    """The least cosine found on each instance, by family, and norms along plain descent."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, level, panels

    figure, axes = panels(2, figsize=(10.0, 4.4), width_ratios=(1.25, 1.0))
    ax = axes[0]
    families = _families(config)
    for k, family in enumerate(families):
        pairs = _pairs(config, family)
        best = recertified(f"{family}.best", [best_problem(*p) for p in pairs], "frobenius", result)
        for j, (p, c, W) in enumerate(zip(pairs, best, result[f"{family}.W"], strict=True)):
            if c.W is None:
                continue
            inside = family == _EQUAL or all_tight(c) is True
            value = _size(*p, W, c.W)
            place = k + 0.5 * (j / max(len(pairs) - 1, 1) - 0.5)
            colour = CYCLE[2] if family == _EQUAL else CYCLE[0] if inside else CYCLE[1]
            ax.plot(place, value, "o" if inside else "x", markersize=5, color=colour)
    level(ax, 0.0)
    ax.plot([], [], "o", color=CYCLE[0], label="all margins tight (B.1)")
    ax.plot([], [], "o", color=CYCLE[2], label="equal scores (B.2)")
    ax.plot([], [], "x", color=CYCLE[1], label="neither")
    ax.set_xticks(range(len(families)), [f"d = {f}" if f != _EQUAL else f for f in families])
    ax.set_yscale("symlog", linthresh=1e-14)
    ax.set(
        xlabel="one mark per instance",
        ylabel="least cosine of −∇L with W^mm found",
        title="Does the loss fall along W^mm everywhere?",
    )
    ax.legend(frameon=False, fontsize=7.5, loc="lower right")
    for k, size in enumerate(config["starts"]):
        for family in _descended(config):
            steps = np.maximum(result[f"{family}.{k}.steps"], 1)
            norms = np.linalg.norm(result[f"{family}.{k}.path"], axis=(2, 3))
            name = "B.2" if family == _EQUAL else "B.1"
            band(axes[1], steps, norms, colour=CYCLE[k], label=f"start {size:g}, {name}")
            if family == _EQUAL:
                axes[1].lines[-1].set_linestyle("--")
    axes[1].set(xscale="log", yscale="log", xlabel="step", ylabel="‖W‖ (median, middle half)")
    axes[1].set_title("Plain descent, η ≤ 1/L_W")
    axes[1].legend(frameon=False, fontsize=7.0, loc="best", ncol=1)
    return figure


_FULL = {
    "size": [3, 4],
    "dimensions": [3, 12, 50, 200],
    "equal": 4,
    "seeds": 24,
    "radius": 30.0,
    "samples": 1000,
    "rounds": 40,
    "starts": [0.1, 1.0, 3.0],
    "start": 0,
    "steps": 20_000,
}

CLAIM = Claim(
    id="B.no-stationary-points",
    title="No stationary point, and the norm diverges",
    kind="theorem",
    trust="read",
    statement="If every token but the best is tight at the max-margin W of the best tokens (B.1), "
    "or all but the best of an input share one score (B.2), the loss has no stationary point, and "
    "plain descent with η ≤ 1/L_W has ∇L → 0 and ‖W‖ → ∞ from any W(0). The reason is −⟨∇L(W), "
    "W^mm⟩ > 0 at every W; with neither premise this can fail.",
    full=_FULL,
    quick={
        **_FULL,
        "dimensions": [3, 200],
        "seeds": 6,
        "samples": 300,
        "rounds": 20,
        "steps": 2000,
    },
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Theorem 3",
)
