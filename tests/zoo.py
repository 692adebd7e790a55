"""Instances built backwards from their answers, each asserting its own premises.

A least-norm solution W and a dual G with ⟨G, W⟩ = ‖W‖ ‖G‖_dual are chosen first; rows Δ_k z_kᵀ that
W meets with equality are then drawn so that Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ = G. By weak duality
‖W‖ is the least norm, in any norm, without a solver having been asked.
"""

from dataclasses import dataclass

import numpy as np

from attsvm import Problem, Selection, Tokens
from attsvm.datasets import EXAMPLES
from attsvm.norms import NORMS as REGISTRY
from attsvm.norms import norm_of
from tests.tolerances import ROUNDING

NORMS = (*(n for n in REGISTRY if n != "lP"), "l1.1", "l1.75", "l2", "l3", "l10")
UNIQUE = tuple(name for name in NORMS if norm_of(name).unique)
ROTATIONAL = tuple(name for name in NORMS if norm_of(name).rotational)

LEAST = 2.5  # the least norm of every known instance
LOOSE = 1.5  # the margin of its loose rows, at least
SMALLEST = 0.02  # no row that carries the dual is met with less than this before it is scaled


@dataclass(frozen=True, eq=False)
class Known:
    """A problem with its least norm, a solution W, optimal multipliers, and its tight margins.

    `tokens` and `keep` are there when the problem is a selection of tokens.
    """

    norm: str
    problem: Problem
    least: float
    W: np.ndarray
    multipliers: np.ndarray
    tie_multipliers: np.ndarray
    tight: np.ndarray
    tokens: Tokens | None = None
    keep: Selection | None = None

    def __post_init__(self):
        p, norm = self.problem, norm_of(self.norm)
        size = 1 + np.abs(p.b)
        slack = p.margins(self.W) - p.b
        assert (np.abs(slack[self.tight]) <= ROUNDING * size[self.tight]).all()
        assert (slack[~self.tight] >= (LOOSE - 1) / 2).all()
        assert np.abs(p.tie_values(self.W) - p.c).max(initial=0.0) <= ROUNDING
        assert (self.multipliers >= 0).all() and not self.multipliers[~self.tight].any()
        G = p.adjoint(self.multipliers, self.tie_multipliers)
        worth = p.b @ self.multipliers + p.c @ self.tie_multipliers
        assert abs(norm.value(self.W) - self.least) <= ROUNDING * self.least
        assert abs(worth - self.least * norm.dual(G)) <= ROUNDING * worth


def orthonormal(rng, d, k):
    """k orthonormal columns (d, k)."""
    return np.linalg.qr(rng.standard_normal((d, k)))[0]


def pair(norm, d, dq, rng):
    """W and G of norm and dual norm 1 with ⟨G, W⟩ = 1, each column with a share in it."""
    for _ in range(1000):
        W, G = _drawn_pair(norm, d, dq, rng)
        if (W * G).sum(axis=0).min() > 2 * SMALLEST:
            return W, G
    raise AssertionError(f"no pair of {norm} norm at {d} x {dq} gives each column a share")


def _drawn_pair(norm, d, dq, rng):
    """W and G of norm and dual norm 1 with ⟨G, W⟩ = 1."""
    geometry = norm_of(norm)
    r = max(1, min(d, dq) - 1)
    U, V = orthonormal(rng, d, min(d, dq)), orthonormal(rng, dq, min(d, dq))
    if norm == "nuclear":  # W of rank r; G is free beyond, inside the ball
        W = U[:, :r] * rng.uniform(0.5, 1.5, r) @ V[:, :r].T
        G = U * np.r_[np.ones(r), np.full(min(d, dq) - r, 0.3)] @ V.T
    elif norm == "spectral":  # W free below its top singular values; G lives on these
        W = U * np.r_[np.ones(r), np.full(min(d, dq) - r, 0.3)] @ V.T
        G = U[:, :r] * rng.uniform(0.5, 1.5, r) @ V[:, :r].T
    elif norm == "l1":  # W sparse; G its signs, free elsewhere
        W = np.where(rng.random((d, dq)) < 0.6, rng.standard_normal((d, dq)), 0.0)
        W[rng.integers(d, size=dq), np.arange(dq)] = 0.7
        G = np.where(W != 0, np.sign(W), rng.uniform(-0.6, 0.6, (d, dq)))
    elif norm == "max":  # G on the largest entries of W
        sign, top = rng.choice([-1.0, 1.0], (d, dq)), rng.random((d, dq)) < 0.6
        top[rng.integers(d, size=dq), np.arange(dq)] = True
        W = np.where(top, sign, rng.uniform(-0.6, 0.6, (d, dq)))
        G = np.where(top, sign * rng.uniform(0.5, 1.5, (d, dq)), 0.0)
    else:
        G = rng.choice([-1.0, 1.0], (d, dq)) * rng.uniform(0.5, 1.5, (d, dq))
        W = geometry.dual_maximizer(G)
    W, G = W / geometry.value(W), G / geometry.dual(G)
    assert abs((W * G).sum() - 1) <= ROUNDING
    return W, G


