"""How strongly each row of a sentence pulls, with errors, for both readouts of attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import Interval, up
from attsvm.theory.convergence.rows import sum_by, sum_intervals_by

_GROW = 1 + 2.0**-46


@dataclass(frozen=True, eq=False)
class MassPull:
    """q_k = π (m_t/m_α)/(1 + o): the pull of the readout mass at the one optimal token.

    share (k,): π m_t/m_α of single rows; ratio (k,): m_t/m_α, rounded up; owner (k,): their
    sentence; group (k,): their merged row; sentences: S.
    """

    limit: Interval
    share: Interval
    ratio: Floats
    owner: Ints
    group: Ints
    sentences: int

    @classmethod
    def of(
        cls, weights: Floats, owner: Ints, group: Ints, times: tuple[Floats, Floats]
    ) -> MassPull:
        """The pull of single rows; times: how often the other and the kept token occur, (k,)."""
        ratio = Interval(times[0]) / times[1]
        share = ratio * weights[owner]
        return cls(sum_intervals_by(share, group), share, ratio.hi, owner, group, len(weights))

    def summed(self, single: Floats, weight: Floats) -> Floats:
        """Σ_t (m_t/m_α) e^−m_t weight_t of each sentence, (..., S), rounded up."""
        shape = (*single.shape[:-1], self.sentences)
        grow = 1 + (self.owner.size + 8) * 2.0**-53
        return np.asarray(sum_by(single * self.ratio * weight * _GROW, self.owner, shape) * grow)

    def error(self, e: Floats) -> Floats:
        """π (m_t/m_α) o, as |1/(1 + o) − 1| ≤ o."""
        o = self.summed(e[..., self.group], np.ones(len(self.group)))
        part = self.share.hi * o[..., self.owner] * _GROW
        return self.collected(part, e.shape)

    def collected(self, part: Floats, shape: tuple[int, ...]) -> Floats:
        """Sums of single rows' numbers ≥ 0 by merged row, rounded up."""
        grow = 1 + (self.owner.size + 8) * 2.0**-53
        return np.asarray(sum_by(up(part), self.group, shape) * grow)

    def between(self, e: Floats) -> tuple[Floats, Floats]:
        """The limit less and more than its error."""
        error = self.error(e)
        return (self.limit - error).lo, (self.limit + error).hi


@dataclass(frozen=True, eq=False)
class OutputPull:
    """q_k = π (m_t/m_α) ⟨e_y − softmax(z), z − V_t⟩/(1 + o): attention over a frozen decoder.

    With σ = softmax(V_α) and b_j = (V_α − V_t)_y − (V_α − V_t)_j, j ≠ y: gap (k,): Σ σ_j b_j, the
    limit of the product; reach (k,): Σ σ_j |b_j|; range (k,): max − min of V_t − V_α.
    """

    limit: Interval
    mass: MassPull
    gap: Interval
    reach: Floats
    range: Floats

    @classmethod
    def over(
        cls,
        mass: MassPull,
        decoder: tuple[Floats, Floats],
        kept: tuple[Ints, Ints],
        other: Ints,
    ) -> OutputPull:
        """decoder: E and W_ov; kept: the kept token and the label of every sentence; other (k,):
        the other token of each single row."""
        E, W_ov = decoder
        alpha, labels = kept
        k = len(other)
        low, high, reach, wide = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k)
        V = Interval(E) @ np.ascontiguousarray(W_ov.T)
        if np.array_equal(E, np.eye(*E.shape)):
            V = Interval(np.ascontiguousarray(W_ov.T[: len(E)]))
        for s in np.unique(mass.owner):
            index = (mass.owner == s).nonzero()[0]
            top, y = int(alpha[s]), int(labels[s])
            apart = V[other[index]] - V[top]
            same = _same(V, top, other[index])
            wide[index] = up(apart.hi.max(axis=1) - apart.lo.min(axis=1))
            own = V[top]
            odds = (own - own[y]).exp()
            off = np.arange(len(odds.lo)) != y
            sigma = odds[off] / (odds[off].sum() + 1.0)
            b = apart[:, off] - Interval(apart.lo[:, y : y + 1], apart.hi[:, y : y + 1])
            gap = (sigma * b).sum(axis=1)
            low[index], high[index] = np.where(same, 0.0, gap.lo), np.where(same, 0.0, gap.hi)
            reach[index] = np.where(same, 0.0, (sigma * Interval(b.size)).sum(axis=1).hi)
        gap = Interval(low, high)
        single = mass.share * gap
        zero = (low == 0) & (high == 0)
        single = Interval(np.where(zero, 0.0, single.lo), np.where(zero, 0.0, single.hi))
        return cls(sum_intervals_by(single, mass.group), mass, gap, reach, wide)

    def error(self, e: Floats) -> Floats:
        """π (m_t/m_α) [(e^φ − 1) reach_t + e^φ Σ_u (m_u/m_α) e^−m_u reach_u + |gap| o]."""
        mass = self.mass
        single = e[..., mass.group]
        o = mass.summed(single, np.ones(len(mass.group)))
        phi = mass.summed(single, self.range)
        moved = mass.summed(single, self.reach)
        with np.errstate(over="ignore", invalid="ignore"):
            raised = Interval(phi).exp().hi
            more = np.where(phi < 0.5, phi * (1 + phi), raised)  # e^φ − 1 ≤ φ + φ² for φ ≤ 1
            more = np.minimum(more, raised)[..., mass.owner]
            part = more * self.reach + (raised * moved)[..., mass.owner]
            part = part + self.gap.size * o[..., mass.owner]
            part = np.nan_to_num(part * mass.share.hi * _GROW, nan=np.inf, posinf=np.inf)
        return mass.collected(part, e.shape)

    def between(self, e: Floats) -> tuple[Floats, Floats]:
        """The limit less and more than its error."""
        error = self.error(e)
        return (self.limit - error).lo, (self.limit + error).hi


def _same(V: Interval, top: int, other: Ints) -> Bools:
    """Which rows of V are known to be the top one's in every digit."""
    return np.asarray(
        (V.lo[other] == V.lo[top]).all(axis=1)
        & (V.hi[other] == V.lo[other]).all(axis=1)
        & bool((V.hi[top] == V.lo[top]).all())
    )
