"""View: one attention head of a trained model as it acts on n queries.

The logit of key x_t for query z is (K x_t)·(Q z) with the factors K and Q of the head, so that one
matrix W = Kᵀ Q decides what the head attends to. The scale is inside Q, and a query bias is the
last column of Q (queries then end in 1). A key bias adds the same number to all logits of a query,
and drops out. Where the logits are no such form of the features (rotary positions, normalized
queries or keys), keys and queries are those of the head itself, after rotary positions, and W is
the scale times the identity: the max-margin problem is then posed in head space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens
from attsvm.inspection.names import head_name


class LayerOutput(NamedTuple):
    """What a head adds to its layer: factor (D, hv) of its output, and the layer's own output
    (n, D) of all heads and the bias, as the model computed it."""

    factor: Floats
    output: Floats


@dataclass(frozen=True, eq=False, repr=False)
class View(Result):
    """One head on n queries over T keys each, of d features.

    keys (n, T, d): the features of the keys, float32 or float64; where a text is shorter, copies of
    its first key fill the row. queries (n, dq): with a last 1 where the head has a query bias.
    key_factor (h, d) and query_factor (h, dq): K and Q. values (n, T, hv): what the head mixes.
    valid (n, T): the keys that a query may attend to. ids (n, T): numbers of the tokens. special
    (n, T): marks such as [CLS] and [SEP]. positions (n,): where each query stands among its keys.
    texts: the tokens of each text as strings. space: "features" of the layer's input, or "head".
    layer_output: the head's part of its layer's output, where that is known.

    >>> eye = np.eye(2)
    >>> view = View(
    ...     layer=0,
    ...     head=0,
    ...     keys=np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]),
    ...     queries=np.array([[2.0, 0.0]]),
    ...     key_factor=eye,
    ...     query_factor=eye,
    ...     values=np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]),
    ...     valid=np.array([[True, True, False]]),
    ...     ids=np.array([[7, 8, 0]]),
    ...     special=np.zeros((1, 3), dtype=bool),
    ...     positions=np.array([1]),
    ...     texts=(("one", "two"),),
    ... )
    >>> view.logits()
    array([[  0.,   2., -inf]])
    >>> view.attention().round(3), view.chosen()
    (array([[0.119, 0.881, 0.   ]]), array([1]))
    >>> view
    View(L0H0: 1 queries over 3 keys of 2 features)
      width    2
      bias     no
      space    features
      queries  two
    """

    layer: int
    head: int
    keys: NDArray[Any]
    queries: Floats
    key_factor: Floats
    query_factor: Floats
    values: NDArray[Any]
    valid: Bools
    ids: Ints
    special: Bools
    positions: Ints
    texts: tuple[tuple[str, ...], ...]
    space: str = "features"
    layer_output: LayerOutput | None = None

    def __post_init__(self) -> None:
        n, T, d = self.keys.shape if self.keys.ndim == 3 else (0, 0, 0)
        h, dq, hv = len(self.key_factor), self.queries.shape[-1], self.values.shape[-1]
        if 0 in (n, T, d) or dq not in (d, d + 1):
            raise BadTokens(
                f"keys has shape {self.keys.shape} and queries {self.queries.shape}; they must be "
                "(n, T, d), none of them 0, and (n, d), or (n, d + 1) with a last 1 for a bias"
            )
        tokens = dict.fromkeys(("valid", "ids", "special"), (n, T))
        shapes = {"queries": (n, dq), "key_factor": (h, d), "query_factor": (h, dq)}
        shapes |= {"values": (n, T, hv), "positions": (n,), **tokens}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise BadTokens(f"{name} has shape {array.shape}; it must be {shape}")
            if name in ("valid", "special") and array.dtype != np.bool_:
                raise BadTokens(f"{name} has type {array.dtype}; it must be boolean")
        if len(self.texts) != n:
            raise BadTokens(f"there are {len(self.texts)} texts for {n} queries: one each")
        alone = np.flatnonzero(~self.valid.any(axis=1))
        if len(alone):
            raise BadTokens(
                f"query {alone[0]} may attend to no key: leave it out, or mark one valid"
            )

    @property
    def name(self) -> str:
        """The name of the head, such as L3H5."""
        return head_name(self.layer, self.head)

    @property
    def W(self) -> Floats:
        """The matrix (d, dq) with logit x_tᵀ W z."""
        return self.key_factor.T @ self.query_factor

    def logits(self) -> Floats:
        """The logits (n, T), −inf where a key is not valid; a constant per query is left out.

        They are computed once, and are not to be written to.
        """
        return self._logits

    @cached_property
    def _logits(self) -> Floats:
        slopes = self.queries.astype(np.float64) @ self.query_factor.T @ self.key_factor
        out = np.matmul(self.keys.astype(np.float64), slopes[:, :, None])[:, :, 0]
        out[~self.valid] = -np.inf
        out.setflags(write=False)
        return out

    def attention(self) -> Floats:
        """The attention of each query (n, T): rows sum to 1, 0 where a key is not valid."""
        shares = np.exp(self._logits - self._logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def chosen(self) -> Ints:
        """The key (n,) to which each query attends most, the first one of equals."""
        return self._logits.argmax(axis=1)

    def subset(self, rows: Any) -> View:
        """The View of these queries: their numbers, in any order, or a boolean (n,)."""
        try:
            numbers = np.arange(len(self.queries))[rows]
        except IndexError as error:
            raise BadTokens(f"rows names no query: {error}") from error
        if numbers.ndim != 1 or not len(numbers):
            raise BadTokens("rows names no query: give at least one")
        names = ("keys", "queries", "values", "valid", "ids", "special", "positions")
        parts: dict[str, Any] = {name: getattr(self, name)[numbers] for name in names}
        if self.layer_output is not None:
            factor, output = self.layer_output
            parts["layer_output"] = LayerOutput(factor, output[numbers])
        part = replace(self, texts=tuple(self.texts[i] for i in numbers), **parts)
        if "_logits" in self.__dict__:
            part.__dict__["_logits"] = self._logits[numbers]
        return part

    def content(self) -> View:
        """The View without special keys; queries that have no other key are left out."""
        valid = self.valid & ~self.special
        rows = np.flatnonzero(valid.any(axis=1))
        if not len(rows):
            raise BadTokens("every key is a special token: there is no content to attend to")
        if len(rows) == len(valid):
            return replace(self, valid=valid)
        return replace(self.subset(rows), valid=valid[rows])

    def _card(self) -> Summary:
        n, T, d = self.keys.shape
        words = [text[at] for text, at in zip(self.texts[:3], self.positions, strict=False)]
        words += ["…"] * (n > 3)
        facts = {
            "width": len(self.key_factor),
            "bias": self.queries.shape[1] > d,
            "space": self.space,
            "queries": " ".join(words),
        }
        return Summary("View", f"{self.name}: {n} queries over {T} keys of {d} features", facts)