def met(rng, W, z, value):
    """A random Δ with Δᵀ W z = value."""
    direction = W @ z
    delta = rng.standard_normal(len(W))
    return delta + (value - delta @ direction) / (direction @ direction) * direction


def carriers(W, rest):
    """Δ_j with margin 1 at the unit query e_j, and λ_j, with Σ λ_j Δ_j e_jᵀ = rest; or None."""
    level = np.einsum("ij,ij->j", rest, W)
    return (rest / level, level) if level.min() > SMALLEST else None


def known(norm, kind="plain", *, d=4, dq=3, more=2, seed=0):
    """The instance of one kind:

    plain: one kept token, `more` inputs of random queries beside those that carry G; each input
    has two tight dropped tokens and a loose one. prompt: the same with dq = 1. masked: with a
    token that would beat the kept one, masked out. sets: two tokens kept in each input, so ties
    at 0 that are active. zeros: with active rows of b = 0. levels: with active ties at c ≠ 0.
    degenerate: with a tight row whose multiplier is 0.
    """
    dq = 1 if kind == "prompt" else dq
    rng = np.random.default_rng([seed, d, dq, more])
    W, G = pair(norm, d, dq, rng)
    queries = rng.standard_normal((more, dq)) + 0.5
    extra = np.stack([met(rng, W, z, 1.0) for z in queries]) if more else np.empty((0, d))
    flat = np.stack([met(rng, W, z, 0.0) for z in queries]) if more else np.empty((0, d))
    level = rng.choice([-1.0, 1.0], more) * rng.uniform(0.5, 2.0, more)
    ties = np.stack([met(rng, W, z, c) for z, c in zip(queries, level, strict=True)])
    signs = rng.choice([-1.0, 1.0], more)
    share = 0.5
    found = None
    while found is None:  # a small enough share of the random rows leaves G carried by the rest
        share /= 2
        lam = share * rng.uniform(0.5, 1.0, more)
        used = extra.T @ (lam[:, None] * queries)
        if kind == "zeros":
            used = used + flat.T @ (lam[:, None] * queries)
        if kind == "levels":
            used = used + ties.T @ ((signs * lam)[:, None] * queries)
        found = carriers(W, G - used)
    delta = np.concatenate([found[0].T, extra]) / LEAST
    z, lam = np.concatenate([np.eye(dq), queries]), np.concatenate([found[1], lam]) * LEAST
    W = W * LEAST
    if kind in ("zeros", "levels", "degenerate"):
        other = ties / LEAST if kind == "levels" else flat
        return _rows(norm, kind, W, delta, z, lam, other, queries, level, signs, rng)
    return _selection(norm, kind, W, delta, z, lam, rng)


