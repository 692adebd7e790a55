"""The last digits in l1 and max: an interior point on the rows that matter, from a rough pair.

    min ‖W‖    s.t.  A(W)_k = b_k + s_k,  s_k ≥ 0 (margins),  s_k = 0 (ties)
    max bᵀλ    s.t.  ‖A*λ‖_dual ≤ 1,  λ_k ≥ 0 (margins)

The norm and its dual are two complementary pairs P, Q ≥ 0 per entry of W, with M = A*λ:

    l1     min Σ(P₁ + P₂),  W = P₁ − P₂;                  Q₁ = 1 − M,  Q₂ = 1 + M
    max    min t,           P₁ = t − W,  P₂ = t + W;      Q₁ − Q₂ = M,  Σ(Q₁ + Q₂) = 1

At the end PQ = 0 and sλ = 0. Each step is
Mehrotra's predictor and corrector, from one Cholesky factor of

    A_J D A_Jᵀ + vvᵀ/κ + diag(s/λ)

over the working rows J alone: those that carry weight or are nearly tight. A row that the next W
violates joins with a multiplier of its own. λ is feasible for the dual all along, and every W is
scaled until all rows hold, so both bounds are over all rows whatever J is.

Theory: [mehrotra1992interior].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log10
from typing import NamedTuple

import numpy as np
import scipy

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.memory import HEADROOM, available
from attsvm._utils.progress import Progress
from attsvm.norms import Norm
from attsvm.norms.entrywise import L1Norm, MaxNorm
from attsvm.solvers.frobenius.coordinate_descent import Segments
from attsvm.solvers.unit_rows import BestPair, Solve, refined, weighted_gram

# Steps at most, and how many without a gap or a complementarity smaller by a tenth.
STEPS, PATIENCE = 120, 12
# Working rows at first: so many per row with a multiplier, and so many more.
SHARE, SPARE = 1.4, 300
# How far inside the start lies, as a share of the norm: the gap, within these bounds.
INSIDE = (1e-4, 0.1)
# The least slack at the start, of a typical right-hand side, where the gap is no smaller.
LEAST = 0.02
# Rows that may join in a step: this share of those at work, and so many.
JOIN, FEW = 0.1, 50
# Correctors after the first, each for two triangular solves.
CORRECTORS = 2
# Relative ridges on the diagonal, tried in this order; refinement takes their effect out again.
RIDGES = (1e-14, 1e-11, 1e-8)
REFINEMENTS = 3
# How much of the way to the boundary is gone.
DAMP = 0.95
# Where `enough` says no, the gap asked for shrinks by this factor, so many times.
SHARPER, REFUSED = 0.2, 4
# The gap from which the path starts well, and looks without progress after which it starts anyway.
STARTS, IDLE = 0.05, 6
# In l1 and max the gap of splitting falls like epochs^(−1/SLOW), as measured.
SLOW = 0.7
# Steps of the path: so many, and so many per digit.
PATH_STEPS, DIGIT = 4.0, 3.0
# How many operations of the path, nearly all in large matrix products, take as long as one of an
# epoch.
FASTER = 4.0
# Splitting gets at least this share of what the path will take: a better start saves steps.
INVEST = 0.15

# Whether W and λ (sorted) are good enough, asked once their plain bounds are.
Enough = Callable[[Floats, Floats], bool]


class PairWeights(NamedTuple):
    """D (d, dq), and for max E (d, dq) and κ."""

    D: Floats
    E: Floats | None = None
    kappa: float = 1.0


class L1Pairs:
    """What the path asks of l1.

    start: P and Q near W and M, of dual norm below 1; inside: a share of ‖W‖, mu: about PQ.
    matrix: W (d, dq). weigh: the weights of the Newton matrix. load: R (d, dq) and h of the
    right-hand side. move: dP and dQ from M = A*dλ, with push = h + vᵀdλ/κ. join: Q after new rows
    with multipliers of adjoint M, and what these and then all λ shrink by.
    """

    def start(self, W: Floats, M: Floats, *, inside: float, mu: float) -> tuple[Floats, Floats]:
        """The parts of W, at least mu/Q."""
        Q = np.array([1.0 - M, 1.0 + M])
        return np.maximum([W, -W], mu / Q), Q

    def matrix(self, P: Floats) -> Floats:
        """P₁ − P₂."""
        return np.asarray(P[0] - P[1])

    def weigh(self, P: Floats, Q: Floats) -> PairWeights:
        """D = P₁/Q₁ + P₂/Q₂."""
        return PairWeights((P / Q).sum(axis=0))

    def load(self, P: Floats, Q: Floats, c: Floats, weights: PairWeights) -> tuple[Floats, float]:
        """R = c₁/Q₁ − c₂/Q₂."""
        return c[0] / Q[0] - c[1] / Q[1], 0.0

    def move(
        self, P: Floats, Q: Floats, c: Floats, weights: PairWeights, M: Floats, push: float
    ) -> tuple[Floats, Floats]:
        """dQ = (−M, M)."""
        dQ = np.array([-M, M])
        return (c - P * dQ) / Q, dQ

    def join(self, Q: Floats, M: Floats) -> tuple[Floats, float, float]:
        """At most half of the way to the boundary."""
        change = np.array([-M, M])
        share = min(1.0, 0.5 * reach(Q, change))
        return Q + share * change, share, 1.0


class MaxPairs:
    """The same of max."""

    def start(self, W: Floats, M: Floats, *, inside: float, mu: float) -> tuple[Floats, Floats]:
        """t a little above max |W|; what M leaves of Σ Q = 1 spread evenly."""
        t = (1.0 + inside) * float(np.abs(W).max())
        spare = (1.0 - float(np.abs(M).sum())) / (2 * M.size)
        return np.array([t - W, t + W]), np.maximum([M, -M], 0.0) + spare

    def matrix(self, P: Floats) -> Floats:
        """½(P₂ − P₁)."""
        return np.asarray(0.5 * (P[1] - P[0]))

    def weigh(self, P: Floats, Q: Floats) -> PairWeights:
        """With a, b = Q/P: D = 1/(a + b), E = (a − b)D, κ = Σ 4abD."""
        a, b = Q / P
        D = 1.0 / (a + b)
        return PairWeights(D, (a - b) * D, float((4.0 * a * b * D).sum()))

    def load(self, P: Floats, Q: Floats, c: Floats, weights: PairWeights) -> tuple[Floats, float]:
        """With g = c₁/P₁ − c₂/P₂: R = −Dg, h = (Σ c/P − ⟨E, g⟩)/κ."""
        D, E, kappa = weights
        g = c[0] / P[0] - c[1] / P[1]
        return -D * g, (float((c / P).sum()) - float(np.vdot(E, g))) / kappa

    def move(
        self, P: Floats, Q: Floats, c: Floats, weights: PairWeights, M: Floats, push: float
    ) -> tuple[Floats, Floats]:
        """dt = push, dW = D(M − g) + E dt."""
        D, E, _ = weights
        dW = D * (M - c[0] / P[0] + c[1] / P[1]) + push * np.asarray(E)
        dP = np.array([push - dW, push + dW])
        return dP, (c - Q * dP) / P

    def join(self, Q: Floats, M: Floats) -> tuple[Floats, float, float]:
        """The parts of M join Q, and all is scaled back to Σ Q = 1."""
        Q = Q + np.maximum([M, -M], 0.0)
        total = float(Q.sum())
        return Q / total, 1.0, 1.0 / total


ComplementaryPairs = L1Pairs | MaxPairs
# Norms do not import solvers, so the pairs of the listed ones are named here, by class.
PAIRS: dict[type[Norm], ComplementaryPairs] = {L1Norm: L1Pairs(), MaxNorm: MaxPairs()}


def reach(x: Floats, dx: Floats) -> float:
    """The largest step ≤ 1e3 that keeps x + step·dx ≥ 0."""
    return 1.0 / max(1e-3, -float((dx / x).min(initial=0.0)))


def has_pairs(norm: Norm) -> bool:
    """Whether a norm is a linear program that the path takes."""
    return type(norm) in PAIRS


def working_rows(rows: Segments, lam: Floats) -> int:
    """How many rows the path begins with."""
    tied = int((rows.floor < 0.0).sum())
    return min(len(lam), int(SHARE * np.count_nonzero(lam)) + SPARE + tied)


def flops(rows: Segments, k: int) -> float:
    """Multiplications and additions of a step with k working rows."""
    (g, dq), d = rows.queries.shape, rows.keys.shape[1]
    return k**3 / 3.0 + float(k) * k * d + float(g) * g * d * dq + 40.0 * g * d * dq


def fits(rows: Segments, k: int) -> bool:
    """Whether the matrix of k working rows fits into memory, with as many more as may join."""
    (_, dq), d = rows.queries.shape, rows.keys.shape[1]
    need = 8.0 * (2.0 * k * k + 6.0 * k * d + 30.0 * d * dq + 10.0 * len(rows.b))
    return need <= HEADROOM * available()


def close_gap(
    rows: Segments,
    norm: Norm,
    W: Floats,
    lam: Floats,
    *,
    tol: float,
    enough: Enough | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Floats, float]:
    """The best W (d, dq) and λ (m,) found for the sorted rows, and their gap; no worse than given.

    enough: whether W and λ will do, asked once their plain bounds say so.
    """
    unit = float(norm.value(W))
    if not 0.0 < unit < np.inf:
        return W, lam, np.inf
    given = replace(rows, b=rows.b / unit)
    best = BestPair(given, norm, W / unit, lam).judged(W=W / unit, lam=lam)
    unit_rows, pairs = _ScaledSegments.of(given), PAIRS[type(norm)]
    mark = best.gap
    stale = refused = 0
    with np.errstate(all="ignore"):
        point = _start(unit_rows, norm, pairs, best)
        least = point.total
        for count in range(STEPS):
            w = pairs.matrix(point.P)
            values = unit_rows.values(w)
            if not np.isfinite(values).all() or not np.isfinite(point.lam).all():
                break
            if enough is not None:
                # What it costs to restore ties is known only to first order: the last W misses
                # them least.
                best = replace(best, upper=np.inf)
            best = best.judged(W=w, lam=point.spread(unit_rows))
            if progress is not None:
                progress(0.0, f"gap {best.gap:.1e}, {len(point.J):,} at work")
            stale += 1
            if best.gap < 0.9 * mark or point.total < 0.9 * least:
                stale, mark, least = 0, min(mark, best.gap), min(least, point.total)
            if best.gap <= tol and (enough is None or unit_rows.miss(values) <= tol):
                if enough is None or enough(best.W * unit, best.lam):
                    break
                tol, refused = tol * SHARPER, refused + 1
            if stale > PATIENCE or refused == REFUSED:
                break
            if count:
                point = _joined(unit_rows, pairs, point, values)
            moved = _advance(unit_rows, pairs, point, values)
            if moved is None:
                break
            point = moved
    return best.W * unit, best.lam, best.gap


@dataclass(frozen=True, eq=False)
class _ScaledSegments:
    """The sorted rows scaled to length 1: λ and s are those of the scaled rows.

    length, b, query are (m,); free (m,): True on ties; live (m,): False on rows without features;
    typical (m,): b, or its median where that is larger.
    """

    rows: Segments
    length: Floats
    b: Floats
    query: Ints
    free: Bools
    live: Bools
    typical: Floats

    @classmethod
    def of(cls, rows: Segments) -> _ScaledSegments:
        live = rows.length > 0.0
        length = np.where(live, rows.length, 1.0)
        b = rows.b / length
        size = np.abs(b)
        middle = float(np.median(size[size > 0.0])) if size.any() else 1.0
        query = np.repeat(rows.query, np.diff(rows.start))
        return cls(rows, length, b, query, rows.floor < 0.0, live, np.maximum(size, middle))

    def values(self, W: Floats) -> Floats:
        """A(W) (m,)."""
        return self.rows.values(W) / self.length

    def miss(self, values: Floats) -> float:
        """By how much, of a typical right-hand side, ties and rows with b = 0 are missed."""
        short = np.where(self.free, np.abs(values - self.b), np.maximum(-values, 0.0))
        return float((short / self.typical)[self.free | (self.b == 0.0)].max(initial=0.0))

    def adjoint(self, J: Ints, lam: Floats) -> Floats:
        """A*λ (d, dq) of the rows J."""
        full = np.zeros(len(self.b))
        full[J] = lam / self.length[J]
        return self.rows.adjoint(full)


class _PathPoint(NamedTuple):
    """An iterate: P, Q (2, d, dq); λ, s (k,) on the working rows J (k,), s = 0 on ties."""

    P: Floats
    Q: Floats
    J: Ints
    lam: Floats
    s: Floats
    held: Bools

    @property
    def total(self) -> float:
        """⟨P, Q⟩ + sᵀλ."""
        return float(np.vdot(self.P, self.Q)) + float(self.s @ self.lam)

    @property
    def mu(self) -> float:
        """The mean product."""
        return self.total / (self.P.size + int(self.held.sum()))

    def spread(self, unit_rows: _ScaledSegments) -> Floats:
        """The multipliers of all sorted rows (m,)."""
        out = np.zeros(len(unit_rows.b))
        out[self.J] = self.lam / unit_rows.length[self.J]
        return out


class _PathStep(NamedTuple):
    """A direction, and how far it may be gone in (P, s) and in (Q, λ)."""

    P: Floats
    Q: Floats
    lam: Floats
    s: Floats
    primal: float
    dual: float


def _start(u: _ScaledSegments, norm: Norm, pairs: ComplementaryPairs, best: BestPair) -> _PathPoint:
    """A point inside, near the best pair, on the rows that carry weight or are nearly tight."""
    inside = float(np.clip(best.gap, *INSIDE))
    slack = np.where(u.live, (u.values(best.W) - u.b) / u.typical, np.inf)
    lam = (1.0 - inside) * best.lam * u.length
    first = np.where(u.free | (best.lam != 0.0), -np.inf, slack)
    size = working_rows(u.rows, best.lam)
    chosen = np.argpartition(first, size - 1)[:size] if size < len(first) else np.arange(len(first))
    J = np.sort(chosen[u.live[chosen]])
    held = ~u.free[J]
    s = np.maximum(slack[J], min(LEAST, best.gap)) * u.typical[J]
    s = np.where(held, s, 0.0)
    worth = max(1.0 - float(u.b @ lam), inside)
    mu = worth / (2 * best.W.size + len(J))
    lam = np.where(held, np.maximum(lam[J], mu / np.where(held, s, 1.0)), lam[J])
    M = u.adjoint(J, lam)
    size_M = float(norm.dual(M))
    shrink = min(1.0, (1.0 - inside) / size_M) if size_M > 0.0 else 1.0
    P, Q = pairs.start(best.W, shrink * M, inside=inside, mu=mu)
    return _PathPoint(P, Q, J, shrink * lam, s, held)


def _joined(
    u: _ScaledSegments, pairs: ComplementaryPairs, point: _PathPoint, values: Floats
) -> _PathPoint:
    """The point with the rows that W violates most."""
    slack = np.where(u.live, (values - u.b) / u.typical, np.inf)
    slack[point.J] = np.inf
    new = np.flatnonzero(slack < 0.0)
    most = max(FEW, int(JOIN * len(point.J)))
    if len(new) > most:
        new = new[np.argpartition(slack[new], most - 1)[:most]]
    if not len(new):
        return point
    middle = float(np.median(point.s[point.held])) if point.held.any() else LEAST
    s = np.full(len(new), 0.1 * middle)
    lam = point.mu / s
    Q, share, factor = pairs.join(point.Q, u.adjoint(new, lam))
    J = np.concatenate([point.J, new])
    order = np.argsort(J)
    return _PathPoint(
        point.P,
        Q,
        J[order],
        factor * np.concatenate([point.lam, share * lam])[order],
        np.concatenate([point.s, s])[order],
        np.concatenate([point.held, np.ones(len(new), bool)])[order],
    )


def _advance(
    u: _ScaledSegments, pairs: ComplementaryPairs, x: _PathPoint, values: Floats
) -> _PathPoint | None:
    """The next iterate: predictor, then correctors for as long as they lengthen the step."""
    weights = pairs.weigh(x.P, x.Q)
    lam = np.where(x.held, x.lam, 1.0)
    v = None if weights.E is None else u.values(weights.E)[x.J]
    solve = _factor(u, x, weights, v)
    if solve is None:
        return None
    residual = u.b[x.J] + x.s - values[x.J]
    total, mu = x.total, x.mu

    def direction(aim: float, bow: Floats, row_bow: Floats) -> _PathStep:
        c, row_c = aim - x.P * x.Q - bow, np.where(x.held, aim - x.lam * x.s - row_bow, 0.0)
        R, h = pairs.load(x.P, x.Q, c, weights)
        rhs = residual + row_c / lam - u.values(R)[x.J]
        dlam = solve(rhs if v is None else rhs - v * h)
        push = h if v is None else h + float(v @ dlam) / weights.kappa
        dP, dQ = pairs.move(x.P, x.Q, c, weights, u.adjoint(x.J, dlam), push)
        ds = np.where(x.held, (row_c - x.s * dlam) / lam, 0.0)
        held = x.held
        primal = min(reach(x.P, dP), reach(x.s[held], ds[held]))
        return _PathStep(
            dP, dQ, dlam, ds, primal, min(reach(x.Q, dQ), reach(x.lam[held], dlam[held]))
        )

    trial = direction(0.0, np.zeros_like(x.P), np.zeros_like(x.s))
    a, c = min(1.0, trial.primal), min(1.0, trial.dual)
    after = float(np.vdot(x.P + a * trial.P, x.Q + c * trial.Q))
    after += float((x.lam + c * trial.lam) @ (x.s + a * trial.s))
    share = (after / total) ** 3
    share = max(share, 1e-4) if min(a, c) > 0.5 else min(max(share, 0.1), 0.9)
    move = direction(share * mu, trial.P * trial.Q, trial.lam * trial.s)
    for _ in range(CORRECTORS):
        trial = direction(share * mu, move.P * move.Q, move.lam * move.s)
        if _length(trial) <= 1.1 * _length(move):
            break
        move = trial
    if not np.isfinite(move.lam).all():
        return None
    a, c = min(1.0, DAMP * move.primal), min(1.0, DAMP * move.dual)
    return x._replace(
        P=x.P + a * move.P, Q=x.Q + c * move.Q, lam=x.lam + c * move.lam, s=x.s + a * move.s
    )


def _length(move: _PathStep) -> float:
    """The product of both steps, each at most 1."""
    return min(move.primal, 1.0) * min(move.dual, 1.0)


def _factor(
    u: _ScaledSegments, x: _PathPoint, weights: PairWeights, v: Floats | None
) -> Solve | None:
    """The map r ↦ dλ of (A_J D A_Jᵀ + vvᵀ/κ + diag(s/λ)) dλ = r; None where no factor exists."""
    ratio = np.where(x.held, x.s / np.where(x.held, x.lam, 1.0), 0.0)
    deltas = u.rows.differences(x.J)[0] / u.length[x.J][:, None]
    for ridge in RIDGES:
        S = weighted_gram(deltas, u.query[x.J], u.rows.queries, weights.D)
        if v is not None:
            S += v[:, None] * (v / weights.kappa)
        diagonal = np.einsum("ii->i", S)
        diagonal += ratio
        diagonal *= 1.0 + ridge
        # The upper triangle in C order is the lower one in Fortran order, factored in place.
        factor, info = scipy.linalg.lapack.dpotrf(S.T, lower=1, overwrite_a=1, clean=0)
        if info == 0 and np.isfinite(np.diagonal(factor)).all():
            break
    else:
        return None

    def apply(y: Floats) -> Floats:
        out = u.values(weights.D * u.adjoint(x.J, y))[x.J] + ratio * y
        return out if v is None else out + v * (float(v @ y) / weights.kappa)

    def solve(r: Floats) -> Floats:
        return np.asarray(scipy.linalg.lapack.dpotrs(factor, r, lower=1)[0])

    return partial(refined, solve, apply, most=REFINEMENTS, enough=1e-11)


class Handover:
    """Says whether to leave off splitting at a gap; `left` remembers a yes."""

    def __init__(self, rows: Segments, tol: float) -> None:
        self.rows, self.tol, self.left = rows, tol, False

    def __call__(self, lam: Floats, *, gap: float, epochs: int, stale: int) -> bool:
        """Whether the path should take over; lam: the best multipliers so far."""
        k = working_rows(self.rows, lam)
        sooner = stale >= IDLE
        if self.tol < gap <= STARTS:
            path, epoch = self._path(k, gap), FASTER * self._epoch()
            more = ((gap / self.tol) ** SLOW - 1.0) * epochs * epoch
            sooner = sooner or (INVEST * path < epochs * epoch and path < more)
        self.left = sooner and self.able(lam)
        return self.left

    def able(self, lam: Floats) -> bool:
        """Whether the path has the memory it needs."""
        return fits(self.rows, working_rows(self.rows, lam))

    def _path(self, k: int, gap: float) -> float:
        """Operations of the path to the tolerance."""
        return (PATH_STEPS + DIGIT * log10(gap / self.tol)) * flops(self.rows, k)

    def _epoch(self) -> float:
        """Operations of an epoch of splitting."""
        (g, dq), d = self.rows.queries.shape, self.rows.keys.shape[1]
        return 4.0 * g * d * dq + 2.0 * len(self.rows.b) * d
