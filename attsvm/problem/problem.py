"""Problem: the margins and ties that a max-margin direction has to meet.

    min ‖W‖   s.t.   Δ_kᵀ W z_k ≥ b_k  (margins, b ≥ 0),      Δ_lᵀ W z_l = c_l  (ties)

Ties may be known only up to an error: then |Δ_lᵀ W z_l − c_l| ≤ c_error_l. Every row is rank one,
Δ_k z_kᵀ, and Δ_k is a difference of two entries of one pool of keys:

    Δ_k = keys[hi_k] − keys[lo_k]   (lo_k = −1: nothing is subtracted),      z_k = queries[query_k]

so no row is ever stored as a matrix and the tokens are never copied. Margins are formed from Δ,
not as a difference of two scores, which would cancel for tokens that lie close together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Floats, Ints, numbers
from attsvm._utils.expected import place, places
from attsvm._utils.objects import lazy
from attsvm.errors import BadSelection, BadTokens
from attsvm.problem.rows import (
    StackRows,
    errors_of,
    given_rows,
    lengths,
    log_ratio_ties,
    pairwise,
    right_sides,
    row_index,
    row_values,
    rows_and_norms,
    tie_chains,
    tie_errors,
)
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens

# A row of this size leads to multipliers near the largest float.
SMALLEST_ROW = 1e-140
# Sizes that a solver takes as they are; others are scaled first.
MIDDLE = (1e-60, 1e60)
# Differences are kept in memory up to this many numbers, and formed block by block beyond.
_KEEP = 1 << 22
_NONE = np.empty(0, np.int64)
_NO_LEVELS = np.empty(0)


def _no_levels() -> Floats:
    return _NO_LEVELS


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Margins Δ_kᵀ W z_k ≥ b_k and ties Δ_lᵀ W z_l = c_l on a matrix W (d, dq).

    keys (N, d), queries (g, dq); hi, lo, query, b (m,): the margins; tie_hi, tie_lo, tie_query,
    c (l,): the ties; c_error (l,): how far each tie may be from its c, 0 unless c is rounded data
    (a logarithm, say) that no W may meet to the last digit. `width` is T when the keys are tokens
    of inputs of T places (then `rows` names input and tokens), else 0.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, [0])
    >>> problem.margins([[0.0], [2.0]])
    array([2., 2.])
    """

    keys: NDArray[Any]
    queries: Floats
    hi: Ints
    lo: Ints
    query: Ints
    b: Floats
    tie_hi: Ints
    tie_lo: Ints
    tie_query: Ints
    c: Floats
    width: int = 0
    c_error: Floats = field(default_factory=_no_levels)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c_error", errors_of(self.c, self.c_error))

    @classmethod
    def of(cls, tokens: Tokens, keep: Kept, *, b: Any = None) -> Problem:
        """The problem in which each input's kept token beats the dropped ones.

        With one kept token α: (k_iα − k_it)ᵀ W z_i ≥ b_it for every t ≠ α (b = 1 unless given,
        as (n,) or (n, T), none negative). With several, their logits tie, and the first stands
        for all of them in the margins. keep: a Selection, or indices: Problem.of(tokens, [0, 2]).
        """
        keep = Selection.of(tokens, keep)
        n, T = tokens.n, tokens.T
        dropped = ~keep.kept if tokens.mask is None else ~keep.kept & tokens.mask
        place = dropped.ravel().nonzero()[0]
        if not len(place):
            raise BadSelection("every token is kept: nothing is left to separate")
        rows = place // T
        base = tokens.offsets()
        hi = (base + keep.kept.argmax(axis=1))[rows]
        lo = place if tokens.source is None else base[rows] + place % T
        right = np.ones(len(rows)) if b is None else right_sides(b, n, T)[rows, place % T]
        flat = tokens.keys.reshape(-1, tokens.keys.shape[-1])
        if tokens.mask is None and len(place) == n * (T - 1):  # one kept token each: no tie
            return cls(
                flat, tokens.queries, hi, lo, rows, right, _NONE, _NONE, _NONE, _NO_LEVELS, T
            )
        ties = tie_chains(keep, base)
        return cls(flat, tokens.queries, hi, lo, rows, right, *ties, np.zeros(len(ties[0])), T)

    @classmethod
    def finite(cls, tokens: Tokens, keep: Kept, attention: Any) -> Problem:
        """The equalities of the finite part: logit differences of kept tokens are log-ratios.

        (k_it − k_iτ)ᵀ W z_i = log(s_it / s_iτ) for kept t, τ, with attention s (n, T), positive
        on the kept tokens. The logarithms are rounded, so ties that depend on each other may
        contradict each other in the last digits: c_error says how far they may be moved.
        """
        keep = Selection.of(tokens, keep)
        flat = tokens.keys.reshape(-1, tokens.keys.shape[-1])
        hi, lo, query, c, error = log_ratio_ties(tokens, keep, attention)
        return cls(
            flat,
            tokens.queries,
            _NONE,
            _NONE,
            _NONE,
            np.empty(0),
            hi,
            lo,
            query,
            c,
            tokens.T,
            error,
        )

    @classmethod
    def any_of(cls, tokens: Tokens, keep: Kept, winners: Any) -> Problem:
        """The convex piece in which `winners` (n,) of the kept sets beat every dropped token.

        Kept tokens other than the winner are not constrained.
        """
        keep = Selection.of(tokens, keep)
        whole = cls.of(tokens, Selection.of(tokens, winners))
        dropped = ~keep.kept[whole.rows[:, 0], whole.rows[:, 2]]
        if not dropped.any():
            raise BadSelection("every token is kept: nothing is left to separate")
        return whole.part(dropped)

    @classmethod
    def of_labels(cls, tokens: Tokens, keep: Kept) -> Problem:
        """The problem of the decoder: y_i v·x_iα ≥ 1 on the kept tokens, in the unknown v (d, 1).

        The label is the query, of width one.
        """
        keep = Selection.of(tokens, keep)
        if tokens.labels is None:
            raise BadTokens("labels are missing: the decoder problem needs a label for each input")
        hi = tokens.offsets() + keep.indices
        sign = np.where(tokens.labels > 0, 0, 1)
        flat = tokens.X.reshape(-1, tokens.d)
        none = np.full(len(hi), -1)
        return cls(
            flat,
            np.array([[1.0], [-1.0]]),
            hi,
            none,
            sign,
            np.ones(len(hi)),
            _NONE,
            _NONE,
            _NONE,
            np.empty(0),
            tokens.T,
        )

    @classmethod
    def from_rows(
        cls,
        differences: Any,
        queries: Any = None,
        *,
        b: Any = None,
        ties: Any = None,
        tie_queries: Any = None,
        c: Any = None,
        c_error: Any = None,
    ) -> Problem:
        """The problem with rows given directly: Δ (m, d), z (m, dq), b (m,); ties (l, d) likewise.

        Without queries they are 1 (the prompt form); without b and c these are 1 and 0. Numbers
        are taken as they stand: give c_error (l,), or one number, where c is rounded.
        """
        D, Z, right, E, Y, level = given_rows(differences, queries, b, ties, tie_queries, c)
        error = tie_errors(c_error, len(E))
        m, place = len(D), np.arange(len(D) + len(E))
        none = np.full(len(place), -1)
        return cls(
            np.concatenate([D, E]),
            np.concatenate([Z, Y]),
            place[:m],
            none[:m],
            place[:m],
            right,
            place[m:],
            none[m:],
            place[m:],
            level,
            0,
            error,
        )

    @property
    def m(self) -> int:
        """The number of margins."""
        return len(self.hi)

    @property
    def ties(self) -> int:
        """The number of ties."""
        return len(self.tie_hi)

    @lazy
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of W."""
        return int(self.keys.shape[1]), int(self.queries.shape[1])

    @lazy
    def scalable(self) -> bool:
        """Whether scaling up makes any W with positive margins feasible: no tie, no zero b."""
        return not len(self.tie_hi) and bool(self.b.all())

    @lazy
    def homogeneous(self) -> bool:
        """Whether every tie has right-hand side 0, exactly: then scaling keeps them."""
        return not (self.c.any() or self.c_error.any())

    @property
    def rows(self) -> Ints:
        """For each margin (input, kept, dropped), (m, 3); −1 where there is no such token."""
        return self._names(self.hi, self.lo, self.query)

    @property
    def tie_rows(self) -> Ints:
        """For each tie (input, token, token), (l, 3)."""
        return self._names(self.tie_hi, self.tie_lo, self.tie_query)

    def _names(self, hi: Ints, lo: Ints, query: Ints) -> Ints:
        if not self.width:
            return np.stack([query, hi, lo], axis=1)
        T = self.width
        pair = lo >= 0
        return np.stack([np.where(pair, query, hi // T), hi % T, np.where(pair, lo % T, -1)], 1)

    def differences(self, index: Any = None) -> Floats:
        """Δ (k, d) of the margins in `index`, of all without it."""
        if index is None:
            return self._formed[0] if self._small else pairwise(self.keys, self.hi, self.lo)
        with places("index", self.m):
            if self._small:
                part: Floats = self._formed[0][index]
                return part
            return pairwise(self.keys, self.hi[index], self.lo[index])

    def tie_differences(self) -> Floats:
        """Δ (l, d) of the ties."""
        return pairwise(self.keys, self.tie_hi, self.tie_lo)

    @lazy
    def _small(self) -> bool:
        return bool(self.m * self.keys.shape[1] <= _KEEP)

    @lazy
    def _formed(self) -> tuple[Floats, Floats]:
        """Δ and its norms of a small problem, formed once."""
        keys = self.keys
        if keys.dtype == np.float64 and keys.flags.c_contiguous and keys.flags.writeable:
            queries = np.ascontiguousarray(self.queries)
            return rows_and_norms(keys, queries, self.hi, self.lo, self.query)
        D = pairwise(keys, self.hi, self.lo)
        return D, lengths(D) * lengths(self.queries)[self.query]

    @lazy
    def stacked(self) -> StackRows:
        """The margins as a stack of one, for kernels."""
        return StackRows.alone(self.differences(), self.queries, self.query, self.row_norms, self.b)

    def is_zero(self, k: int) -> bool:
        """Whether margin k is exactly zero: the key difference or the query is."""
        k = place(k, self.m, "k")
        return not (self.differences([k]).any() and self.queries[self.query[k]].any())

    def tie_is_zero(self, l: int) -> bool:
        """Whether tie l is exactly zero."""
        l = place(l, self.ties, "l")
        D = pairwise(self.keys, self.tie_hi[[l]], self.tie_lo[[l]])
        return not (D.any() and self.queries[self.tie_query[l]].any())

    def check_sizes(self) -> None:
        """Raises BadTokens when a row that is not exactly zero is too small to compute with."""
        if self.smallest >= SMALLEST_ROW and not self.ties:
            return
        sides = (
            (self.row_norms, self.is_zero, self.rows, "row"),
            (self.tie_norms, self.tie_is_zero, self.tie_rows, "tie"),
        )
        for sizes, zero, names, what in sides:
            for k in (sizes < SMALLEST_ROW).nonzero()[0]:
                if not zero(int(k)):
                    i, kept, other = names[k]
                    raise BadTokens(
                        f"the {what} of input {i}, tokens {kept} and {other}, has size "
                        f"{sizes[k]:.1e}, too small to compute with; rescale that input"
                    )

    @lazy
    def smallest(self) -> float:
        """The least ‖Δ_k‖‖z_k‖: zero when a row is zero, inf without margins."""
        return float(self.row_norms.min()) if self.m else np.inf

    @lazy
    def well_scaled(self) -> bool:
        """Whether the largest row and right-hand side lie in MIDDLE, or are zero."""
        sizes = [float(self.row_norms.max()), float(self.b.max())] if self.m else []
        if self.ties:
            sizes += [float(self.tie_norms.max()), float(np.abs(self.c).max())]
        return all(x == 0.0 or MIDDLE[0] < x < MIDDLE[1] for x in sizes)

    def _blocks(self) -> list[slice]:
        step = max(1, _KEEP // self.keys.shape[1])
        return [slice(start, start + step) for start in range(0, self.m, step)]

    @lazy
    def row_norms(self) -> Floats:
        """‖Δ_k‖‖z_k‖ of each margin (m,)."""
        if self._small:
            return self._formed[1]
        out = np.empty(self.m)
        for part in self._blocks():
            out[part] = lengths(self.differences(part))
        return out * lengths(self.queries)[self.query]

    @lazy
    def tie_norms(self) -> Floats:
        """‖Δ_l‖‖z_l‖ of each tie (l,)."""
        return lengths(self.tie_differences()) * lengths(self.queries)[self.tie_query]

    def part(self, index: Any) -> Problem:
        """The problem with only the margins of `index` (and every tie)."""
        row = row_index(index, self.m)
        names = ("hi", "lo", "query", "b")
        return replace(self, **{name: getattr(self, name)[row] for name in names})

    def margins(self, W: Any) -> Floats:
        """Δ_kᵀ W z_k of each margin (m,)."""
        V, out = self._logit_directions(W), np.empty(self.m)
        if self._small:
            return np.einsum("kd,kd->k", self._formed[0], V[self.query], out=out)
        for part in self._blocks():
            out[part] = np.einsum("kd,kd->k", self.differences(part), V[self.query[part]])
        return out

    def tie_values(self, W: Any) -> Floats:
        """Δ_lᵀ W z_l of each tie (l,)."""
        V = self._logit_directions(W)
        out: Floats = np.einsum("kd,kd->k", self.tie_differences(), V[self.tie_query])
        return out

    def _logit_directions(self, W: Any) -> Floats:
        W = numbers(W, "W").astype(np.float64, copy=False)
        if W.ndim == 1 and self.shape[1] == 1:
            W = W[:, None]
        if W.shape != self.shape:
            raise BadTokens(f"W has shape {W.shape}; this problem needs {self.shape}")
        V: Floats = self.queries @ W.T
        return V

    def adjoint(self, multipliers: Any, tie_multipliers: Any = None) -> Floats:
        """Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ (d, dq)."""
        lam = row_values(multipliers, self.m, "multipliers")
        support = lam.nonzero()[0]
        out: Floats
        if len(support) == self.m and self._small:
            out = self._formed[0].T @ (lam[:, None] * self.queries[self.query])
        else:
            Z = lam[support, None] * self.queries[self.query[support]]
            out = self.differences(support).T @ Z
        if tie_multipliers is not None and self.ties:
            mu = row_values(tie_multipliers, self.ties, "tie_multipliers")
            out = out + self.tie_differences().T @ (mu[:, None] * self.queries[self.tie_query])
        return out

    def __repr__(self) -> str:
        d, dq = self.shape
        return f"Problem(margins={self.m}, ties={self.ties}, W is {d} x {dq})"
