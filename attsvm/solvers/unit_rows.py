"""Rows scaled to length one: products, bounds, repairs and Newton matrices; nothing is trusted.

    min ‖W‖                   s.t.  D_kᵀ W Z_k ≥ b_k (margins),  = b_k (free rows: ties)
    min ½‖W‖² + Σ cap_k ξ_k   s.t.  D_kᵀ W Z_k ≥ b_k − ξ_k,  ξ ≥ 0,  ties exact

With multipliers λ, A(W)_k = D_kᵀ W Z_k and A*λ = Σ λ_k D_k Z_kᵀ the lower bounds are
bᵀλ/‖A*λ‖_dual, and bᵀλ − ½‖A*λ‖²_dual for λ ≤ cap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.norms import Norm
from attsvm.norms.norm import Inner

# A linear map on vectors.
Solve = Callable[[Floats], Floats]

# A row missed by less than this is restored by a small change of W, else by scaling W.
SMALL_MISS = 1e-7
# Below this share of nonzero weights they are kept as a sparse matrix.
SPARSE = 0.2


class BoundRows(Protocol):
    """What the bounds of a pair need of rows: b (k,), free (k,) True on ties, and products."""

    @property
    def b(self) -> Floats: ...

    @property
    def free(self) -> Bools: ...

    def values(self, W: Floats) -> Floats:
        """A(W) (k,)."""

    def adjoint(self, lam: Floats) -> Floats:
        """A*λ (d, dq)."""


@dataclass(frozen=True)
class UnitRows:
    """Rows D_kᵀ W Z_k ≥ b_k, or = b_k where free; D (k, dx), Z (k, dz), b (k,), free (k,).

    With cap (k,), inf on ties, the margin is soft; base: what the rows left out add to both bounds.
    """

    D: Floats
    Z: Floats
    b: Floats
    free: Bools
    cap: Floats | None = None
    base: float = 0.0

    @cached_property
    def groups(self) -> QueryGroups:
        """Which rows have the same Z."""
        return QueryGroups.of(self.Z)

    @cached_property
    def stacked(self) -> Floats:
        """A (k, dx·dz): row k is vec(D_k Z_kᵀ), so that A @ W.ravel() = A(W)."""
        return np.ascontiguousarray(
            (self.D[:, :, None] * self.Z[:, None, :]).reshape(len(self.D), -1)
        )

    def part(self, chosen: Bools) -> UnitRows:
        """The rows of `chosen` (k,)."""
        return UnitRows(self.D[chosen], self.Z[chosen], self.b[chosen], self.free[chosen])

    def values(self, W: Floats) -> Floats:
        """A(W) (k,)."""
        return np.asarray(np.einsum("ke,ke->k", self.D @ W, self.Z))

    def adjoint(self, lam: Floats) -> Floats:
        """A*λ = Σ_k λ_k D_k Z_kᵀ (dx, dz)."""
        return self.D.T @ (lam[:, None] * self.Z)

    @cached_property
    def _mend(self) -> Floats:
        """The least W for a unit miss of each tie (dx·dz, l)."""
        return np.asarray(np.linalg.pinv(self.stacked[self.free], rcond=1e-10), dtype=np.float64)

    def tied(self, W: Floats) -> Floats:
        """W after the least change that restores the ties, which an upper bound needs."""
        if not self.free.any():
            return W
        miss = (self.b - self.values(W))[self.free]
        return W + (self._mend @ miss).reshape(W.shape)

    def within(self, lam: Floats) -> Floats:
        """λ clipped to its bounds (k,)."""
        return np.where(self.free, lam, np.clip(lam, 0.0, self.cap))

    def start(self, norm: Norm, W: Floats, lam: Floats) -> BestPair:
        """W and λ as the best pair so far, with their bounds."""
        return self.judged(BestPair(self, norm, W, lam, self.cap, self.base), W, lam)

    def judged(self, best: BestPair, W: Floats, lam: Floats) -> BestPair:
        """The better of `best` and (W, λ), after W was changed to meet the ties."""
        best = best.judged(lam=lam)
        if self.cap is None:
            return best.judged(W=W).judged(W=settle(self, W))
        return best.judged(W=self.tied(W))


@dataclass(frozen=True, eq=False)
class BestPair:
    """W of least upper bound and λ of greatest lower bound so far, each judged by itself.

    Without `cap` W is scaled to worst margin 1 and λ to ‖A*λ‖_dual = 1, and upper = ‖W‖. With
    `cap` (k,), inf on ties, it is a soft margin, and `base` is what the rows left out add to both
    bounds. Ties and rows with b = 0 are not restored by scaling: what that costs is added to first
    order, twice.
    """

    rows: BoundRows
    norm: Norm
    W: Floats
    lam: Floats
    cap: Floats | None = None
    base: float = 0.0
    upper: float = np.inf
    lower: float = -np.inf

    @property
    def gap(self) -> float:
        """upper/lower − 1 of the whole problem."""
        whole = self.lower + self.base
        return (self.upper - self.lower) / whole if whole > 0.0 else np.inf

    def judged(self, *, W: Floats | None = None, lam: Floats | None = None) -> BestPair:
        """The better of this and W, and of this and λ, which may have any scale."""
        best = self if lam is None else self._with_multipliers(lam)
        return best if W is None else best._with_weights(W)

    def _with_multipliers(self, lam: Floats) -> BestPair:
        lam = np.where(self.rows.free, lam, np.clip(lam, 0.0, self.cap))
        worth, size = float(self.rows.b @ lam), float(self.norm.dual(self.rows.adjoint(lam)))
        if not np.isfinite(worth + size):
            return self
        if self.cap is None:
            lower, share = (worth / size, 1.0 / size) if size > 0.0 else (-np.inf, 1.0)
        else:
            # The best multiple of λ within the caps.
            most = float((self.cap[lam > 0.0] / lam[lam > 0.0]).min(initial=np.inf))
            share = min(worth / size**2, most) if worth > 0.0 and size > 0.0 else 1.0
            lower = share * worth - 0.5 * (share * size) ** 2
        return replace(self, lam=share * lam, lower=lower) if lower > self.lower else self

    def upper_bound(self, W: Floats) -> tuple[float, float]:
        """The bound that W gives, and the share by which it is scaled up for it; inf for none."""
        free, b, values = self.rows.free, self.rows.b, self.rows.values(W)
        short, upper, least, fixed = b - values, float(self.norm.value(W)), 1.0, free
        if self.cap is None:
            scaled = (b > 0.0) & ~free
            least, fixed = float((values[scaled] / b[scaled]).min(initial=np.inf)), ~scaled
            if b[free].any():
                least = min(least, 1.0)  # W may shrink no more than the ties allow
            if not 0.0 < least < np.inf:
                return np.inf, 1.0
        else:
            upper = 0.5 * upper**2 + float(self.cap[~free] @ np.maximum(short[~free], 0.0))
        if fixed.any():
            miss = np.where(free, np.abs(short), np.maximum(short, 0.0))
            upper += 2.0 * float(np.abs(self.lam[fixed]) @ miss[fixed])
        return upper / least, least

    def _with_weights(self, W: Floats) -> BestPair:
        upper, least = self.upper_bound(W)
        if not upper < self.upper:
            return self
        tied = self.rows.b[self.rows.free].any()  # then W stays, not to miss the ties by more
        return replace(self, W=W.copy() if tied else W / least, upper=upper)


def schur_solver(S: Floats, apply: Solve) -> Solve:
    """Solver of S x = r: Cholesky with a ridge, then iterative refinement against the true S.

    Duplicated rows make S singular while r stays in its range; the ridge (relative to the diagonal)
    is raised until the Cholesky succeeds, and refinement takes its effect out again.
    S (k, k) in C order, symmetric, destroyed; apply(x) = S x computed from the rows themselves.
    """
    diagonal = np.maximum(S.diagonal(), np.finfo(float).tiny)
    F = S.T  # Fortran order: the factor overwrites the lower triangle, the upper one keeps S
    for ridge in 10.0 ** np.arange(-15.0, -2.0, 2.0):
        np.fill_diagonal(F, diagonal * (1.0 + ridge))
        factor, info = scipy.linalg.lapack.dpotrf(F, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            break
        lower = np.tril_indices_from(F, -1)
        F[lower] = F.T[lower]
    else:
        raise np.linalg.LinAlgError("Schur matrix is not positive definite")

    def solve(rhs: Floats) -> Floats:
        x, r = np.zeros_like(rhs), rhs
        for _ in range(10):
            trial = x + scipy.linalg.lapack.dpotrs(factor, r, lower=1)[0]
            trial_r = rhs - apply(trial)
            old, new = np.linalg.norm(r), np.linalg.norm(trial_r)
            if not new < old:
                break
            x, r = trial, trial_r
            if new > 0.5 * old or new < 1e-15 * np.linalg.norm(rhs):
                break
        return x

    return solve


def refined(
    solve: Solve, apply: Solve, r: Floats, *, most: int, enough: float, order: float = 2
) -> Floats:
    """x with apply(x) = r, from an approximate inverse: at most so many steps of refinement.

    It ends at a residual of the share `enough` of r, in the norm of this order, or where a step no
    longer helps.
    """
    x = solve(r)
    left = r - apply(x)
    size, error = np.linalg.norm(r, order), np.linalg.norm(left, order)
    for _ in range(most):
        if not error > enough * size:
            break
        trial = x + solve(left)
        left = r - apply(trial)
        smaller = np.linalg.norm(left, order)
        if not smaller < 0.7 * error:
            break
        x, error = trial, smaller
    return x


def settle(rows: UnitRows, W: Floats) -> Floats:
    """W after the least Frobenius change that restores ties and narrowly missed margins.

    A miss of rounding size on a row whose b is itself tiny would cost much if W were scaled.
    """
    chosen = rows.free.copy()
    for _ in range(3):
        short = rows.b - rows.values(W)
        chosen |= short > 0.0
        if not chosen.any() or np.abs(short[chosen]).max() > SMALL_MISS:
            break
        W = W + _least_change(replace(rows.part(chosen), b=short[chosen]))
    return W


def _least_change(rows: UnitRows) -> Floats:
    """Least Frobenius V with A(V) = b: V = A*x with A A* x = b, A A* = (D Dᵀ)∘(Z Zᵀ)."""
    gram = (rows.D @ rows.D.T) * (rows.Z @ rows.Z.T)
    return rows.adjoint(schur_solver(gram, lambda x: rows.values(rows.adjoint(x)))(rows.b))


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Which rows have the same query: queries (g, dq); order (k,) sorts the rows, back undoes it.

    query (k,): the places of the sorted rows in queries, growing.
    """

    queries: Floats
    query: Ints
    order: Ints
    back: Ints

    @classmethod
    def of(cls, Z: Floats) -> QueryGroups:
        """The groups of rows with queries Z (k, dq)."""
        queries, place = np.unique(Z, axis=0, return_inverse=True)
        order = np.argsort(place.ravel(), kind="stable")
        return cls(queries, place.ravel()[order], order, np.argsort(order))

    def whole(self, upper: Floats) -> Floats:
        """A matrix of sorted rows from its upper triangle, in the order of the rows."""
        upper = np.triu(upper)
        upper += np.triu(upper, 1).T
        return np.ascontiguousarray(upper[np.ix_(self.back, self.back)])