def _rows(norm, kind, W, delta, z, lam, other, queries, level, signs, rng):
    """The instance given as rows; `other` are its zero rows (replaced if degenerate) or ties."""
    extra = lam[len(z) - len(queries) :]
    loose = np.stack([met(rng, W, y, LOOSE + 0.5) for y in z])
    if kind == "levels":
        problem = Problem.from_rows(
            np.concatenate([delta, loose]), np.concatenate([z, z]), ties=other,
            tie_queries=queries, c=level,
        )  # fmt: skip
        tight = np.arange(2 * len(z)) < len(z)
        return Known(norm, problem, LEAST, W, np.r_[lam, 0 * lam], signs * extra, tight)
    if kind == "degenerate":
        other = np.stack([met(rng, W, y, 1.0) for y in queries])
    b = np.r_[np.ones(len(z)), np.full(len(other), float(kind == "degenerate")), np.ones(len(z))]
    problem = Problem.from_rows(
        np.concatenate([delta, other, loose]), np.concatenate([z, queries, z]), b=b
    )
    # λ of the zero rows is that of `extra`, before the scaling of Δ by 1/LEAST
    beside = extra / LEAST if kind == "zeros" else 0 * extra
    tight = np.arange(len(b)) < len(z) + len(other)
    return Known(norm, problem, LEAST, W, np.r_[lam, beside, 0 * lam], np.empty(0), tight)


