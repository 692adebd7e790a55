"""The cones of local regularization paths: a token of lower score stands before all of higher.

For a selection α let O_i be the tokens of input i with lower score than α_i and H_i the others.

    cone_ε(α) = {W : min_i max_{t ∈ O_i} min_{τ ∈ H_i} (x_it − x_iτ)ᵀ W z_i ≥ ε‖W‖}

is a union of convex cones, one for each choice of t_i ∈ O_i in the inputs with H_i not empty. Let
N⋆ be the least norm in it of a W with (x_iα − x_it)ᵀ W z_i ≥ 1 for all t ∈ O_i, met at V⋆. Where
‖W‖ ≥ R₀ the tokens of H_i count for at most half of what the low ones do, and

    |ℓ'|_min g e^{−m}/(2nT) ≤ L(W) − L(α),      L(R V⋆/N⋆) − L(α) ≤ |ℓ'|_max G e^{−R/N⋆}/n

with m the worst of these margins at W (0 if negative), g the least score gap to a low token and G
the sum of all. So a W of the cone whose loss is no larger than that of R V⋆/N⋆ has

    m ≥ R/N⋆ − C,    C = log(2T (G/g) |ℓ'|_max/|ℓ'|_min):

every path of least losses tends to the largest margin in the cone. If W^mm_α lies in the cone then
V⋆ = W^mm_α; if not, N⋆ > ‖W^mm_α‖ and the path stays away from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.regularization_path.ball import BallTask, descend
from attsvm.theory.regularization_path.excess import Excess
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch

# Rounds of the multiplier method, and the weight of a squared violation.
_ROUNDS = 8
_WEIGHT = 10.0
# Rounds of the fixed point of the norm, and where it has settled.
_FIXED = 60
_SETTLED = 1e-9
_NONE = np.empty(0, np.int64)
# How far from a cone, as a share of its ε, a W still counts as inside.
INSIDE = 1e-5


@dataclass(frozen=True, eq=False)
class Orders:
    """The cones of one selection: instance, head, tokens α (n,), O_i and H_i of each input."""

    tokens: Tokens
    v: Floats
    alpha: Ints
    low: list[Ints]
    high: list[Ints]

    @property
    def wrong(self) -> list[int]:
        """The inputs with tokens of higher score."""
        return [i for i, high in enumerate(self.high) if len(high)]

    def choices(self) -> list[tuple[int, ...]]:
        """Every choice of a low token in each of these inputs; none where one has no such token."""
        return list(product(*(self.low[i].tolist() for i in self.wrong)))

    def logits(self, W: Floats) -> Floats:
        """x_itᵀ W z_i (n, T)."""
        X = np.asarray(self.tokens.X)
        return np.asarray(np.einsum("ntd,dq,nq->nt", X, W, self.tokens.queries))

    def depth(self, W: Floats) -> float:
        """min_i max_t min_τ (x_it − x_iτ)ᵀ W z_i; inf without higher tokens, −inf without lower."""
        logits, low, high = self.logits(W), self.low, self.high
        each = [logits[i, low[i]].max(initial=-np.inf) - logits[i, high[i]].max()
                for i in self.wrong]  # fmt: skip
        return float(min(each, default=np.inf))

    def margin(self, W: Floats) -> float:
        """The worst (x_iα − x_it)ᵀ W z_i over low tokens."""
        each = zip(self.logits(W), self.alpha, self.low, strict=True)
        return float(min(row[a] - row[low].max(initial=-np.inf) for row, a, low in each))

    def problem(self, choice: tuple[int, ...], depth: float, *, margin: float = 1.0) -> Problem:
        """Margins over the low tokens, and `depth` of the chosen ones over the high tokens.

        With depth ε and margin 0 a least norm above 1 says that the cone of the choice is empty: a
        W in it of norm 1 would do.
        """
        T, rows = self.tokens.T, []
        for i, low in enumerate(self.low):
            rows += [(i * T + int(self.alpha[i]), i * T + int(t), i, margin) for t in low]
        for i, t in zip(self.wrong, choice, strict=True):
            rows += [(i * T + t, i * T + int(tau), i, depth) for tau in self.high[i]]
        hi, lo, query, b = zip(*rows, strict=True)
        keys = np.asarray(self.tokens.keys).reshape(-1, self.tokens.d)
        ends = (np.array(hi), np.array(lo), np.array(query), np.array(b))
        return Problem(keys, self.tokens.queries, *ends, _NONE, _NONE, _NONE, np.empty(0), width=T)

    def at_size(self, choice: tuple[int, ...], epsilon: float, size: float) -> Problem:
        """The problem that certifies a norm in the choice's cone; inf: that the cone is empty."""
        if np.isinf(size):
            return self.problem(choice, epsilon, margin=0.0)
        return self.problem(choice, epsilon * size)

    def holding(self, W: Floats, depth: float) -> list[tuple[int, ...]]:
        """The choices whose tokens stand before the high ones by this depth at W."""
        count = sum(map(len, self.low))
        return [t for t in self.choices() if self.problem(t, 0.0).margins(W)[count:].min() >= depth]

    def constant(self) -> float:
        """C of the module's docstring."""
        scores = self.tokens.scores(self.v)
        gaps = [scores[i, self.alpha[i]] - scores[i, low] for i, low in enumerate(self.low)]
        total, least = sum(float(g.sum()) for g in gaps), min(float(g.min()) for g in gaps)
        slopes = 1 / (1 + np.exp([scores.min(), scores.max()]))  # |ℓ'|, largest and least
        return float(np.log(2 * self.tokens.T * total / least * slopes[0] / slopes[1]))

    def least_radius(self, epsilon: float) -> float:
        """R₀: from here on the high tokens count for at most half of the low ones."""
        scores, out = self.tokens.scores(self.v), 0.0
        for i in self.wrong:
            own = scores[i, self.alpha[i]]
            least = float((own - scores[i, self.low[i]]).min())
            out = max(out, float(np.log(2 * (scores[i, self.high[i]] - own).sum() / least)))
        return max(out, 0.0) / epsilon

    def loss(self, W: Floats) -> float:
        """log(L(W) − L(α)); −inf where L(W) ≤ L(α)."""
        task = self.task("frobenius")
        above = self.excess()(task.at(W)[0].logs[0])
        return above.log if above.sign > 0 else -np.inf

    def excess(self) -> Excess:
        """The loss above that of α."""
        return Excess.over(self.tokens, self.alpha, self.v, loss_of("logistic"))

    def task(self, norm: str, shift: float = 0.0) -> BallTask:
        """The loss above that of α, to be minimised in balls."""
        return BallTask(
            Batch.of(self.tokens),
            model_of("weight"),
            norm_of(norm),
            loss_of("logistic"),
            head_of(self.v, self.tokens.d),
            self.tokens.d,
            excess=self.excess(),
            shift=shift,
        )


