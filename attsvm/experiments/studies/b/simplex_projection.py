"""B: with a quadratic head on orthonormal tokens the best attention is a projection.

One input, orthonormal tokens, head h(o) = v·o − λ‖o‖², loss −h. With scores γ_t = v·x_t the head of
attention s is γ·s − λ‖s‖², so that the best attention s⋆ is the point of the simplex next to
γ/(2λ). With γ sorted downwards it has k nonzeros exactly if

    Σ_{j ≤ k} (γ_j − γ_k) < 2λ ≤ Σ_{j ≤ k+1} (γ_j − γ_{k+1}).

At an s the gap q = max_t g_t − g·s of the gradient g = γ − 2λs bounds how far s⋆ is:
λ‖s − s⋆‖² ≤ h(s⋆) − h(s) ≤ q.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

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
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Quadratic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Scores are whole numbers up to this, so that every sum below is exact.
_LARGEST = 1000


def optimum(scores: list[Fraction], penalty: Fraction) -> list[Fraction]:
    """The one s of the simplex that meets the optimality conditions, exactly.

    γ_t − 2λ s_t is some ν where s_t > 0, and γ_t ≤ ν elsewhere: every number of nonzeros is tried
    on scores sorted downwards.
    """
    for k in range(1, len(scores) + 1):
        nu = (sum(scores[:k], Fraction(0)) - 2 * penalty) / k
        if scores[k - 1] > nu and all(g <= nu for g in scores[k:]):
            return [(g - nu) / (2 * penalty) if g > nu else Fraction(0) for g in scores]
    raise ArithmeticError("no attention meets the optimality conditions")


def exact_counts(config: Config) -> dict[str, int]:
    """How often the lemma's premise holds and its conclusion does not, in rationals.

    gap_τ = γ_τ − γ_{τ+1} of scores sorted downwards. "from the best": the same with γ_1 − γ_{τ+1}
    in its place. "one": λ ≤ gap_1/2 and more than one nonzero, or λ above it and one. "tight":
    a count that the sums above do not give.
    """
    names = ("judged", "wrong", "from the best", "wrong from the best", "one", "tight", "broken")
    found = dict.fromkeys(names, 0)
    for seed in range(config["start"], config["start"] + config["draws"]):
        draw = np.random.default_rng([seed, 6])
        T = int(draw.integers(3, 11))
        scores = sorted((Fraction(int(x)) for x in draw.integers(0, _LARGEST, T)), reverse=True)
        share = Fraction(int(draw.integers(1, 100)), 100)
        gaps = [a - b for a, b in pairwise(scores)]
        if min(gaps) == 0:
            continue
        for tau in range(2, T):
            wide = scores[0] - scores[tau]
            for name, gap in (("", gaps[tau - 1]), (" from the best", wide)):
                low, high = gaps[0], tau * gap / 2
                if not high > low:
                    continue
                penalty = low + share * (high - low)
                s = optimum(scores, penalty)
                count = sum(x > 0 for x in s)
                found[name.strip() or "judged"] += 1
                found[f"wrong{name}"] += not 2 <= count <= tau
                found["tight"] += not _by_sums(scores, penalty, count)
                found["broken"] += sum(s) != 1
        for penalty in (share * gaps[0] / 2, gaps[0] / 2, gaps[0] / 2 * (1 + share)):
            several = sum(x > 0 for x in optimum(scores, penalty)) > 1
            found["one"] += several != (2 * penalty > gaps[0])
    return found


def _by_sums(scores: list[Fraction], penalty: Fraction, k: int) -> bool:
    """Whether the sums of the module's docstring give k nonzeros."""
    below = sum(g - scores[k - 1] for g in scores[:k]) < 2 * penalty
    last = k == len(scores)
    return bool(below and (last or 2 * penalty <= sum(g - scores[k] for g in scores[: k + 1])))


def instance(config: Config, seed: int) -> tuple[Tokens, Floats, int]:
    """Orthonormal tokens, a head with λ = 1 inside the lemma's premise, and its τ.

    Drawn until λ is `clear` from both ends of the premise and every nonzero of s⋆ is above `clear`.
    """
    T, clear = config["T"], config["clear"]
    draw = np.random.default_rng([seed, 7])
    X = np.linalg.qr(draw.standard_normal((T, T)))[0]
    z = draw.standard_normal((1, T))
    while True:
        scores = np.sort(draw.uniform(0.0, 3.0, T))[::-1]
        gaps = scores[:-1] - scores[1:]
        taus = [t for t in range(2, T) if t * gaps[t - 1] / 2 > 1 + clear > 1 - clear > gaps[0]]
        s = _projection(scores)
        if taus and s[s > 0].min() > clear and (s == 0).any():
            v = X.T @ draw.permutation(scores)
            tokens = Tokens(X[None], queries=z / np.linalg.norm(z), labels=np.ones(1))
            return tokens, v, taus[0]


def _projection(scores: Floats) -> Floats:
    """(γ − ν)₊/2, the best attention at λ = 1; ν by halving."""
    low, high = float(scores.min()) - 2.0, float(scores.max())
    for _ in range(200):
        nu = 0.5 * (low + high)
        low, high = (nu, high) if np.maximum(scores - nu, 0.0).sum() > 2.0 else (low, nu)
    return np.maximum(scores - high, 0.0) / 2


