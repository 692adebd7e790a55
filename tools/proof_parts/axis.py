"""The max-margin solution of a set of tight rows, exactly, or an axis near it."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from proof_parts.reals import Real, array, integers, need, ratio, real, sqrt
from proof_parts.rows import inner


def active(r: SimpleNamespace) -> SimpleNamespace:
    """Ŵ of the named rows C, by exact elimination: it is the solution by its KKT conditions."""
    C = [r.name[int(i), int(t)] for i, t in r.f.tight]
    need(len({*C}) == len(C) > 0, "no tight row is named, or one twice")
    M, last = np.column_stack([r.H[np.ix_(C, C)], np.eye(len(C), dtype=int).astype(object)]), 1
    for i in range(len(C)):  # Bareiss: all entries are minors, divisions are exact
        need(M[i, i] > 0, "the tight rows are linearly dependent")
        others = np.arange(len(C)) != i
        M[others] = (M[others] * M[i, i] - np.outer(M[others, i], M[i])) // last
        last = M[i, i]
    lam, det = M[:, len(C) :].sum(axis=1), last
    need((lam > 0).all(), "a tight row has a multiplier that is not positive")
    reached, off = r.H[:, C] @ lam, np.ones(r.count, bool)
    off[C] = False
    need((reached[off & ~r.zero] > det).all(), "a row that is not named as tight has no slack")
    need((reached[off] >= det).all(), "a row has negative slack")
    return SimpleNamespace(
        C=C, lam=array(ratio(x * r.unit**2, det) for x in lam), off=off,
        inverse=np.array([[ratio(x * r.unit**2, det) for x in row[len(C) :]] for row in M], object),
        square=ratio(sum(lam) * r.unit**2, det), N=sqrt(ratio(sum(lam) * r.unit**2, det)),
        grown=array(ratio(x, det) for x in reached),
        slack=array(ratio(x - det, det) for x in reached),
    )  # fmt: skip


def near_solution(far: Real, N: Real, doubt: object = 0) -> None:
    """The printed direction, whose squared distance from an axis is `far`, is the solution's."""
    near = sqrt(far) + doubt <= N * Fraction(1, 1000 if doubt else 10**8)
    need(near, "the direction is not that of the max-margin solution")


def squared_distance(r: SimpleNamespace, a: SimpleNamespace) -> Real:
    """‖direction − Ŵ‖²."""
    M, below = integers(r.f.direction)
    on = sum(x * Fraction(y, below * r.unit) for x, y in zip(a.lam, inner(r, M)[a.C], strict=True))
    return Fraction((M**2).sum(), below**2) - 2 * on + a.square


def axis_of(r: SimpleNamespace) -> SimpleNamespace:
    """W̃ and μ: the solution of a verified set, or a given W̃ scaled to a least margin of 1.

    over = ⟨U, W̃⟩ − 1, tilt = ‖W̃‖ ‖U − ⟨U, W̃⟩ W̃/‖W̃‖²‖, wide = ‖W̃‖ ‖U‖ for U = Σ μ_k a_k; the
    least norm is between 1/‖U‖ and ‖W̃‖, so the solution is within ‖W̃‖ √(1 − 1/wide²) of W̃.
    """
    f, mu = r.f, array([0] * r.count)
    if f.exact:
        x = active(r)
        mu[x.C] = x.lam / x.square
        near_solution(squared_distance(r, x), x.N)
        x.along, x.over, x.tilt, x.wide = sum(x.lam * r.m[x.C]), real(0), real(0), real(1)
        x.mu, x.held = mu, np.isin(np.arange(r.count), x.C)
        return x
    (M, below), (B, under), (W, w) = integers(f.axis), integers(f.direction), integers(f.W)
    need(M.shape == W.shape, "the axis has another shape than W")
    reached = inner(r, M)
    need((reached > 0).all(), "the axis has a margin that is not positive")
    shrink = Fraction(below * r.unit, reached.min())  # W̃ = shrink · axis
    square = shrink**2 * Fraction((M**2).sum(), below**2)
    weight = [Fraction(x) for x in f.mu.tolist()]
    need(all(x >= 0 for x in weight) and sum(weight) > 0, "a multiplier is negative, or all are 0")
    C = [r.name[int(i), int(t)] for i, t in f.tight]
    need(len({*C}) == len(C), "a row is named twice")
    weight = [x / sum(weight) for x in weight]
    U2 = sum(x * y * r.H[j, k] for x, j in zip(weight, C, strict=True)
             for y, k in zip(weight, C, strict=True)) / r.unit**2  # fmt: skip
    met = [Fraction(x, reached.min()) for x in reached]
    on = sum(x * met[k] for x, k in zip(weight, C, strict=True))
    mu[C] = array(weight)
    apart = sum((Fraction(b, under) - shrink * Fraction(x, below)) ** 2 for b, x in
                zip(B.ravel(), M.ravel(), strict=True))  # fmt: skip
    wide = sqrt(square * U2)
    near_solution(real(apart), sqrt(square), sqrt(square) * sqrt(1 - 1 / (square * U2)))
    return SimpleNamespace(
        N=sqrt(square), square=real(square), mu=mu, held=np.isin(np.arange(r.count), C) & (mu > 0),
        grown=array(met), slack=array(x - 1 for x in met), over=real(on - 1), wide=wide,
        tilt=sqrt(square * U2 - on**2), along=real(shrink * Fraction((M * W).sum(), below * w)),
    )  # fmt: skip