def _selection(norm, kind, W, delta, z, lam, rng):
    """The instance as tokens, a selection and its problem."""
    n, d = delta.shape
    T = 5 if kind == "masked" else 4
    aside = np.stack([met(rng, W, y, 0.0) for y in z]) / LEAST / 3
    X = np.empty((n, T, d))
    alpha = rng.integers(3, size=n)
    # kind "sets": Δ ± aside lead from one dropped token to two kept ones; else from the kept one
    # to two dropped ones. The last token of the three is loose.
    hub = rng.standard_normal((n, d))
    sign = 1.0 if kind == "sets" else -1.0
    loose = np.stack([met(rng, W, y, LOOSE + rng.random()) for y in z])
    ends = [hub + sign * (delta + aside), hub + sign * (delta - aside)]
    far = (ends[0] if kind == "sets" else hub) - loose
    for i in range(n):
        order = [t for t in range(4) if t != alpha[i]]
        X[i, alpha[i]] = hub[i]
        X[i, order[0]], X[i, order[1]], X[i, order[2]] = ends[0][i], ends[1][i], far[i]
    kept = np.zeros((n, T), dtype=bool)
    kept[np.arange(n), alpha] = True
    mask = None
    if kind == "masked":
        X[:, 4] = 9 * rng.standard_normal((n, d))
        mask = np.arange(5) < np.full((n, 1), 4)
    if kind == "sets":
        kept = np.zeros((n, T), dtype=bool)
        for i in range(n):
            order = [t for t in range(4) if t != alpha[i]]
            kept[i, order[:2]] = True
    queries = None if kind == "prompt" and (z == 1).all() else z
    tokens = Tokens(X, queries=queries, mask=mask)
    keep = Selection.of(tokens, kept)
    problem = Problem.of(tokens, keep)
    slack = problem.margins(W) - 1
    tight = slack < (LOOSE - 1) / 2
    per = (n, problem.m // n)
    share = tight.reshape(per) / tight.reshape(per).sum(axis=1, keepdims=True)
    multipliers = (share * lam[:, None]).ravel()
    # Δ = mean of the two ends: first − (first − second)/2, so the tie carries −λ/2
    ties = -lam / 2 if kind == "sets" else np.empty(0)
    return Known(norm, problem, LEAST, W, multipliers, ties, tight, tokens, keep)


KINDS = ("plain", "prompt", "masked", "sets", "zeros", "levels", "degenerate")


def infeasible():
    """name -> a problem that no W meets, built from the multipliers that prove it."""
    rng = np.random.default_rng(7)
    D, z = rng.standard_normal((3, 4)), rng.standard_normal(3)
    y = rng.standard_normal(3)
    opposite = Problem.from_rows([[1.0, 2.0], [-1.0, -2.0]])
    # Δ z₁ᵀ + Δ z₂ᵀ − Δ (z₁ + z₂)ᵀ = 0, but for the rounding of z₁ + z₂
    queries = Problem.from_rows([D[0], D[0], -D[0]], [z, y, z + y])
    simplex = np.concatenate([D, -(D * [[0.3], [0.5], [0.9]]).sum(axis=0, keepdims=True)])
    ties = Problem.from_rows([[1.0, 0.0, 1.0]], ties=[[0.5, 0, 0], [0, 0, 2.0]])
    levels = Problem.from_rows([[1.0, 0.0]], ties=[[0.5, 0]], c=[-0.25])
    zeros = Problem.from_rows([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], b=[1.0, 0.0, 0.0])
    twin = Tokens(rng.standard_normal((2, 3, 4))[:, [0, 1, 2, 0]], queries=rng.random((2, 4)))
    same = Problem.of(twin, Selection.of(twin, [0, 1]))
    silent = Tokens(rng.standard_normal((2, 3, 4)), queries=[[1.0, 2.0], [0.0, 0.0]])
    mute = Problem.of(silent, Selection.of(silent, [0, 1]))
    return {
        "opposite": opposite, "queries": queries, "simplex": Problem.from_rows(simplex),
        "ties": ties, "levels": levels, "zeros": zeros, "same token": same, "zero query": mute,
    }  # fmt: skip


def near(eps):
    """A feasible prompt problem whose token 1 lies `eps` from the kept one: least norm 1/eps."""
    tokens = Tokens([[[0.0, 1.0], [eps, 1.0], [0.0, 0.0]]])
    problem = Problem.of(tokens, Selection.of(tokens, [0]))
    W = np.array([[-1 / eps], [1.0]])
    least = float(np.hypot(1 / eps, 1.0))
    assert np.abs(problem.margins(W) - 1).max() <= ROUNDING
    miss = np.abs(problem.adjoint([1 / eps**2, 1.0]) - W)
    assert (miss <= ROUNDING * np.abs(W)).all()
    every = np.ones(2, dtype=bool)
    return Known("frobenius", problem, least, W, np.array([1 / eps**2, 1.0]), np.empty(0), every)


def sphere_tokens(n, T, d, *, seed, labels=True, queries=True):
    """Tokens, queries and a head drawn from the unit sphere, and random signs."""
    rng = np.random.default_rng(seed)

    def unit(*shape):
        x = rng.standard_normal(shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    X, z, v, y = unit(n, T, d), unit(n, d), unit(d), rng.choice([-1.0, 1.0], n)
    tokens = Tokens(X, queries=z if queries else None, labels=y if labels else None)
    return tokens, v


def example(name, *shape, **options):
    """Tokens and head of an example of the data sets."""
    a = EXAMPLES[name](*shape, **options)
    return Tokens(a["X"], keys=a.get("keys"), queries=a.get("z"), labels=a["y"]), a.get("v")


def chosen(tokens, alpha):
    """The problem of keeping token alpha[i] of each input."""
    return Problem.of(tokens, Selection.of(tokens, alpha))


def agrees(certificate, least):
    """Whether a certificate's bounds hold the least norm, known up to rounding."""
    slack = ROUNDING * least
    return certificate.lower <= least + slack and certificate.upper >= least - slack


def sizes(norm, W):
    """(‖W‖, dual norm of W) in plain NumPy."""
    if norm in ("nuclear", "spectral"):
        s = np.linalg.svd(W, compute_uv=False)
        return (s.sum(), s[0]) if norm == "nuclear" else (s[0], s.sum())
    a = np.abs(W).ravel()
    if norm in ("l1", "max"):
        return (a.sum(), a.max()) if norm == "l1" else (a.max(), a.sum())
    p = float(norm[1:])
    return tuple(a.max() * ((a / a.max()) ** r).sum() ** (1 / r) for r in (p, p / (p - 1)))


def size_in_cvxpy(norm, W):
    """The norm of a cvxpy variable, from its definition."""
    import cvxpy as cp

    flat = cp.vec(W, order="C")
    sizes = {
        "frobenius": lambda: cp.norm(flat, 2), "l2": lambda: cp.norm(flat, 2),
        "nuclear": lambda: cp.normNuc(W), "spectral": lambda: cp.sigma_max(W),
        "l1": lambda: cp.norm(flat, 1), "max": lambda: cp.norm(flat, "inf"),
    }  # fmt: skip
    return sizes.get(norm, lambda: cp.pnorm(flat, float(norm[1:])))()
