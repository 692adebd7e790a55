"""The rows of a selection: their Gram matrix, exactly, and how strongly each pulls."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from proof_parts.reals import (
    Array,
    Real,
    array,
    bend,
    integers,
    largest,
    need,
    ratio,
    real,
    slope,
    smallest,
    sqrt,
)


def rows_of(f: SimpleNamespace) -> SimpleNamespace:
    """The merged rows: Gram matrix H/scale (integers), margins at W, limits q̂; and the single rows,
    each with its input, merged row and gap."""
    (keys, k), (z, q), (W, w) = integers(f.keys), integers(f.queries), integers(f.W)
    (X, x), (v, u) = integers(f.X), integers(f.head)
    r = SimpleNamespace(owner=[], group=[], gap=[], name={}, unit=k * q, f=f)
    need(f.mask[np.arange(f.n), f.selection].all(), "a selected token is not there")
    found: dict[tuple[int, ...], int] = {}
    score = (X @ v)[f.source] * f.labels.astype(int).astype(object)[:, None]
    r.top = array(Fraction(score[i, a], x * u) for i, a in enumerate(f.selection))
    for i, a in enumerate(f.selection):
        for t in (t for t in np.flatnonzero(f.mask[i]) if t != a):
            D = keys[f.source[i], a] - keys[f.source[i], t]
            need(D.any(), f"token {t} of input {i} has the key of the kept token")
            need(z[i].any(), f"the query of input {i} is zero")
            r.name[i, int(t)] = found.setdefault((*D, *z[i]), len(found))
            r.owner.append(i)
            r.group.append(r.name[i, int(t)])
            r.gap.append(Fraction(score[i, a] - score[i, t], x * u))
    need(found, "there is no other token")
    every = np.array(list(found), object)
    r.D, r.Z = every[:, : keys.shape[2]], every[:, keys.shape[2] :]
    r.H, r.m = (r.D @ r.D.T) * (r.Z @ r.Z.T), inner(r, W)
    need((r.m > 0).all(), "the selection is not where W has its largest logits")
    r.m, r.count = array(Fraction(m, k * q * w) for m in r.m), len(found)
    r.G = np.array([[ratio(h, r.unit**2) for h in row] for row in r.H], object)
    r.length, r.W2 = array(map(sqrt, r.G.diagonal())), Fraction((W**2).sum(), w**2)
    steep = [slope(f.loss, t) for t in r.top]
    r.limit = summed(r, [steep[i] * g / f.n for i, g in zip(r.owner, r.gap, strict=True)])
    r.zero = np.ones(r.count, bool)
    for j, g in zip(r.group, r.gap, strict=True):
        r.zero[j] &= g == 0
    return r


def inner(r: SimpleNamespace, M: Array) -> Array:
    """⟨a_k, M⟩ of the rows in their integers."""
    return ((r.D @ M) * r.Z).sum(axis=1)


def summed(r: SimpleNamespace, single: list[Real]) -> Array:
    """Numbers of single rows added up by merged rows."""
    out = array([0] * r.count)
    for j, x in zip(r.group, single, strict=True):
        out[j] = out[j] + x
    return out


def spread(r: SimpleNamespace, e: Array) -> list[tuple[Real, Real, Real, Real]]:
    """Of each input, where e^−m_k ≤ e_k: how far f_i may lie below and above γ_iα, o_i, and the
    range of f_i. For f_i = γ_iα − Σ s gap with s ≤ e^−m."""
    out = [[real(0)] * 3 for _ in range(r.f.n)]
    for i, j, g in zip(r.owner, r.group, r.gap, strict=True):
        for part, weight in enumerate((max(g, 0), max(-g, 0), 1)):
            out[i][part] = out[i][part] + e[j] * weight
    ends = zip(out, r.top, strict=True)
    return [(b, a, o, Real((top - b).lo, (top + a).hi)) for (b, a, o), top in ends]


def error_of(r: SimpleNamespace, e: Array) -> Array:
    """At least |q_k − q̂_k|: with φ ≥ |f − γ_α|, |ℓ'(f)(f − γ_t) − ℓ'(γ_α) gap| is at most
    (M1 + M0 |gap|) φ, and the factor 1/(1 + o) takes at most |ℓ'(γ_α) gap| o."""
    name, single, part = r.f.loss, [], spread(r, e)
    M = [(slope(name, x), bend(name, x), slope(name, top)) for (_, _, _, x), top in
         zip(part, r.top, strict=True)]  # fmt: skip
    for i, g in zip(r.owner, r.gap, strict=True):
        (below, over, o, _), (M1, M0, steep), size = part[i], M[i], abs(g)
        moved = (Real(M1.hi, M1.hi) + M0 * size) * largest([below, over])
        single.append((moved + steep * size * o) / r.f.n)
    return summed(r, single)