def weighted_gram(
    deltas: Floats,
    query: Ints,
    queries: Floats,
    weights: Floats,
    crossed: Floats | None = None,
) -> Floats:
    """A diag(D) Aᵀ (k, k) in C order; its upper triangle alone is filled, the rest is undefined.

    For the rows I of query i and the rows J of query j, with m_ij = D (z_i∘z_j) (d,),

        block (I, J) = Δ_I diag(m_ij) Δ_Jᵀ

    so k rows of g queries take O(g² d dq + k² d), or O(g² nnz(D) + k² d) where D is mostly zero,
    and never rows × unknowns, k × d·dq. Beside the diagonal, a weight C_ab between the entries
    (a, b) and (b, a) of W, a, b < r, adds Δ_I (C∘z_j z_iᵀ) Δ_Jᵀ in the first r features:
    O(k g r²) more.

    deltas: (k, d), sorted by query. query: (k,) places in queries (g, dq), growing. weights: D as
    a matrix (d, dq). crossed: C (r, r), symmetric.
    """
    k, d = deltas.shape
    out, scaled = np.empty((k, k)), np.empty((k, d))
    used, first = np.unique(query, return_index=True)
    ends = np.append(first, k)
    z, place = queries[used], np.searchsorted(used, query)
    few = np.count_nonzero(weights) < SPARSE * weights.size
    D: Any = scipy.sparse.csr_array(weights) if few else weights
    for i in range(len(used)):
        low, high = ends[i], ends[i + 1]
        m = np.ascontiguousarray((D @ (z[i:] * z[i]).T).T)  # (g − i, d)
        rest = scaled[low:]
        np.take(m, place[low:] - i, axis=0, out=rest, mode="clip")
        rest *= deltas[low:]
        if crossed is not None:
            r = len(crossed)
            turned = (deltas[low:, :r] * z[i, :r]) @ crossed
            rest[:, :r] += turned * z[place[low:], :r]
        np.matmul(deltas[low:high], rest.T, out=out[low:high, low:])
    return out


def dense(k: int, N: int) -> float:
    """Bytes of six k × k matrices and four copies of k rows of N unknowns: measured peaks."""
    return 8.0 * (6.0 * k * k + 4.0 * k * N)


class Method(NamedTuple):
    """How a norm is solved on unit rows, in a space where the least Frobenius norm is 1.

    inner(rows, norm=…, tol=…, W0=…, lam0=…) on UnitRows with ‖D_k‖‖Z_k‖ = 1, with or without caps,
    returns the best (W, λ) found, untrusted; W0 and lam0 are the Frobenius optimum, of norm 1, and
    its multipliers. need(k, N): the bytes that k rows of N unknowns take.
    """

    inner: Inner
    need: Callable[[int, int], float] = dense
