"""Stack: many selection problems of one size, checked, set up and certified at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.bounds import above, below, worst_margin
from attsvm.certificate import Certificate, Status
from attsvm.errors import BadSelection, BadTokens
from attsvm.norms import Norm, norm_of
from attsvm.problem import Problem
from attsvm.tokens import Floats, Ints, Tokens


@dataclass(frozen=True, eq=False)
class StackRows:
    """The margins of B problems of one size, without ties.

    D (B, m, d) differences, Z (B, m, dq) the query of each row, z (B, g, dq) the queries, query
    (B, m) the row's place among them, norms (B, m) ‖Δ‖‖z‖, b (B, m).
    """

    D: Floats
    Z: Floats
    z: Floats
    query: Ints
    norms: Floats
    b: Floats

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> StackRows:
        """The rows of these problems, stacked."""
        return cls(
            np.stack([p.differences() for p in problems]),
            np.stack([p.queries[p.query] for p in problems]),
            np.stack([p.queries for p in problems]),
            np.stack([p.query for p in problems]),
            np.stack([p.row_norms for p in problems]),
            np.stack([p.b for p in problems]),
        )


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Stack:
    """B selection problems of one size: X (B, n, T, d), queries (B, n, dq), alpha (B, n).

    The same as B calls of `Problem.of`, checked and set up at once.
    """

    X: Any
    queries: Floats
    alpha: Ints

    def __init__(self, X: Any, *, queries: Any = None, alpha: Any) -> None:
        values = np.asarray(X)
        if values.ndim != 4:
            raise BadTokens(f"X has shape {values.shape}; a stack needs (B, n, T, d)")
        B, n, T, d = values.shape
        flat = None if queries is None else np.asarray(queries)
        if flat is not None and flat.shape[:2] != (B, n):
            raise BadTokens(f"queries has shape {flat.shape}; it must be ({B}, {n}, dq)")
        width = 1 if flat is None else int(np.prod(flat.shape[2:]))
        joined = Tokens(
            values.reshape(B * n, T, d),
            queries=None if flat is None else flat.reshape(B * n, width),
        )
        chosen = np.asarray(alpha)
        if chosen.shape != (B, n) or chosen.dtype.kind not in "iu":
            raise BadSelection(f"alpha has shape {chosen.shape}; it must be whole ({B}, {n})")
        if chosen.size and (chosen.min() < 0 or chosen.max() >= T):
            raise BadSelection(f"alpha must lie between 0 and {T - 1}")
        if T == 1:
            raise BadSelection("every token is kept: nothing is left to separate")
        object.__setattr__(self, "X", joined.X.reshape(B, n, T, d))
        object.__setattr__(self, "queries", joined.queries.reshape(B, n, -1))
        object.__setattr__(self, "alpha", chosen.astype(np.int64))

    def __len__(self) -> int:
        return len(self.X)

    def problems(self) -> list[Problem]:
        """The problems one by one, sharing the stack's arrays."""
        return self.set_up()[0]

    def set_up(self) -> tuple[list[Problem], StackRows]:
        """The problems and their rows, formed for the whole stack at once."""
        B, n, T, d = self.X.shape
        keep = np.ones((B, n, T), dtype=bool)
        np.put_along_axis(keep, self.alpha[:, :, None], False, axis=2)
        query = np.repeat(np.arange(n), T - 1)
        hi = query * T + np.repeat(self.alpha, T - 1, axis=1)
        lo = keep.reshape(B, -1).nonzero()[1].reshape(B, -1)
        ones, none, empty = np.ones((B, len(query))), np.empty(0, np.int64), np.empty(0)
        keys = self.X.reshape(B, n * T, d)
        each = np.arange(B)[:, None]
        D = keys[each, hi].astype(np.float64)
        D -= keys[each, lo]
        Z = self.queries[:, query]
        norms = np.sqrt(np.einsum("bkd,bkd->bk", D, D))
        norms *= np.sqrt(np.einsum("bnd,bnd->bn", self.queries, self.queries))[:, query]
        place = np.broadcast_to(query, (B, len(query)))
        out = []
        for k in range(B):
            problem = Problem(
                keys[k], self.queries[k], hi[k], lo[k], query, ones[k], none, none, none, empty, T
            )
            # What the problem would form by itself on first use.
            problem.__dict__["_formed"] = D[k], norms[k]
            out.append(problem)
        return out, StackRows(D, Z, self.queries, place, norms, ones)

    def __repr__(self) -> str:
        B, n, T, d = self.X.shape
        return f"Stack({B} problems, n={n}, T={T}, d={d})"


def certify_stack(
    problems: Sequence[Problem],
    norm: str | Norm,
    W: Floats,
    multipliers: Floats,
    *,
    rows: StackRows | None = None,
    tol: float | None = None,
) -> list[Certificate]:
    """The Certificates of a stack of problems of one size, all without ties and with b > 0.

    W (B, d, dq), multipliers (B, m), rows the problems' margins if they are at hand. The same
    bounds as `certify`, in one pass.
    """
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else tol
    shape = problems[0].shape
    rows = StackRows.of(problems) if rows is None else rows
    D, Z, b, norms = rows.D, rows.Z, rows.b, rows.norms
    lam = np.fmax(multipliers, 0.0)
    worth = np.einsum("bk,bk->b", b, lam)
    low = below(
        geometry, shape, worth=worth, absolute=worth, size=np.einsum("bk,bk->b", norms, lam),
        used=(lam > 0).sum(axis=1), G=np.matmul(D.transpose(0, 2, 1), lam[:, :, None] * Z),
    )  # fmt: skip
    finite = np.isfinite(W).all(axis=(1, 2))
    W = np.where(finite[:, None, None], W, 0.0)
    margins = np.einsum("bkd,bkd->bk", np.matmul(Z, W.transpose(0, 2, 1)), D)
    worst: Floats = worst_margin(shape, W, margins=margins, row_norms=norms, b=b)
    high = above(geometry, shape, W, worst)
    scaled = W / np.where(worst > 0, worst, 1.0)[:, None, None]
    lam = lam / np.where(low.null | (low.dual == 0), 1.0, low.dual)[:, None]
    met = np.asarray(high <= low.value * (1 + goal))
    none = np.empty(0)
    out = []
    for k, problem in enumerate(problems):
        null, feasible = bool(low.null[k]), bool(worst[k] > 0)
        status: Status = "inseparable" if null else "optimal" if met[k] else "stalled"
        out.append(
            Certificate(
                problem, geometry, scaled[k] if feasible and not null else None, lam[k], none,
                float(low.value[k]), np.inf if null else float(high[k]), status, goal,
                float(low.residual[k]), "numerical" if null else None,
            )
        )  # fmt: skip
    return out
