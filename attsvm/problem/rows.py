"""How tokens and arrays become rows: index pairs into a pool of keys, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import LARGEST, Floats, Ints, floats, numbers
from attsvm._utils.compiled import ENTRY, njit, plain
from attsvm._utils.expected import expect, places
from attsvm.errors import BadSelection, BadTokens
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

if TYPE_CHECKING:
    from attsvm.problem.problem import Problem

# How far a log-ratio of attention may be off, next to the size of its logarithms.
_LOG_ERROR = 2.0**-40
# A sum of squares below this has lost digits to underflow.
_TINY = 1e-270


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
    norms (B, m) ‖Δ‖‖z‖, b (B, m). A kernel is handed `arrays()`: a tuple without names is taken
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
        none = np.empty(0, np.int64)
        return none, none, none
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
                return f"the keys of tokens {kept % T} and {lo % T} of input {i} are equal"
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
        rows = np.arange(m)[index]
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