def between(r: SimpleNamespace, e: Array) -> tuple[Array, Array]:
    """At most and at least q_k: f − γ_t is gap less what f is below, plus what it is above."""
    ends: tuple[list[Real], list[Real]] = ([], [])
    part = spread(r, e)
    M = [slope(r.f.loss, x) for *_, x in part]
    for i, g in zip(r.owner, r.gap, strict=True):
        below, over, o, _ = part[i]
        small, big = Real(M[i].lo, M[i].lo) / (1 + o), Real(M[i].hi, M[i].hi)
        low, high = g - below, g + over
        ends[0].append(low * (small if low > 0 else big) / r.f.n)
        ends[1].append(high * (small if high <= 0 else big) / r.f.n)
    return summed(r, ends[0]), summed(r, ends[1])


def mixed(r: SimpleNamespace, good: Array, amount: Array, far: Array) -> Real:
    """At least Σ amount_k e^−m_k / S: for S = Σ_good q̂_k e^−m_k the rows of a set of good ones
    have at most the largest amount_k/q̂_k, every other row amount_k far_k; the best set is taken."""
    ratio_of = {k: amount[k] / r.limit[k] for k in np.flatnonzero(good)}
    order, best = sorted(ratio_of, key=lambda k: -ratio_of[k].hi), []
    total = sum((amount * far)[~good], real(0))
    for k in order:
        best.append(total + ratio_of[k])
        total = total + amount[k] * far[k]
    return smallest([*best, total])


def smooth(r: SimpleNamespace, a: SimpleNamespace, most: Array, across: Array, good: Array) -> None:
    """The printed L bounds the covariance of a_k⊥ under all weights on good rows: by ‖a_k⊥‖², or
    by ¼ ‖a_j⊥ − a_k⊥‖² for all pairs (Popoviciu); in mode B also by Σ most_k a_k⊥ a_k⊥ᵀ ≤ L, which
    holds if diag(L/most) − G⊥ is positive definite, by its elimination."""
    L = r.f.constants["L"]
    need(L >= 0, "L is negative")
    if all(across[k] * across[k] <= L for k in good):
        return
    G = r.G[np.ix_(good, good)]
    apart = a.grown[good][:, None] - a.grown[good]
    own = G.diagonal()
    if ((own[:, None] + own - G * 2 - apart * apart / a.square) <= 4 * L).all():
        return
    need(r.f.mode == "B", "L is less than a quarter of the largest squared distance of two rows")
    M = np.outer(a.grown[good], a.grown[good]) / a.square - G
    for j, k in enumerate(good):
        M[j, j] = M[j, j] + L / most[k]
    for j in range(len(good)):
        need(M[j, j] > 0, "L is less than the largest eigenvalue of the rows' covariance")
        rest = M[j + 1 :, j] / M[j, j]
        M[j + 1 :, j + 1 :] = M[j + 1 :, j + 1 :] - np.outer(rest, M[j, j + 1 :])
