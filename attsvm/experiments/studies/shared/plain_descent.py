"""Plain descent with a step of at most 1/L_W: its instances, and where it is proved to end.

docs/global-statements.md has the derivations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import softmax

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.experiments.families import compact_sphere, equal_scored
from attsvm.experiments.group import Drawn, thinned
from attsvm.experiments.studies.shared.random_instances import best_problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.convergence.prover import prover

# best, elsewhere: proved to keep the best tokens for ever, or other ones; open: not proved.
FinalState = Literal["best", "elsewhere", "open"]
# A start that contradicts is sought at these multiples of its direction.
_MULTIPLES = 2.0 ** np.arange(20)


class BelowLevel(NamedTuple):
    """n(L − L⋆), the level that it must stay below, and the least attention on a best token."""

    excess: float
    allowed: float
    least: float


def smoothness(tokens: Tokens, v: Floats) -> float:
    """L_W = (1/n) Σ ‖v‖‖z‖²‖X‖³(‖v‖‖X‖/4 + 3): the slope of the gradient is at most this.

    Theory: [tarzanagh2023svm], first version, Lemma 4, with M0 = 1/4 and M1 = 1 of the logistic
    loss.
    """
    X = np.linalg.norm(np.asarray(tokens.X), ord=2, axis=(1, 2))
    z, size = np.linalg.norm(tokens.queries, axis=1), float(np.linalg.norm(v))
    return float(np.mean(size * z**2 * X**3 * (size * X / 4 + 3)))


class Descent(NamedTuple):
    """Runs of B instances at R of their records: steps (R,), W (R, B, d, dq), loss (R, B)."""

    steps: Ints
    W: Floats
    loss: Floats


def own_descent(
    tokens: Sequence[Tokens], heads: Floats, W: Floats, *, steps: int, records: int = 25
) -> Descent:
    """Plain descent of each instance with its own η = 1/L_W, from W (B, d, dq).

    A step of 1 on W/√η, with queries √η z, is a step of η on W.
    """
    root = np.sqrt([1 / smoothness(t, v) for t, v in zip(tokens, heads, strict=True)])
    scaled = [
        Tokens(t.X, queries=r * t.queries, labels=t.labels)
        for t, r in zip(tokens, root, strict=True)
    ]
    each = root[:, None, None]
    path = train(scaled, head=heads, optimizer="gd", lr=1.0, steps=steps, init={"W": W / each})
    rows = thinned(path.steps, records)
    return Descent(path.steps[rows], path.weights["W"][rows] * each, path.loss[rows])


def random_starts(
    seeds: Sequence[int], shape: Sequence[int], *, widest: float, start: int
) -> Floats:
    """Starts (B, d, d) N(0, deviation²), their deviations uniform up to the widest."""
    d, draws = shape[2], [np.random.default_rng([start, seed, *shape]) for seed in seeds]
    return np.stack([widest * draw.uniform() * draw.standard_normal((d, d)) for draw in draws])


def scored(seeds: Sequence[int], scores: str, n: int, T: int, d: int) -> Drawn:
    """free: scores as drawn; equal: all but the best of an input are equal."""
    if scores == "free":
        return compact_sphere(seeds, n, T, d)
    pairs = [equal_scored((n, T, d), seed) for seed in seeds]
    return Drawn([t for t, _ in pairs], np.stack([v for _, v in pairs]))


def two_inputs() -> tuple[Tokens, Floats]:
    """Two inputs of two tokens with key differences (1, 0) and (−2, 1), score gaps 1 and one query:
    the smallest instance of equal scores on which some starts end elsewhere. W^mm is (1, 3)."""
    X = np.array([[[1.0, 0.0], [0.0, 0.0]], [[-2.0, 1.0], [0.0, 0.0]]])
    z = np.array([[1.0, 0.0], [1.0, 0.0]])
    return Tokens(X, queries=z, labels=np.ones(2)), np.array([1.0, 3.0])


def three_inputs() -> tuple[Tokens, Floats]:
    """Three inputs of two tokens and one query, whose first gradient at W = 0 prefers every best
    token, and from which plain descent with short steps loses the third one again.

    Key differences (−2.5, −3, 2), (−1.5, 1.5, 0.5), (4, −4, 0.125); scores are third coordinates.
    """
    apart = np.array([[-2.5, -3.0, 2.0], [-1.5, 1.5, 0.5], [4.0, -4.0, 0.125]])
    X = np.stack([apart, np.zeros_like(apart)], axis=1)
    z = np.tile([1.0, 0.0, 0.0], (3, 1))
    return Tokens(X, queries=z, labels=np.ones(3)), np.array([0.0, 0.0, 1.0])


def second_bound(R: float, lr: float) -> float:
    """A bound on the second coordinate for ever, of plain descent on `two_inputs` from (R, 0).

    The least w with (1 + η/16) r/(1 − 2r) ≤ w, r = κ e^(w − R), κ = (1 + e)(1 + e^−R)²/2;
    infinite where there is none with r < 1/2.
    """
    kappa = (1 + np.e) * (1 + np.exp(-R)) ** 2 / 2
    w = 0.0
    for _ in range(10_000):
        r = kappa * np.exp(w - R)
        if r >= 0.5:
            return float("inf")
        new = (1 + lr / 16) * r / (1 - 2 * r)
        if new <= w * (1 + 1e-15):
            break
        w = new
    # A little above the fixed point, where the inequality holds with room for rounding.
    w *= 1 + 1e-9
    r = kappa * np.exp(w - R)
    return float(w) if r < 0.5 and (1 + lr / 16) * r / (1 - 2 * r) <= w else float("inf")


def leading_subsets(tokens: Tokens, v: Floats) -> list[tuple[Bools, Floats]]:
    """The sets S of inputs, and the solutions V of their best tokens, under which the best token of
    every other input is behind by more than the margin."""
    X, z, labels = np.asarray(tokens.X), tokens.queries, np.asarray(tokens.labels)
    top, n = Selection.best(tokens, v).indices, tokens.n
    out = []
    for size in range(1, n):
        for chosen in combinations(range(n), size):
            inside = np.isin(np.arange(n), chosen)
            part = Tokens(X[inside], queries=z[inside], labels=labels[inside])
            V = solve(best_problem(part, v)).W
            if V is None:
                continue
            logits = np.einsum("ntd,de,ne->nt", X, V, z)
            lead = logits.max(axis=1) - logits[np.arange(n), top]
            if (lead[~inside] > 1).all():
                out.append((inside, np.asarray(V)))
    return out


def contradicting_start(tokens: Tokens, v: Floats) -> Floats:
    """The shortest start R V found, V of `leading_subsets`, that is proved to tend elsewhere for
    every η ≤ 1/L_W; nan where there is none."""
    made = prover(tokens, head=v, optimizer="gd", lr=1 / smoothness(tokens, v))
    top = Selection.best(tokens, v).indices
    shape = (int(tokens.X.shape[2]), int(tokens.queries.shape[1]))
    start, least = np.full(shape, np.nan), np.inf
    for _, V in leading_subsets(tokens, v):
        for multiple in _MULTIPLES:
            W = multiple * V
            size = float(np.linalg.norm(W))
            if size >= least:
                break
            proof = made.prove(W, explain=False)
            if proof.proved and (proof.selection != top).any():
                start, least = W, size
                break
    return start


def proved_end(tokens: Tokens, v: Floats, W: Floats, *, best: Ints | None = None) -> FinalState:
    """Where plain descent with steps up to 1/L_W is proved to end from W on.

    best: the tokens (n,) that count as the best ones, unless those of highest score do.
    """
    if not np.isfinite(W).all():
        return "open"
    made = prover(tokens, head=v, optimizer="gd", lr=1 / smoothness(tokens, v))
    proof = made.prove(W, explain=False)
    if not proof.proved:
        return "open"
    best = Selection.best(tokens, v).indices if best is None else best
    return "best" if bool((proof.selection == best).all()) else "elsewhere"


def _read(tokens: Tokens, v: Floats, W: Floats) -> tuple[Floats, Floats, Floats]:
    """The attention (n, T), the scores (n, T) and what is read of each input (n,)."""
    X = np.asarray(tokens.X)
    s = softmax(np.einsum("ntd,de,ne->nt", X, W, tokens.queries), axis=1)
    scores = np.asarray(tokens.labels)[:, None] * (X @ v)
    return s, scores, (s * scores).sum(axis=1)


def below_level(tokens: Tokens, v: Floats, W: Floats) -> BelowLevel:
    """Where W stands with respect to the loss level, of the logistic loss, by the definitions."""
    s, scores, f = _read(tokens, v, W)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    lost, middle, least = (np.logaddexp(0.0, -x) for x in (f, (first + second) / 2, first))
    return BelowLevel(
        float((lost - least).sum()),
        float((middle - least).min()),
        float(s[np.arange(len(s)), scores.argmax(axis=1)].min()),
    )


def loss_and_pull(tokens: Tokens, v: Floats, W: Floats) -> tuple[float, Floats]:
    """L(W) − L⋆ and −∇L(W) (d, dq) of the logistic loss, by the definitions."""
    s, scores, f = _read(tokens, v, W)
    excess = np.logaddexp(0.0, -f) - np.logaddexp(0.0, -scores.max(axis=1))
    weights = s * (scores - f[:, None]) / (1 + np.exp(f))[:, None] / tokens.n
    pull = np.einsum("nt,ntd,ne->de", weights, np.asarray(tokens.X), tokens.queries)
    return float(excess.mean()), np.asarray(pull)


def least_descent_within(tokens: Tokens, v: Floats, r: float) -> float:
    """A bound from below on −⟨∇L(W), W^mm⟩ over ‖W‖ ≤ r, where every margin is tight or all but the
    best score of an input are equal: (1/n) Σ |ℓ'(γ_opt)| (γ_opt − γ₂) s(1 − s), s the attention
    on the best token, whose logits differ from the others by at most r ‖z‖ max ‖x_opt − x_t‖."""
    X, z, y = np.asarray(tokens.X), tokens.queries, np.asarray(tokens.labels)
    scores = y[:, None] * (X @ v)
    rows, top = np.arange(tokens.n), scores.argmax(axis=1)
    order = np.sort(scores, axis=1)
    apart = np.linalg.norm(X - X[rows, top][:, None], axis=2).max(axis=1)
    reach = np.exp(np.minimum(r * apart * np.linalg.norm(z, axis=1), 700.0))
    others = scores.shape[1] - 1
    low, high = 1 / (1 + others * reach), 1 / (1 + others / reach)
    spread = np.minimum(low * (1 - low), high * (1 - high))
    slope = 1 / (1 + np.exp(order[:, -1]))
    return float(np.mean(slope * (order[:, -1] - order[:, -2]) * spread))


def reached_norm(tokens: Tokens, v: Floats, *, size: float, start: float, way: float) -> float:
    """The norm that plain descent has reached once η times the steps is `way`, from ‖W(0)‖ = start.

    The root of way · c(r) = (r + start)‖W^mm‖, c(r) of `least_descent_within`, size = ‖W^mm‖: were
    all norms below it, ⟨W, W^mm⟩ would have grown by more than it can.
    """
    low, high = 0.0, 1e3
    for _ in range(100):
        middle = 0.5 * (low + high)
        grows = way * least_descent_within(tokens, v, middle) > (middle + start) * size
        low, high = (middle, high) if grows else (low, middle)
    return low
