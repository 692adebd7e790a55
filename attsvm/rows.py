"""How tokens and arrays become rows: index pairs into a pool of keys, and their checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import BadSelection, BadTokens
from attsvm.selection import Selection
from attsvm.tokens import LARGEST, Floats, Ints, Tokens


def pairwise(keys: NDArray[Any], hi: Ints, lo: Ints) -> Floats:
    """keys[hi] − keys[lo] in float64, nothing subtracted where lo is −1."""
    out = keys[hi].astype(np.float64)  # a copy, whatever the type
    if len(lo) and lo.min() >= 0:
        out -= keys[lo]
    else:
        pair = lo >= 0
        out[pair] -= keys[lo[pair]]
    return out


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


def check_fit(tokens: Tokens, keep: Selection) -> None:
    """Nothing; an error when the selection is not of these tokens' shape."""
    if keep.kept.shape != (tokens.n, tokens.T):
        raise BadSelection(
            f"the selection has shape {keep.kept.shape}, the tokens ({tokens.n}, {tokens.T})"
        )


def matrix(array: Any, name: str) -> Floats:
    """The array (rows, width) as float64, every entry finite."""
    out = np.asarray(array, dtype=np.float64)
    if out.ndim != 2 or out.shape[1] == 0:
        raise BadTokens(f"{name} has shape {out.shape}; it must be (rows, width)")
    if not (np.abs(out) <= LARGEST).all():
        k, j = (int(i) for i in np.argwhere(~(np.abs(out) <= LARGEST))[0])
        raise BadTokens(
            f"{name}[{k}, {j}] is {out[k, j]}: entries must be finite and below {LARGEST:g}"
        )
    return out


def right_sides(b: Any, n: int, T: int) -> Floats:
    """The right-hand sides b (n, T), from (n,) or (n, T)."""
    array = np.asarray(b, dtype=np.float64)
    if array.shape == (n,):
        array = np.broadcast_to(array[:, None], (n, T))
    if array.shape != (n, T):
        raise BadTokens(f"b has shape {array.shape}; it must be ({n},) or ({n}, {T})")
    bad = ~((array >= 0) & (array <= LARGEST))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise BadTokens(
            f"b[{', '.join(map(str, place))}] is {array[place]}: "
            "right-hand sides must be finite and not negative"
        )
    return array


def log_ratio_ties(
    tokens: Tokens, keep: Selection, attention: Any
) -> tuple[Ints, Ints, Ints, Floats]:
    """The ties of the finite part, (hi, lo, query) and their log-ratios log(s_it / s_iτ) (l,)."""
    check_fit(tokens, keep)
    s = np.asarray(attention, dtype=np.float64)
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
    c = log[query, hi - base[query]] - log[query, lo - base[query]]
    return hi, lo, query, c


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
            f"queries {Z.shape} and tie_queries {Y.shape} must give one query a row "
            f"for {m} margins and {l} ties"
        )
    right = np.ones(m) if b is None else right_sides(b, m, 1)[:, 0]
    level = np.zeros(l) if c is None else np.asarray(c, dtype=np.float64)
    if level.shape != (l,) or not (np.abs(level) <= LARGEST).all():
        raise BadTokens(f"c must hold one finite number for each of the {l} ties")
    return D, Z, right, E, Y, level
