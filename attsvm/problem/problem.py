"""Problem: the margins and ties that a max-margin direction has to meet.

    min ‖W‖   s.t.   Δ_kᵀ W z_k ≥ b_k  (margins, b ≥ 0),      Δ_lᵀ W z_l = c_l  (ties)

Ties may be known only up to an error: then |Δ_lᵀ W z_l − c_l| ≤ c_error_l. Every row is rank one,
Δ_k z_kᵀ, and Δ_k is a difference of two entries of one pool of keys:

    Δ_k = keys[hi_k] − keys[lo_k]   (lo_k = −1: nothing is subtracted),      z_k = queries[query_k]

so no row is ever stored as a matrix and the tokens are never copied. Margins are formed from Δ,
not as a difference of two scores, which would cancel for tokens that lie close together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import LARGEST, Floats, Ints, floats, numbers, plain, rectangular
from attsvm._utils.compiled import ENTRY, njit
from attsvm._utils.expected import expect, place, places
from attsvm._utils.objects import lazy
from attsvm.errors import BadSelection, BadTokens
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens

# A row of this size leads to multipliers near the largest float.
SMALLEST_ROW = 1e-140
# Sizes that a solver takes as they are; others are scaled first.
MIDDLE = (1e-60, 1e60)
# Differences are kept in memory up to this many numbers, and formed block by block beyond.
_KEEP = 1 << 22
# How far a log-ratio of attention may be off, next to the size of its logarithms.
_LOG_ERROR = 2.0**-40
# A sum of squares below this has lost digits to underflow.
_TINY = 1e-270
_NONE = np.empty(0, np.int64)
_NO_LEVELS = np.empty(0)


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
    tie_hi: Ints = field(default_factory=lambda: _NONE)
    tie_lo: Ints = field(default_factory=lambda: _NONE)
    tie_query: Ints = field(default_factory=lambda: _NONE)
    c: Floats = field(default_factory=lambda: _NO_LEVELS)
    width: int = 0
    c_error: Floats = field(default_factory=lambda: _NO_LEVELS)

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
            return cls(flat, tokens.queries, hi, lo, rows, right, width=T)
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
        none = (_NONE, _NONE, _NONE, _NO_LEVELS)
        return cls(flat, tokens.queries, *none, hi, lo, query, c, tokens.T, error)

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
        none, signs = np.full(len(hi), -1), np.array([[1.0], [-1.0]])
        return cls(flat, signs, hi, none, sign, np.ones(len(hi)), width=tokens.T)

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
        are taken as exact: give c_error (l,), or one number, where c is rounded.
        """
        D, Z, right, E, Y, level = given_rows(differences, queries, b, ties, tie_queries, c)
        error = tie_errors(c_error, len(E))
        m, place = len(D), np.arange(len(D) + len(E))
        none = np.full(len(place), -1)
        rows, tied = (place[:m], none[:m], place[:m]), (place[m:], none[m:], place[m:])
        pools = np.concatenate([D, E]), np.concatenate([Z, Y])
        return cls(*pools, *rows, right, *tied, level, 0, error)

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
        ones = np.ones((B, m))
        keys = self.X.reshape(B, n * T, d)
        place = np.tile(query, (B, 1))
        shared = {
            "query": query,
            **dict.fromkeys(("tie_hi", "tie_lo", "tie_query"), _NONE),
            **dict.fromkeys(("c", "c_error"), _NO_LEVELS),
            "width": T,
            "b": ones[0],
            "scalable": True,
        }
        out = []
        for x, z, h, l, *formed in zip(keys, self.queries, hi, lo, D, norms, strict=True):
            own = {"keys": x, "queries": z, "hi": h, "lo": l}
            # All fields at once, which costs less than one by one; `_formed` is what the problem
            # would form by itself on first use.
            record = object.__new__(Problem)
            fields = {**shared, **own, "_formed": tuple(formed)}
            object.__setattr__(record, "__dict__", fields)
            out.append(record)
        return out, StackRows.plain(D, self.queries, place, norms, ones)

    def __repr__(self) -> str:
        B, n, T, d = self.X.shape
        return f"Stack({B} problems, n={n}, T={T}, d={d})"


def pairwise(keys: NDArray[Any], hi: Ints, lo: Ints) -> Floats:
    """keys[hi] − keys[lo] in float64, nothing subtracted where lo is −1."""
    out = keys[hi].astype(np.float64)  # a copy, whatever the type
    if len(lo) and lo.min() >= 0:
        out -= keys[lo]
    else:
        pair = lo >= 0
        out[pair] -= keys[lo[pair]]
    return out


def lengths(A: Floats) -> Floats:
    """‖A_k‖ of each row (m,), without underflow."""
    out: Floats = np.sqrt(np.einsum("kd,kd->k", A, A))
    for k in (out * out < _TINY).nonzero()[0]:
        top = float(np.abs(A[k]).max(initial=0.0))
        out[k] = top * np.linalg.norm(A[k] / top) if top > 0 else 0.0
    return out


