"""Heads that keep several tokens of an input: what both multi-token studies share.

Kept tokens O_i have a limit of their attention, the others lose it. Then, with logits that differ
by log-ratios of the limit inside O_i (finite part) and by R or more outside (direction),

    W ≈ W^fin + R W^mm

is proposed. R is chosen by least squares, or so that the correlation with W is largest.

With the limit taken from the run's own attention at W, as in the released code, W^fin is the
projection of W on the span of its ties. Then the two fits are one, and the sum is never farther
from W than the direction alone: only a limit from elsewhere tests it, a closed form or an earlier
step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.datasets.instances import sphere_arrays
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.measures import correlation
from attsvm.training.heads import Head, Quadratic, Relu

PARTS = ("finite", "direction", "one")
# The predictions of W that are compared: two fits of one proposal, and two without a finite part.
PREDICTIONS = {
    "least_squares": "finite part + direction, least squares",
    "largest_correlation": "finite part + direction, largest correlation",
    "direction": "direction alone",
    "one_token": "one token",
}
# Heads by name: relu as it is read, relu-v as in the released code.
HEADS = {"relu": "1ᵀReLU(o)", "relu-v": "1ᵀReLU(Vᵀo)", "quadratic": "v·o − λ‖o‖²"}
# λ of the quadratic head, and how far its scores are from the level at which a token is dropped.
PENALTY, CLEAR = 0.3, 0.05
# Attention below the first has left a token, above the second it stays; runs with any between, as
# in the released code, are not judged.
LOW, HIGH = 1e-6, 1e-3


def instances(
    head: str, d: int, seeds: Sequence[int], n: int = 3, T: int = 4
) -> tuple[list[int], list[Tokens], Head]:
    """The seeds, the instances and their heads; with a quadratic head those within its premises."""
    made, stack, heads = [], [], []
    for seed in seeds:
        a = sphere_arrays(n, T, d, seed=seed)
        draw = np.random.default_rng([seed, d])
        X, y = a["X"], a["y"]
        if head == "quadratic":
            # Orthonormal tokens: the nearest to the draw.
            U, _, Vt = np.linalg.svd(X, full_matrices=False)
            tokens = Tokens(U @ Vt, queries=a["z"], labels=np.ones(n))
            if not clear(tokens, a["v"]):
                continue
            heads.append(a["v"])
        else:
            V = draw.standard_normal((d, d))
            heads.append(np.eye(d) if head == "relu" else V / np.linalg.norm(V))
            if (y > 0).all():  # published: at least one label is −1
                y[draw.integers(n)] = -1.0
            tokens = Tokens(X, queries=a["z"], labels=y)
        made.append(seed)
        stack.append(tokens)
    rows = np.array(heads)
    if head == "quadratic":
        return made, stack, Quadratic(rows.reshape(-1, d), PENALTY)
    return made, stack, Relu(rows)


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


def clear(tokens: Tokens, v: Floats) -> bool:
    """Whether the closed form drops some token, and none nearer than CLEAR to the edge."""
    limit = water_level(tokens, v, PENALTY)
    scores = np.asarray(tokens.X) @ v
    level = (scores - 2 * PENALTY * limit)[np.arange(tokens.n), limit.argmax(axis=1)]
    near = np.abs(scores - level[:, None]) < CLEAR
    return not near.any() and not (limit > 0).all()


def kept_tokens(tokens: Tokens, head: Head, b: int, s: Floats) -> Bools | None:
    """O_i as booleans (n, T); None when the run is outside the premises.

    relu: by the published filter on the attention s, none between the two thresholds and some
    below. quadratic: of the tokens with attention those that the closed form gives some.
    """
    kept = s >= HIGH
    if isinstance(head, Quadratic):
        among = None if kept.all() else kept
        return water_level(tokens, head.v[b], head.penalty, among=among) > 0
    if ((s > LOW) & (s < HIGH)).any():
        return None
    return None if kept.all() else kept


def limit_of(tokens: Tokens, head: Head, b: int, kept: Bools, s: Floats) -> Floats:
    """The limit of attention (n, T): the closed form among the kept tokens, or else s itself."""
    if isinstance(head, Quadratic):
        return water_level(tokens, head.v[b], head.penalty, among=kept)
    return s


def problems(tokens: Tokens, kept: Bools, s: Floats) -> dict[str, Problem]:
    """The finite part, the direction, and the one-token problem of a run with the limit s."""
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


def off_sum(W: Floats, finite: Floats, direction: Floats) -> tuple[float, float]:
    """1 − correlation of W with W^fin + R W^mm, R by least squares and by largest correlation.

    With a = ⟨W, W^fin⟩ and b = ⟨W, W^mm⟩/‖W^mm‖, and the two parts orthogonal, the correlation is
    at most √(a²/‖W^fin‖² + b²)/‖W‖ where a > 0, and else |b|/‖W‖, in the limit of large |R|: it is
    never below that of the direction alone.
    """
    size, length = float(np.linalg.norm(W)), float(np.linalg.norm(finite))
    unit = direction / np.linalg.norm(direction)
    along = float(np.vdot(W, unit))
    fit = finite + np.vdot(W - finite, unit) * unit
    inner = float(np.vdot(W, finite)) / length if length > 1e-12 else 0.0
    best = np.hypot(inner, along) if inner > 0 else abs(along)
    return 1 - float(np.vdot(W, fit) / np.linalg.norm(fit)) / size, 1 - float(best) / size


def away_from(W: Floats, best: Mapping[str, Certificate]) -> dict[str, Floats]:
    """1 − correlation of W (R, d, d) with each of PREDICTIONS (R,); nan without a solution."""
    finite, direction, one = (best[part].W for part in PARTS)
    if finite is None or direction is None or one is None:
        return {name: np.full(len(W), np.nan) for name in PREDICTIONS}
    parts = (np.asarray(finite), np.asarray(direction))
    fits = np.array([off_sum(M, *parts) if M.any() else (np.nan, np.nan) for M in W])
    alone = (1 - correlation(W, np.asarray(target)) for target in (direction, one))
    return dict(zip(PREDICTIONS, (*fits.T, *alone), strict=True))
