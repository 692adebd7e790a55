"""Attention, its loss and its max-margin problem from their definitions.

Shares no code with attsvm.theory.convergence. Everything is computed from dense rows, in the log
domain where e^−margin underflows; `definition` is the gradient in mpmath, straight from softmax and
loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import nnls

Array = Any


@dataclass(frozen=True, eq=False)
class Case:
    """Values X and keys K (n, T, d), queries Z (n, dq), labels y (n,), head v (d,), a loss."""

    X: Array
    K: Array
    Z: Array
    y: Array
    v: Array
    loss: str
    present: Array

    @staticmethod
    def of(tokens: Any, v: Array, loss: str) -> Case:
        """The arrays of a Tokens."""
        source = np.arange(tokens.n) if tokens.source is None else tokens.source
        y = np.ones(tokens.n) if tokens.labels is None else tokens.labels
        X, K = np.asarray(tokens.X, float)[source], np.asarray(tokens.keys, float)[source]
        return Case(X, K, tokens.queries, y, np.asarray(v, float), loss, tokens.present())

    def at(self, alpha: Array) -> Chosen:
        """The rows of a selection."""
        return Chosen(self, np.asarray(alpha))

    def under(self, loss: str) -> Case:
        """The same with another loss."""
        return replace(self, loss=loss)


def slope(loss: str, x: Array) -> Array:
    """|ℓ'(x)|."""
    if loss == "logistic":
        return np.exp(-np.logaddexp(0.0, x))
    return np.exp(-x) if loss == "exponential" else np.ones_like(x)