class StackRows(NamedTuple):
    """The margins of B problems of one size, without ties, in arrays of the one kind kernels take.

    D (B, m, d) differences, z (B, g, dq) the queries, query (B, m) each row's place among them,
    norms (B, m) ‖Δ‖‖z‖, b (B, m). Kernels take `arrays()`: a tuple without names is taken
    apart faster.
    """

    D: Floats
    z: Floats
    query: Ints
    norms: Floats
    b: Floats

    @classmethod
    def plain(cls, D: Floats, z: Floats, query: Ints, norms: Floats, b: Floats) -> StackRows:
        """Rows in any arrays, copied where a kernel would not take them."""
        return cls(plain(D), plain(z), plain(query), plain(norms), plain(b))

    @classmethod
    def alone(cls, D: Floats, z: Floats, query: Ints, norms: Floats, b: Floats) -> StackRows:
        """The rows of one problem, as a stack of one."""
        return cls.plain(D[None], z[None], query[None], norms[None], b[None])

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> StackRows:
        """The rows of these problems, stacked."""
        return cls(
            np.stack([p.differences() for p in problems]),
            np.stack([p.queries for p in problems]),
            np.stack([p.query for p in problems]),
            np.stack([p.row_norms for p in problems]),
            np.stack([p.b for p in problems]),
        )

    def arrays(self) -> StackArrays:
        """The fields in a tuple without names, as a kernel takes them."""
        D, z, query, norms, b = self
        return D, z, query, norms, b

    def part(self, k: slice) -> StackRows:
        """The rows of some of the problems."""
        return StackRows(self.D[k], self.z[k], self.query[k], self.norms[k], self.b[k])


# The fields of StackRows.
StackArrays = tuple[Floats, Floats, Ints, Floats, Floats]


def rows_and_norms(
    keys: Floats, queries: Floats, hi: Ints, lo: Ints, query: Ints
) -> tuple[Floats, Floats]:
    """Δ (m, d) and ‖Δ_k‖‖z_k‖ (m,) in one pass; `pairwise` and two norms are its twin."""
    keys, queries = plain(keys), plain(queries)
    D, norms, sizes = np.empty((len(hi), keys.shape[1])), np.empty(len(hi)), np.empty(len(queries))
    if _form_rows(keys, queries, plain(hi), plain(lo), plain(query), D, norms, sizes):
        # Squares underflow long before the numbers do: once more, scaled by the largest.
        norms = lengths(D) * lengths(queries)[query]
    return D, norms


@njit(**ENTRY)
def _form_rows(
    keys: Floats,
    queries: Floats,
    hi: Ints,
    lo: Ints,
    query: Ints,
    D: Floats,
    norms: Floats,
    sizes: Floats,
) -> bool:
    """Whether a square came near underflow; D (m, d), norms (m,) and ‖z‖ (g,) are filled."""
    tiny = False
    for q in range(queries.shape[0]):
        s = 0.0
        for j in range(queries.shape[1]):
            s += queries[q, j] * queries[q, j]
        sizes[q] = np.sqrt(s)
        if s < _TINY:
            tiny = True
    for k in range(len(hi)):
        s = 0.0
        for i in range(keys.shape[1]):
            x = keys[hi[k], i]
            if lo[k] >= 0:
                x -= keys[lo[k], i]
            D[k, i] = x
            s += x * x
        norms[k] = np.sqrt(s) * sizes[query[k]]
        if s < _TINY:
            tiny = True
    return tiny


def tie_chains(keep: Selection, base: Ints) -> tuple[Ints, Ints, Ints]:
    """The chain first kept − other kept of each input, as (hi, lo, query)."""
    if int(keep.kept.sum()) == len(keep.kept):
        return _NONE, _NONE, _NONE
    first = keep.kept.argmax(axis=1)
    rest = keep.kept.copy()
    rest[np.arange(len(first)), first] = False
    rows, t = rest.nonzero()
    return base[rows] + first[rows], base[rows] + t, rows


def equal_tokens(problem: Problem) -> str:
    """Which dropped token has the key of a kept one of its input, in words; empty where none has.

    No W tells the two apart, so that their margin cannot be met.
    """
    if not problem.width:
        return ""
    keys, T = problem.keys, problem.width
    tied: dict[int, set[int]] = {}
    level = (problem.c == 0).nonzero()[0]
    for l in level:
        both = int(problem.tie_hi[l]), int(problem.tie_lo[l])
        tied.setdefault(int(problem.tie_query[l]), set()).update(both)
    close = (problem.row_norms == 0) | np.isin(problem.query, problem.tie_query[level])
    for k in (close & (problem.b > 0) & (problem.lo >= 0)).nonzero()[0]:
        i, lo = int(problem.query[k]), int(problem.lo[k])
        for kept in sorted({int(problem.hi[k]), *tied.get(i, ())}):
            if np.array_equal(keys[kept], keys[lo]):
                first, second = sorted((kept % T, lo % T))
                return f"the keys of tokens {first} and {second} of input {i} are equal"
    return ""


