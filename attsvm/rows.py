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