def rise(loss: str, x: Array, drop: Array) -> Array:
    """ℓ(x − drop) − ℓ(x) without cancellation."""
    if loss == "linear":
        return drop + 0 * x
    share = np.exp(-x) if loss == "exponential" else np.exp(-np.logaddexp(0.0, x))
    grown = np.expm1(drop) * share
    return grown if loss == "exponential" else np.log1p(grown)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The rows k = (i, t), t ≠ α_i, of a selection: a_k (k, d dq), their inputs and gaps."""

    case: Case
    alpha: Array

    @cached_property
    def names(self) -> tuple[Array, Array]:
        rivals = self.case.present.copy()
        rivals[np.arange(len(self.alpha)), self.alpha] = False
        return rivals.nonzero()

    @cached_property
    def a(self) -> Array:
        i, t = self.names
        K, Z = self.case.K, self.case.Z
        return ((K[i, self.alpha[i]] - K[i, t])[:, :, None] * Z[i][:, None, :]).reshape(len(i), -1)

    @cached_property
    def gap(self) -> Array:
        i, t = self.names
        X = self.case.X.astype(np.longdouble)
        apart = (X[i, self.alpha[i]] - X[i, t]) @ self.case.v.astype(np.longdouble)
        return (self.case.y[i] * apart).astype(float)

    @cached_property
    def top(self) -> Array:
        n = np.arange(len(self.alpha))
        return self.case.y * (self.case.X[n, self.alpha] @ self.case.v)

    @cached_property
    def limit(self) -> Array:
        """q̂_k."""
        i, _ = self.names
        return slope(self.case.loss, self.top)[i] * self.gap / len(self.alpha)

    def margins(self, W: Array) -> Array:
        """(m, k) of W (m, d dq)."""
        return W @ self.a.T

    def spread(self, m: Array) -> tuple[Array, Array]:
        """o_i = Σ e^−m, and γ_i − f_i, (..., n) each."""
        e = np.exp(-m)
        o = np.zeros((*m.shape[:-1], len(self.alpha)))
        lost = np.zeros_like(o)
        for k, j in enumerate(self.names[0]):
            o[..., j] += e[..., k]
            lost[..., j] += e[..., k] * self.gap[k]
        return o, lost / (1 + o)

    def q(self, m: Array) -> Array:
        """q_k at margins m (..., k)."""
        i, _ = self.names
        o, lost = self.spread(m)
        pull = slope(self.case.loss, self.top - lost) / (1 + o) / len(self.alpha)
        return pull[..., i] * (self.gap - lost[..., i])

    def off(self, m: Array) -> Array:
        """q_k − q̂_k without cancellation."""
        i, _ = self.names
        o, lost = self.spread(m)
        limit = slope(self.case.loss, self.top)
        if self.case.loss == "linear":
            steeper = np.zeros_like(lost)
        elif self.case.loss == "exponential":
            steeper = limit * np.expm1(lost)
        else:
            steeper = limit * (1 - limit) * np.expm1(lost) / (1 + limit * np.expm1(lost))
        part = steeper[..., i] * self.gap - (limit + steeper)[..., i] * lost[..., i]
        part = part - limit[i] * self.gap * o[..., i]
        return part / (1 + o[..., i]) / len(self.alpha)

    def gradient(self, W: Array, base: Array | float = 0.0) -> Array:
        """−∇L(W) e^base (m, d dq), base (m,)."""
        m = self.margins(W)
        return (self.q(m) * np.exp(np.asarray(base)[..., None] - m)) @ self.a

    def excess(self, W: Array) -> Array:
        """n(L(W) − L⋆) (m,), L⋆ the loss with all attention on α."""
        _, lost = self.spread(self.margins(W))
        return rise(self.case.loss, self.top, lost).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Merged:
    """The same with equal rows as one, whose pull is the sum of theirs."""

    single: Chosen

    @cached_property
    def _found(self) -> tuple[Array, Array, Array]:
        return np.unique(self.single.a, axis=0, return_index=True, return_inverse=True)

    @property
    def alpha(self) -> Array:
        return self.single.alpha

    @property
    def a(self) -> Array:
        return self._found[0]

    @property
    def names(self) -> tuple[Array, Array]:
        i, t = self.single.names
        return i[self._found[1]], t[self._found[1]]

    def _sum(self, x: Array) -> Array:
        out = np.zeros((*x.shape[:-1], len(self.a)))
        for k, j in enumerate(self._found[2].ravel()):
            out[..., j] += x[..., k]
        return out

    @cached_property
    def limit(self) -> Array:
        return self._sum(self.single.limit)

    def margins(self, W: Array) -> Array:
        return W @ self.a.T

    def q(self, m: Array) -> Array:
        return self._sum(self.single.q(m[..., self._found[2].ravel()]))

    def off(self, m: Array) -> Array:
        return self._sum(self.single.off(m[..., self._found[2].ravel()]))

    def gradient(self, W: Array, base: Array | float = 0.0) -> Array:
        return self.single.gradient(W, base)


@dataclass(frozen=True, eq=False)
class Solved:
    """The max-margin solution W (d dq,), its norm, its tight rows C and their multipliers."""

    W: Array
    N: float
    C: Array
    lam: Array


def max_margin(a: Array) -> Solved:
    """min ‖W‖ with a W ≥ 1, as the least-distance problem of Lawson and Hanson, then refined."""
    scale = np.linalg.norm(a, axis=1).max()
    rows = a / scale
    top = np.vstack([rows.T, np.ones(len(a))])
    u, _ = nnls(top, np.append(np.zeros(rows.shape[1]), 1.0), maxiter=100 * len(a))
    C = (u > 1e-9 * u.max()).nonzero()[0]
    G = rows[C] @ rows[C].T
    exact = rows[C].astype(np.longdouble)
    lam = np.linalg.lstsq(G, np.ones(len(C)), rcond=None)[0].astype(np.longdouble)
    for _ in range(4):
        left = (1 - exact @ (exact.T @ lam)).astype(float)
        lam = lam + np.linalg.lstsq(G, left, rcond=None)[0]
    W = (exact.T @ lam).astype(float) / scale
    return Solved(W, float(np.linalg.norm(W)), C, lam.astype(float) / scale**2)


def least_offset(a: Array, q: Array, ray: Array) -> tuple[Array, float]:
    """The P ⟂ ray in the span of rows a (c, D) with the least Σ q_k e^−⟨a_k, P⟩, and that least.

    By damped Newton steps on the logarithm of the sum.
    """
    unit = ray / np.linalg.norm(ray)
    across = a - (a @ unit)[:, None] * unit
    _, s, V = np.linalg.svd(across, full_matrices=False)
    basis = V[s > 1e-10 * max(s.max(), 1e-300)]
    B, x = across @ basis.T, np.zeros(len(basis))

    def value(x: Array) -> float:
        z = np.log(q) - B @ x
        return float(z.max() + np.log(np.exp(z - z.max()).sum()))

    def newton(x: Array) -> tuple[Array, Array]:
        """The slope, and the step to where it vanishes."""
        z = np.log(q) - B @ x
        p = np.exp(z - z.max())
        p /= p.sum()
        slope = -p @ B
        H = (B.T * p) @ B - np.outer(slope, slope)
        H = H + 1e-14 * np.trace(H) * np.eye(len(H))
        return slope, -np.linalg.lstsq(H, slope, rcond=None)[0]

    now = value(x)
    for _ in range(500):
        slope, step = newton(x)
        step *= min(1.0, 30 / max(np.abs(B @ step).max(initial=0.0), 1e-300))
        size = 1.0
        while size > 1e-9 and value(x + size * step) > now + 1e-4 * size * float(slope @ step):
            size /= 2
        if size <= 1e-9 or np.abs(slope).max(initial=0.0) < 1e-13:
            break
        x, now = x + size * step, value(x + size * step)
    for _ in range(3):  # values no longer tell the steps apart, slopes do
        x = x + newton(x)[1]
    now = value(x)
    return x @ basis, float(np.exp(now))


def definition(case: Case, W: Array, digits: int = 60) -> tuple[Any, list[list[Any]], Any]:
    """L(W), −∇L(W) (d, dq) and the least top attention of an input, in mpmath: softmax over the
    logits, the value of the head, the loss."""
    import mpmath

    with mpmath.workdps(digits):
        f = mpmath.mpf
        d, dq = W.shape
        n = len(case.y)
        total, least, out = f(0), f(1), [[f(0)] * dq for _ in range(d)]
        head = [f(float(x)) for x in case.v]
        for i in range(n):
            there = case.present[i].nonzero()[0]
            z = [f(float(x)) for x in case.Z[i]]
            Wz = [mpmath.fdot([f(float(x)) for x in row], z) for row in W]
            keys = [[f(float(x)) for x in case.K[i, t]] for t in there]
            values = [[f(float(x)) for x in case.X[i, t]] for t in there]
            logits = [mpmath.fdot(k, Wz) for k in keys]
            e = [mpmath.exp(u - max(logits)) for u in logits]
            s = [x / sum(e) for x in e]
            least = min(least, max(s))
            score = [f(float(case.y[i])) * mpmath.fdot(x, head) for x in values]
            value = mpmath.fdot(s, score)
            if case.loss == "logistic":
                loss, steep = mpmath.log1p(mpmath.exp(-value)), 1 / (1 + mpmath.exp(value))
            elif case.loss == "exponential":
                loss = steep = mpmath.exp(-value)
            else:
                loss, steep = -value, f(1)
            total += loss / n
            pull = [steep / n * s_t * (g - value) for s_t, g in zip(s, score, strict=True)]
            for r in range(d):
                along = mpmath.fdot(pull, [k[r] for k in keys])
                for c in range(dq):
                    out[r][c] += along * z[c]
        return total, out, least