def matrix(array: Any, name: str) -> Floats:
    """The array (rows, width) as float64, every entry finite."""
    out = floats(array, name).astype(np.float64, copy=False)
    if out.ndim != 2 or out.shape[1] == 0:
        raise BadTokens(f"{name} has shape {out.shape}; it must be (rows, width)")
    return out


def right_sides(b: Any, n: int, T: int) -> Floats:
    """The right-hand sides b (n, T), from (n,) or (n, T)."""
    array = floats(b, "b").astype(np.float64, copy=False)
    if array.shape == (n,):
        array = np.broadcast_to(array[:, None], (n, T))
    if array.shape != (n, T):
        raise BadTokens(f"b has shape {array.shape}; it must be ({n},) or ({n}, {T})")
    if array.size and array.min() < 0:
        place = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise BadTokens(
            f"b[{', '.join(map(str, place))}] is {array[place]}: "
            "right-hand sides must not be negative"
        )
    return array


def row_index(index: Any, m: int) -> Ints:
    """The rows of m that an index names: numbers, a slice or booleans."""
    with places("index", m):
        rows: Ints = np.arange(m)[index]
    if rows.ndim != 1:
        raise BadTokens("index must be a list, a slice or booleans, with one axis")
    return rows


def row_values(given: Any, count: int, name: str) -> Floats:
    """One number for each row, (count,), as float64."""
    array = numbers(given, name).astype(np.float64, copy=False)
    if array.shape != (count,):
        raise BadTokens(f"{name} has shape {array.shape}; it must be ({count},), one for each row")
    return array


def log_ratio_ties(
    tokens: Tokens, keep: Selection, attention: Any
) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    """The ties of the finite part: (hi, lo, query), log-ratios log(s_it / s_iτ) (l,), their errors.

    The error is what attention known to about twelve digits allows.
    """
    s = numbers(attention, "attention").astype(np.float64, copy=False)
    if s.shape != keep.kept.shape:
        raise BadTokens(f"attention has shape {s.shape}; it must be {keep.kept.shape}")
    bad = keep.kept & ~((s > 0) & np.isfinite(s))
    if bad.any():
        i, t = (int(k) for k in np.argwhere(bad)[0])
        raise BadTokens(f"attention[{i}, {t}] is {s[i, t]}: kept tokens need positive mass")
    base = tokens.offsets()
    hi, lo, query = tie_chains(keep, base)
    if not len(hi):
        raise BadSelection("each input keeps one token: the finite part has no equality")
    log = np.log(np.where(keep.kept, s, 1.0))
    first, second = log[query, hi - base[query]], log[query, lo - base[query]]
    return hi, lo, query, first - second, _LOG_ERROR * (1 + np.abs(first) + np.abs(second))


def errors_of(c: Floats, given: Floats) -> Floats:
    """How far ties may be from c (l,), as given; zeros where that is of another length."""
    if expect(c, np.ndarray, "c", make="Problem.from_rows takes any numbers").ndim != 1:
        raise BadTokens(f"c has shape {c.shape}; it must be (l,), one number per tie")
    return given if expect(given, np.ndarray, "c_error").shape == c.shape else np.zeros(len(c))


def tie_errors(c_error: Any, l: int) -> Floats:
    """How far each of l ties may be from its right-hand side, (l,): none, one number, or (l,)."""
    if c_error is None:
        return np.zeros(l)
    array = numbers(c_error, "c_error").astype(np.float64, copy=False)
    array = np.full(l, float(array)) if array.ndim == 0 else array
    if array.shape != (l,) or not ((array >= 0) & (array <= LARGEST)).all():
        raise BadTokens(f"c_error must be one number, or ({l},), finite and not negative")
    return array


def given_rows(
    differences: Any, queries: Any, b: Any, ties: Any, tie_queries: Any, c: Any
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """Rows given as arrays, checked: Δ, z, b of the margins, then of the ties."""
    D = matrix(differences, "differences")
    E = np.empty((0, D.shape[1])) if ties is None else matrix(ties, "ties")
    if E.shape[1] != D.shape[1]:
        raise BadTokens(f"ties has width {E.shape[1]}, differences has {D.shape[1]}")
    m, l = len(D), len(E)
    if m + l == 0:
        raise BadTokens("there is no row: give at least one margin or tie")
    Z = np.ones((m, 1)) if queries is None else matrix(queries, "queries")
    Y = np.ones((l, Z.shape[1])) if tie_queries is None else matrix(tie_queries, "tie_queries")
    if len(Z) != m or len(Y) != l or Y.shape[1] != Z.shape[1]:
        raise BadTokens(
            f"queries {Z.shape} and tie_queries {Y.shape} must give one query per row "
            f"for {m} margins and {l} ties"
        )
    right = np.ones(m) if b is None else right_sides(b, m, 1)[:, 0]
    level = np.zeros(l) if c is None else floats(c, "c").astype(np.float64, copy=False)
    if level.shape != (l,):
        raise BadTokens(f"c has shape {level.shape}; it must be ({l},), one number per tie")
    return D, Z, right, E, Y, level
