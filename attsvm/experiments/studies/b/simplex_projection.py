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
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.statements.losses import best_attention
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Quadratic

_COUNTS = ("judged", "wrong", "from_the_best", "wrong_from_the_best", "one", "tight", "broken")


def exact_counts(seed: int) -> dict[str, int]:
    """How often the lemma's premise holds and its conclusion does not, on one draw in rationals.

    gap_τ = γ_τ − γ_{τ+1} of scores sorted downwards. from_the_best: the same with γ_1 − γ_{τ+1}
    in its place. one: λ ≤ gap_1/2 and more than one nonzero, or λ above it and one. tight:
    a count that the sums above do not give. broken: an attention that does not sum to 1.
    """
    found = dict.fromkeys(_COUNTS, 0)
    draw = np.random.default_rng([seed, 6])
    T = int(draw.integers(3, 11))
    scores = sorted((Fraction(int(x)) for x in draw.integers(0, 1000, T)), reverse=True)
    share = Fraction(int(draw.integers(1, 100)), 100)
    gaps = [a - b for a, b in pairwise(scores)]
    if min(gaps) == 0:
        return found
    for tau in range(2, T):
        wide = scores[0] - scores[tau]
        for name, wrong, gap in (
            ("judged", "wrong", gaps[tau - 1]),
            ("from_the_best", "wrong_from_the_best", wide),
        ):
            low, high = gaps[0], tau * gap / 2
            if not high > low:
                continue
            penalty = low + share * (high - low)
            s = best_attention(scores, penalty)
            count = sum(x > 0 for x in s)
            found[name] += 1
            found[wrong] += not 2 <= count <= tau
            found["tight"] += not _by_sums(scores, penalty, count)
            found["broken"] += sum(s) != 1
    for penalty in (share * gaps[0] / 2, gaps[0] / 2, gaps[0] / 2 * (1 + share)):
        several = sum(x > 0 for x in best_attention(scores, penalty)) > 1
        found["one"] += several != (2 * penalty > gaps[0])
    return found


def _by_sums(scores: list[Fraction], penalty: Fraction, k: int) -> bool:
    """Whether the sums of the module's docstring give k nonzeros."""
    below = sum(g - scores[k - 1] for g in scores[:k]) < 2 * penalty
    last = k == len(scores)
    return bool(below and (last or 2 * penalty <= sum(g - scores[k] for g in scores[: k + 1])))


def instance(T: int, clear: float, seed: int) -> tuple[Tokens, Floats, int]:
    """Orthonormal tokens, a head with λ = 1 inside the lemma's premise, and its τ.

    Drawn until λ is `clear` from both ends of the premise and every nonzero of s⋆ is above `clear`.
    """
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
    """The best attention at λ = 1, of scores sorted downwards."""
    return np.array(best_attention([Fraction(x) for x in scores], Fraction(1)), dtype=float)


def measure(group: Group, T: int, clear: float, every: int) -> Parts:
    """Counts in rationals on the draw of each seed, and plain descent on W from zero for each
    `every`-th: how far its end is from the projection (away) and may be by its gap (reach), and
    whether it keeps as many tokens as the projection, 2 to τ (right)."""
    rows: list[dict[str, Any]] = []
    blank = {"away": np.nan, "reach": np.nan, "right": False}
    for seed in group.seeds:
        rows.append({"seed": seed, "part": "exact", **exact_counts(seed), **blank})
    trained = [seed for seed in group.seeds if seed % every == 0]
    made = [instance(T, clear, seed // every) for seed in trained]
    if made:
        path = train(
            [tokens for tokens, _, _ in made],
            head=Quadratic(np.stack([v for _, v, _ in made]), 1.0),
            loss="linear", optimizer="gd", lr=group.run["lr"], steps=group.run["steps"],
        )  # fmt: skip
        for seed, (tokens, v, tau), W in zip(trained, made, path.weights["W"][-1], strict=True):
            scores, s = (np.asarray(tokens.X) @ v)[0], attention(tokens, W)[0]
            order, g = np.argsort(-scores), scores - 2 * s
            best = _projection(scores[order])
            count = int((s > clear / 2).sum())
            rows.append({
                "seed": seed, "part": "descent", **dict.fromkeys(_COUNTS, 0),
                "away": float(np.linalg.norm(s[order] - best)),
                "reach": float(np.sqrt(max(g.max() - g @ s, 0.0))),
                "right": count == int((best > 0).sum()) and 2 <= count <= tau,
            })  # fmt: skip
    return rows


def checks(table: Table, thresholds: Any) -> Checks:
    """The count in rationals on every draw; descent ends at the projection."""
    draws = table[table.part == "exact"]
    exact = draws[list(_COUNTS)].sum()
    yield equals("τ gap_τ/2 > λ > gap_1 and not 2 to τ nonzeros, exact", exact.wrong, 0)
    yield equals("best attention that does not sum to 1, exact", exact.broken, 0)
    yield equals("counts that the sums of score differences do not give, exact", exact.tight, 0)
    yield equals("one nonzero without λ ≤ gap_1/2, or more with it, exact", exact.one, 0)
    yield at_least("of those not 2 to τ nonzeros: the gap is that of neighbours",
                   exact.wrong_from_the_best, 1)  # fmt: skip
    runs = table[table.part == "descent"]
    yield equals("descent: ends farther from the projection than their gap allows",
                 (runs.away > runs.reach * (1 + 1e-9) + 1e-12).sum(), 0)  # fmt: skip
    yield at_most("descent: largest distance that the gap leaves", runs.reach.max(),
                  thresholds["reach"])  # fmt: skip
    yield equals("descent: ends with another count of tokens, or not 2 to τ", (~runs.right).sum(),
                 0)  # fmt: skip
    yield Premises(
        int(exact.judged) and len(runs),
        f"{exact.judged} pairs of scores and τ from {len(draws)} draws, λ inside the premise; "
        f"descent on {len(runs)} instances",
    )


_LR, _T, _CLEAR = 2.0, 6, 0.1


def _allowed(steps: int) -> float:
    """How far from the projection a run may end.

    The attention of a token that is dropped obeys ds/dt = −s² (ν − g), so that η t s (ν − g)
    tends to 1: together the T tokens leave a gap of at most T/(η t); twice that for the start.
    """
    return round(float(np.sqrt(2 * _T / (_LR * steps))), 4)


STUDY = Study(
    id="B.simplex-projection",
    title="A quadratic head keeps a few tokens: how many",
    kind="theorem",
    source="paper",
    statement="One input of orthonormal tokens, head v·o − λ‖o‖² and loss −h: if τ gap_τ/2 > λ > "
    "gap_1, with gap_τ = γ_τ − γ_{τ+1} of the scores sorted downwards, the best attention has 2 to "
    "τ nonzeros. Exactly, it is the point of the simplex next to γ/(2λ), and λ > gap_1/2 is what "
    "more than one nonzero needs.",
    run={"T": _T, "clear": _CLEAR, "lr": _LR, "steps": 5000, "every": 75},
    seeds=1500,
    group=500,
    measure=measure,
    checks=checks,
    thresholds={"reach": _allowed(5000)},
    quick={
        "seeds": 150,
        "run": {"steps": 2500, "every": 19},
        "thresholds": {"reach": _allowed(2500)},
    },
    figure={
        "kind": "scatter",
        "where": {"part": "descent"},
        "x": "reach",
        "y": "away",
        "diagonal": True,
        "xlabel": "distance that the gap of the end leaves",
        "ylabel": "distance of the end from the projection",
    },
    theorem="v1, Lemma 6",
)