def orders_of(tokens: Tokens, v: Floats, alpha: Ints) -> Orders:
    """The tokens of lower and of other score of each input."""
    scores = tokens.scores(v)
    own = scores[np.arange(tokens.n), alpha]
    others = np.arange(tokens.T)[None] != np.asarray(alpha)[:, None]
    low = [np.flatnonzero(others[i] & (scores[i] < own[i])) for i in range(tokens.n)]
    high = [np.flatnonzero(others[i] & (scores[i] >= own[i])) for i in range(tokens.n)]
    return Orders(tokens, v, np.asarray(alpha), low, high)


def least_in_cone(orders: Orders, choice: tuple[int, ...], epsilon: float, norm: str) -> float:
    """The N with N = least norm of `problem(choice, ε N)`, from below; inf where there is none.

    The least norm grows with N and its ratio to N falls: rounds from below rise to the fixed point.
    The ratio falls to the least norm of depth ε and margin 0: there is none where that is above 1.
    """
    if solve(orders.problem(choice, epsilon, margin=0.0), norm).lower > 1:
        return np.inf
    size = solve(orders.problem(choice, 0.0), norm).upper
    for _ in range(_FIXED):
        if not np.isfinite(size):
            return np.inf
        larger = solve(orders.problem(choice, epsilon * size), norm).upper
        if larger <= size * (1 + _SETTLED):
            break
        size = larger
    return float(size)


def least_loss(
    orders: Orders, choice: tuple[int, ...], epsilon: float, start: Floats, norm: str
) -> Floats:
    """A W of least loss on the sphere of the start's norm, in the convex cone of a choice.

    By the method of multipliers; what is left of a violation is mended by a share of the start,
    which must lie in the cone.
    """
    geometry = norm_of(norm)
    R = float(geometry.value(start))
    far = -2 * orders.loss(start)
    task = orders.task(norm, shift=100.0 + (far if np.isfinite(far) else 0.0))
    cone = orders.problem(choice, 0.0)
    count = sum(len(low) for low in orders.low)
    rows = np.arange(count, cone.m)
    D, z = cone.differences(rows), cone.queries[cone.query[rows]]
    lam, W = np.zeros(len(rows)), start
    for _ in range(_ROUNDS if len(rows) else 1):
        fixed = lam.copy()

        def objective(x: Floats, held: Floats = fixed) -> tuple[float, Floats]:
            value, slope = task(x)
            short = epsilon * R - np.einsum("kd,dq,kq->k", D, x, z)
            push = np.maximum(held + _WEIGHT * short, 0.0)
            G = slope - np.einsum("k,kd,kq->dq", push, D, z)
            return value + float((push**2).sum()) / (2 * _WEIGHT), G

        W = descend(objective, W, R, geometry)
        short = epsilon * R - np.einsum("kd,dq,kq->k", D, W, z)
        lam = np.maximum(lam + _WEIGHT * short, 0.0)
        if short.max(initial=-np.inf) <= 1e-9 * R:
            break
    for share in (0.0, 1e-6, 1e-4, 1e-2, 1.0):
        mended = (1 - share) * W + share * start
        mended *= R / float(geometry.value(mended))
        if orders.depth(mended) >= epsilon * R * (1 - INSIDE):
            break
    return mended if orders.loss(mended) <= orders.loss(start) else start


def locally(best: Certificate, orders: Orders) -> tuple[bool | None, bool]:
    """Whether the selection is locally optimal, None where that is open; and whether every input
    with tokens of higher score has a tight token for sure."""
    rows, known = best.problem.rows, best.tight
    high = np.array([t in orders.high[i] for i, _, t in rows.tolist()])
    covered = all(bool(known.tight[rows[:, 0] == i].any()) for i in orders.wrong)
    if known.tight[high].any():
        return False, covered
    return (True if bool(known.loose[high].all()) else None), covered