def run(config: Config) -> Result:
    """Plain descent on W from zero on every instance."""
    made = [instance(config, seed) for seed in seeds_of(config)]
    path = train(
        [tokens for tokens, _, _ in made],
        head=Quadratic(np.stack([v for _, v, _ in made]), 1.0),
        loss="linear",
        optimizer="gd",
        lr=config["lr"],
        steps=config["steps"],
    )
    rows = np.unique(np.linspace(0, len(path.steps) - 1, 24).round().astype(int))
    return {"steps": path.steps[rows], "W": path.weights["W"][rows]}


def _ends(config: Config, result: Result) -> list[tuple[Floats, Floats, Floats, int]]:
    """Scores, attention at the end, best attention and τ of every instance."""
    out = []
    for b, seed in enumerate(seeds_of(config)):
        tokens, v, tau = instance(config, seed)
        scores = (np.asarray(tokens.X) @ v)[0]
        s = attention(tokens, result["W"][-1, b])[0]
        out.append((scores, s, _projection(scores), tau))
    return out


def check(config: Config, result: Result) -> Finding:
    """The count in rationals on every draw; descent ends at the projection."""
    exact = exact_counts(config)
    outside = away = wide = miscounted = 0.0
    for scores, s, best, tau in _ends(config, result):
        g = scores - 2 * s
        reach = float(np.sqrt(max(g.max() - g @ s, 0.0)))
        apart = float(np.linalg.norm(s - best))
        outside += apart > reach * (1 + 1e-9) + 1e-12
        away, wide = max(away, apart), max(wide, reach)
        count = int((s > config["clear"] / 2).sum())
        miscounted += count != int((best > 0).sum()) or not 2 <= count <= tau
    # The attention of a token that is dropped obeys ds/dt = −s² (ν − g), so that η t s (ν − g)
    # tends to 1: together the T tokens leave a gap of at most T/(η t); twice that for the start.
    allowed = float(np.sqrt(2 * config["T"] / (config["lr"] * config["steps"])))
    tests = (
        equals("τ gap_τ/2 > λ > gap_1 and not 2 to τ nonzeros, exact", exact["wrong"], 0),
        equals("best attention that does not sum to 1, exact", exact["broken"], 0),
        equals("counts that the sums of score differences do not give, exact", exact["tight"], 0),
        equals("one nonzero without λ ≤ gap_1/2, or more with it, exact", exact["one"], 0),
        noted("premises met, of all draws and τ", exact["judged"]),
        noted("the same with gap_τ = γ_1 − γ_{τ+1}", exact["from the best"]),
        at_least(
            "of those not 2 to τ nonzeros: the gap is that of neighbours",
            exact["wrong from the best"],
            1,
        ),
        equals("descent: ends farther from the projection than their gap allows", outside, 0),
        at_most("descent: largest distance that the gap leaves", wide, round(allowed, 4)),
        noted("descent: largest distance from the projection", away),
        equals("descent: ends with another count of tokens, or not 2 to τ", miscounted, 0),
    )
    count = len(seeds_of(config))
    premises = (
        f"{exact['judged']} pairs of scores and τ from {config['draws']} draws of 3 to 10 whole "
        f"scores, λ inside the premise; descent on {count} instances of {config['T']} tokens"
    )
    return Finding(tests, premises, exact["judged"] and count, 0.0)


def plot(config: Config, result: Result) -> Figure:
    """The attention at the end over that of the projection; the count of nonzeros over λ."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    for k, (scores, s, best, _) in enumerate(_ends(config, result)):
        token, line = ("a token", "an instance") if k == 0 else ("", "")
        left.plot(best, s, "o", markersize=4, alpha=0.6, color=CYCLE[0], label=token)
        penalties = np.geomspace(0.05, 20.0, 120)
        counts = [(_projection(scores / lam) > 0).sum() for lam in penalties]
        right.plot(penalties, counts, color=CYCLE[1], linewidth=0.8, alpha=0.5, label=line)
    left.plot([0, 1], [0, 1], color=CYCLE[6], linewidth=0.8, linestyle=":", label="equal")
    left.set(
        xlabel="best attention: the projection of γ/(2λ)",
        ylabel=f"attention after {config['steps']} steps",
        title="Descent ends at the projection",
    )
    right.axvline(1.0, color=CYCLE[6], linewidth=0.8, linestyle=":", label="λ of the runs")
    right.set(
        xscale="log",
        xlabel="λ",
        ylabel="tokens with attention",
        title="How many tokens the projection keeps",
    )
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=7.5, loc="lower right")
    return figure


_FULL = {
    "draws": 1500,
    "start": 0,
    "T": 6,
    "seeds": 20,
    "clear": 0.1,
    "lr": 2.0,
    "steps": 5000,
}

CLAIM = Claim(
    id="B.simplex-projection",
    title="A quadratic head keeps a few tokens: how many",
    kind="theorem",
    trust="read",
    statement="One input of orthonormal tokens, head v·o − λ‖o‖² and loss −h: if τ gap_τ/2 > λ > "
    "gap_1, with gap_τ = γ_τ − γ_{τ+1} of the scores sorted downwards, the best attention has 2 to "
    "τ nonzeros. Exactly, it is the point of the simplex next to γ/(2λ), and λ > gap_1/2 is what "
    "more than one nonzero needs.",
    full=_FULL,
    quick={**_FULL, "draws": 150, "seeds": 8, "steps": 2500},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, Lemma 6",
)
