"""Tokens: the checked arrays of an attention layer's inputs.

The one place where user arrays are checked. float32 and memory-mapped arrays are kept as they
are; blocks are cast to float64 where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import BLOCK, Bools, Floats, Ints, floats, rectangular, vector, whole
from attsvm._utils.expected import expect, flag, shown
from attsvm.errors import BadTokens


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Tokens:
    """The inputs of one attention layer.

    Input i has T tokens with values `X[i, t]` (read by the head), keys `keys[i, t]` (compared
    with the query; the values unless given) and one query `queries[i]`. Without queries the query
    is the number 1: the prompt form, in which W is a column p.

    X: (n, T, d). queries: (n, dq), or "first" / "last" for self-attention (keys must be the
    values' width). labels: (n,) of -1 and +1. keys: (n, T, dk). mask: (n, T), False where an
    input is shorter.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> tokens
    Tokens(n=1, T=3, d=2, prompt form)
    """

    X: NDArray[Any]
    keys: NDArray[Any]
    queries: Floats
    labels: Floats | None
    mask: Bools | None
    source: Ints | None

    def __init__(
        self,
        X: Any,
        *,
        queries: Any = None,
        labels: Any = None,
        keys: Any = None,
        mask: Any = None,
        source: Any = None,
    ) -> None:
        values = floats(X, "X")
        if values.ndim != 3:
            raise BadTokens(
                f"X has shape {values.shape}; it must be (n, T, d): "
                "n inputs of T tokens with d features"
            )
        if 0 in values.shape:
            raise BadTokens(f"X has shape {values.shape}: an axis is empty")
        S, T, _ = values.shape
        keyed = values if keys is None else floats(keys, "keys")
        if keyed is not values and (
            keyed.ndim != 3 or keyed.shape[:2] != (S, T) or keyed.shape[2] == 0
        ):
            raise BadTokens(f"keys has shape {keyed.shape}; it must be ({S}, {T}, dk) like X")
        origin = None if source is None else _source(source, S)
        n = S if origin is None else len(origin)
        present = None if mask is None else _mask(mask, n, T)
        put = object.__setattr__
        put(self, "X", values)
        put(self, "keys", keyed)
        put(self, "mask", present)
        put(self, "source", origin)
        put(self, "queries", _queries(queries, values, n, present))
        put(self, "labels", None if labels is None else _labels(labels, n))

    @classmethod
    def sequence(cls, X: Any, *, causal: bool = True, labels: Any = None) -> Tokens:
        """The self-attention of whole sequences: every position a query over shared keys.

        X: (S, L, d) becomes n = S·L inputs, input s·L + i with query X[s, i] over the tokens of
        sequence s (those up to i when causal), without copying X.

        >>> import numpy as np, attsvm
        >>> attsvm.Tokens.sequence(np.eye(3)[None]).mask.sum(axis=1)
        array([1, 2, 3])
        """
        values = floats(X, "X")
        if values.ndim != 3:
            raise BadTokens(f"X has shape {values.shape}; it must be (S, L, d): S sequences")
        causal = flag(causal, "causal")
        S, L, d = values.shape
        mask = np.tile(np.tri(L, dtype=bool), (S, 1)) if causal else None
        return cls(
            values,
            queries=values.reshape(S * L, d),
            labels=labels,
            mask=mask,
            source=np.repeat(np.arange(S), L),
        )

    @property
    def n(self) -> int:
        """The number of inputs."""
        return len(self.queries)

    @property
    def T(self) -> int:
        """The number of token places in each input."""
        return int(self.X.shape[1])

    @property
    def d(self) -> int:
        """The number of features of a value."""
        return int(self.X.shape[2])

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (d, dq) of an attention matrix W: that of a key and a query."""
        return int(self.keys.shape[2]), int(self.queries.shape[1])

    def present(self) -> Bools:
        """The mask as an array (n, T), all True for inputs of full length."""
        return np.ones((self.n, self.T), dtype=bool) if self.mask is None else self.mask

    def offsets(self) -> Ints:
        """For each input, the place of its first token in the flattened keys, (n,)."""
        rows = np.arange(self.n) if self.source is None else self.source
        return rows * self.T

    def scores(self, v: Any) -> Floats:
        """Token scores γ_it = y_i v·x_it (n, T); -inf where the mask leaves no token."""
        values = np.matmul(self.X, vector(v, self.d)).astype(np.float64, copy=False)
        if self.source is not None:
            values = values[self.source]
        if self.labels is not None:
            values = values * self.labels[:, None]
        return values if self.mask is None else np.where(self.mask, values, -np.inf)

    def __repr__(self) -> str:
        width = self.queries.shape[1]
        form = "prompt form" if width == 1 else f"queries of width {width}"
        ragged = "" if self.mask is None else ", ragged"
        return f"Tokens(n={self.n}, T={self.T}, d={self.d}, {form}{ragged})"


def checked_tokens(tokens: Any) -> Tokens:
    """The tokens as they are; raises BadTokens unless they are Tokens."""
    return expect(tokens, Tokens, "tokens", make="Tokens(X, …) makes them")


def _queries(
    queries: Any | Literal["first", "last"], values: NDArray[Any], n: int, mask: Bools | None
) -> Floats:
    """The queries (n, dq) as float64."""
    if queries is None:
        return np.ones((n, 1))
    if isinstance(queries, str):
        if queries == "first":
            place = np.zeros(n, np.int64) if mask is None else mask.argmax(axis=1)
        elif queries == "last":
            T = values.shape[1]
            place = np.full(n, T - 1) if mask is None else T - 1 - mask[:, ::-1].argmax(axis=1)
        else:
            raise BadTokens(f"queries is {shown(queries)}; it is an array, 'first' or 'last'")
        chosen: Floats = values[np.arange(n), place].astype(np.float64)
        return chosen
    array = np.ascontiguousarray(floats(queries, "queries"), dtype=np.float64)
    if not array.flags.writeable and array.size <= BLOCK:
        array = array.copy()  # compiled code takes a read-only array for another type
    if array.ndim != 2 or len(array) != n or array.shape[1] == 0:
        raise BadTokens(f"queries has shape {array.shape}; it must be ({n}, dq), one per input")
    return array


def _labels(labels: Any, n: int) -> Floats:
    """The labels (n,) as -1.0 and +1.0."""
    array = floats(labels, "labels").astype(np.float64, copy=False)
    if array.shape != (n,):
        raise BadTokens(f"labels has shape {array.shape}; it must be ({n},), one per input")
    wrong = np.abs(array) != 1.0
    if wrong.any():
        i = int(wrong.argmax())
        raise BadTokens(f"labels[{i}] is {array[i]:g}: labels must be -1 or +1")
    return array


def _mask(mask: Any, n: int, T: int) -> Bools:
    """The mask (n, T) as booleans with a token in every input."""
    array = rectangular(mask, "mask")
    if array.shape != (n, T):
        raise BadTokens(f"mask has shape {array.shape}; it must be ({n}, {T})")
    if array.dtype != np.bool_ and (
        array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all()
    ):
        raise BadTokens("mask must hold only True and False")
    array = array.astype(bool)
    empty = ~array.any(axis=1)
    if empty.any():
        raise BadTokens(f"mask leaves no token in input {int(empty.argmax())}")
    return array


def _source(source: Any, S: int) -> Ints:
    """For each input the sequence whose tokens it reads, (n,)."""
    array = whole(source, "source")
    if array.ndim != 1 or array.size == 0 or array.min() < 0 or array.max() >= S:
        raise BadTokens(f"source must be a list of sequence indices from 0 to {S - 1}")
    return array.astype(np.int64)
