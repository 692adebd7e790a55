"""Stack: many selection problems of one size, checked and set up at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from attsvm._utils.arrays import Floats, Ints, rectangular
from attsvm.errors import BadSelection, BadTokens
from attsvm.problem.problem import Problem
from attsvm.problem.rows import StackRows, rows_and_norms
from attsvm.problem.tokens import Tokens

T = TypeVar("T")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Stack:
    """B selection problems of one size: X (B, n, T, d), queries (B, n, dq), alpha (B, n).

    The same as B calls of `Problem.of`, checked and set up at once.

    >>> import numpy as np, attsvm
    >>> X = np.random.default_rng(0).standard_normal((100, 3, 4, 5))
    >>> stack = attsvm.Stack(X, alpha=np.zeros((100, 3), int))
    >>> many = attsvm.solve_many(stack)
    >>> len(stack), sum(one.status == "optimal" for one in many)
    (100, 85)
    """

    X: Any
    queries: Floats
    alpha: Ints

    def __init__(self, X: Any, *, queries: Any = None, alpha: Any) -> None:
        values = rectangular(X, "X")
        if values.ndim != 4:
            raise BadTokens(f"X has shape {values.shape}; a stack needs (B, n, T, d)")
        B, n, T, d = values.shape
        flat = None if queries is None else rectangular(queries, "queries")
        if flat is not None and flat.shape[:2] != (B, n):
            raise BadTokens(f"queries has shape {flat.shape}; it must be ({B}, {n}, dq)")
        width = 1 if flat is None else int(np.prod(flat.shape[2:]))
        joined = Tokens(
            values.reshape(B * n, T, d),
            queries=None if flat is None else flat.reshape(B * n, width),
        )
        chosen = rectangular(alpha, "alpha", BadSelection)
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
        query = np.repeat(np.arange(n), T - 1)
        m = len(query)
        # Each choice repeated for its rivals, which are counted with a step over it.
        chosen = self.alpha[:, :, None]
        rivals = np.arange(T - 1) + (np.arange(T - 1) >= chosen)
        first = T * np.arange(n)[:, None]
        hi = np.repeat(chosen + first, T - 1, axis=2).reshape(B, m)
        lo = (rivals + first).reshape(B, m)
        step = np.arange(B)[:, None]
        D, norms = rows_and_norms(
            np.ascontiguousarray(self.X, dtype=np.float64).reshape(B * n * T, d),
            self.queries.reshape(B * n, -1),
            (hi + n * T * step).ravel(),
            (lo + n * T * step).ravel(),
            (query + n * step).ravel(),
        )
        D, norms = D.reshape(B, m, d), norms.reshape(B, m)
        ones, none, empty = np.ones((B, m)), np.empty(0, np.int64), np.empty(0)
        keys = self.X.reshape(B, n * T, d)
        place = np.tile(query, (B, 1))
        shared = {
            "query": query,
            "tie_hi": none,
            "tie_lo": none,
            "tie_query": none,
            "c": empty,
            "c_error": empty,
            "width": T,
            "b": ones[0],
            "scalable": True,
        }
        columns = zip(keys, self.queries, hi, lo, D, norms, strict=True)
        out = [
            _filled(
                Problem,
                {
                    **shared,
                    "keys": x,
                    "queries": z,
                    "hi": h,
                    "lo": l,
                    # What the problem would form by itself on first use.
                    "_formed": (differences, length),
                },
            )
            for x, z, h, l, differences, length in columns
        ]
        return out, StackRows.plain(D, self.queries, place, norms, ones)

    def __repr__(self) -> str:
        B, n, T, d = self.X.shape
        return f"Stack({B} problems, n={n}, T={T}, d={d})"


def _filled(kind: type[T], fields: dict[str, Any]) -> T:
    """A frozen record with these fields, made without the cost of setting them one by one."""
    record = object.__new__(kind)
    object.__setattr__(record, "__dict__", fields)
    return record
