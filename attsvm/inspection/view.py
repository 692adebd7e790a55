"""View: one attention head of a trained model as it acts on n queries, one from each of n texts.

The logit of key x_t for query z is (K x_t)·(Q z) with the factors K and Q of the head, so that one
matrix W = Kᵀ Q decides what the head attends to. The scale 1/√h is inside Q, and a query bias is
the last column of Q (queries then end in 1). A key bias adds the same number to all logits of a
query, and drops out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, Unsupported

# Numbers cast to double precision at once.
_BLOCK = 1 << 22


class Turns(NamedTuple):
    """cos and sin, each (n, T, h), of the angles from each key to its query.

    Rotary positions turn the pair (i, i + h/2) of a projected query or key by its position times an
    angle of the pair. The logit depends on the difference of positions only: it is
    (K x_t)·(R Q z) with R q = cos q + sin rotate_half(q).

    >>> still = Turns(np.ones((1, 3, 2)), np.zeros((1, 3, 2)))  # one query, three keys, h = 2
    >>> still.cos.shape
    (1, 3, 2)
    """

    cos: Floats
    sin: Floats


@dataclass(frozen=True, eq=False, repr=False)
class View(Result):
    """One head on n queries over T keys each, of d features.

    keys (n, T, d): the residual stream as the projections of the head see it, float32 or float64;
    where a text is shorter, copies of its first key fill the row. queries (n, dq): as the head
    sees them, with a last 1 where it has a query bias. key_factor (h, d) and query_factor (h, dq):
    K and Q. value_factor (h, d), value_shift (h,): the head's values are V x + shift. valid (n, T):
    the keys that a query may attend to. ids (n, T): numbers of the tokens. special (n, T): marks
    such as [CLS] and [SEP]. positions (n,): where each query stands among its keys. texts: the
    tokens of each text as strings. turns: None, or the angles of a family with rotary positions,
    whose heads have no single W.

    >>> eye = np.eye(2)
    >>> view = View(
    ...     layer=0,
    ...     head=0,
    ...     keys=np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]),
    ...     queries=np.array([[2.0, 0.0]]),
    ...     key_factor=eye,
    ...     query_factor=eye,
    ...     value_factor=eye,
    ...     value_shift=np.zeros(2),
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
    View(layer 0, attention head 0: 1 queries over 3 keys of 2 features)
      width      2
      bias       no
      positions  learned, or none
      queries    two
    """

    layer: int
    head: int
    keys: NDArray[Any]
    queries: Floats
    key_factor: Floats
    query_factor: Floats
    value_factor: Floats
    value_shift: Floats
    valid: Bools
    ids: Ints
    special: Bools
    positions: Ints
    texts: tuple[tuple[str, ...], ...]
    turns: Turns | None = None

    def __post_init__(self) -> None:
        if self.keys.ndim != 3 or 0 in self.keys.shape:
            raise BadTokens(
                f"keys has shape {self.keys.shape}; it must be (n, T, d), none of them 0"
            )
        n, T, d = self.keys.shape
        if self.queries.ndim != 2 or self.queries.shape[1] not in (d, d + 1):
            raise BadTokens(
                f"queries has shape {self.queries.shape}; it must be ({n}, {d}), or ({n}, {d + 1}) "
                "with a last 1 for a bias"
            )
        h = len(self.key_factor)
        shapes = {
            "queries": (n, self.queries.shape[1]),
            "key_factor": (h, d),
            "query_factor": (h, self.queries.shape[1]),
            "value_factor": (len(self.value_factor), d),
            "value_shift": (len(self.value_factor),),
            "valid": (n, T),
            "ids": (n, T),
            "special": (n, T),
            "positions": (n,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise BadTokens(f"{name} has shape {getattr(self, name).shape}; it must be {shape}")
        for name in ("valid", "special"):
            if getattr(self, name).dtype != np.bool_:
                raise BadTokens(f"{name} has type {getattr(self, name).dtype}; it must be boolean")
        for part in self.turns or ():
            if part.shape != (n, T, h):
                raise BadTokens(f"turns has parts of shape {part.shape}; they must be {(n, T, h)}")
        if len(self.texts) != n:
            raise BadTokens(f"there are {len(self.texts)} texts for {n} queries: one each")
        alone = np.flatnonzero(~self.valid.any(axis=1))
        if len(alone):
            raise BadTokens(
                f"query {alone[0]} may attend to no key: leave it out, or mark one valid"
            )

    @property
    def W(self) -> Floats:
        """The matrix (d, dq) with logit x_tᵀ W z; raises Unsupported for rotary positions."""
        if self.turns is not None:
            raise Unsupported(
                f"layer {self.layer}, attention head {self.head} turns queries and keys by their "
                "positions (rotary), so that it has one matrix per offset, W_at(offset), and no "
                "single W"
            )
        return self.key_factor.T @ self.query_factor

    def W_at(self, offset: int) -> Floats:
        """The matrix (d, dq) for keys that stand `offset` places before their query.

        Heads without rotary positions have the same one, W, at every offset.
        """
        if self.turns is None:
            return self.W
        places = self.positions[:, None] - np.arange(self.keys.shape[1])
        found = np.argwhere((places == offset) & self.valid)
        if not len(found):
            raise BadTokens(f"no query may attend to a key {offset} places before it")
        cos, sin = (part[tuple(found[0])] for part in self.turns)
        turned = (
            cos[:, None] * self.query_factor + sin[:, None] * rotate_half(self.query_factor.T).T
        )
        return self.key_factor.T @ turned

    def logits(self) -> Floats:
        """The logits (n, T), −inf where a key is not valid; a constant per query is left out."""
        out = np.empty(self.valid.shape)
        for rows in self._blocks():
            q = self.queries[rows].astype(np.float64) @ self.query_factor.T
            keys = self.keys[rows].astype(np.float64)
            if self.turns is None:
                out[rows] = np.matmul(keys, (q @ self.key_factor)[:, :, None])[:, :, 0]
            else:
                cos, sin = (part[rows] for part in self.turns)
                turned = cos * q[:, None] + sin * rotate_half(q)[:, None]
                out[rows] = ((keys @ self.key_factor.T) * turned).sum(axis=2)
        out[~self.valid] = -np.inf
        return out

    def attention(self) -> Floats:
        """The attention of each query (n, T): rows sum to 1, 0 where a key is not valid."""
        logits = self.logits()
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def chosen(self) -> Ints:
        """The key (n,) to which each query attends most, the first one of equals."""
        return self.logits().argmax(axis=1)

    def subset(self, rows: Any) -> View:
        """The View of these queries: their numbers, in any order, or a boolean (n,)."""
        numbers = np.asarray(rows)
        if numbers.dtype == np.bool_:
            if numbers.shape != (len(self.queries),):
                raise BadTokens(
                    f"rows has shape {numbers.shape}; there are {len(self.queries)} queries"
                )
            numbers = np.flatnonzero(numbers)
        numbers = numbers.astype(np.int64)
        if numbers.ndim != 1 or not len(numbers):
            raise BadTokens("rows names no query: give at least one")
        n = len(self.queries)
        if numbers.min() < -n or numbers.max() >= n:
            raise BadTokens(f"rows goes up to {numbers.max()}; queries run from 0 to {n - 1}")
        names = ("keys", "queries", "valid", "ids", "special", "positions")
        parts: dict[str, Any] = {name: getattr(self, name)[numbers] for name in names}
        turns = None if self.turns is None else Turns(*(part[numbers] for part in self.turns))
        return replace(self, texts=tuple(self.texts[i] for i in numbers), turns=turns, **parts)

    def content(self) -> View:
        """The View without special keys; queries that have no other key are left out."""
        valid = self.valid & ~self.special
        rows = np.flatnonzero(valid.any(axis=1))
        if not len(rows):
            raise BadTokens("every key is a special token: there is no content to attend to")
        if len(rows) == len(valid):
            return replace(self, valid=valid)
        return replace(self.subset(rows), valid=valid[rows])

    def _blocks(self) -> Iterator[slice]:
        n, T, d = self.keys.shape
        step = max(1, _BLOCK // (T * max(d, len(self.key_factor))))
        return (slice(start, start + step) for start in range(0, n, step))

    def _card(self) -> Summary:
        n, T, d = self.keys.shape
        words = [text[at] for text, at in zip(self.texts[:3], self.positions, strict=False)] + [
            "…"
        ] * (n > 3)
        facts = {
            "width": len(self.key_factor),
            "bias": self.queries.shape[1] > d,
            "positions": "learned, or none" if self.turns is None else "rotary",
            "queries": " ".join(words),
        }
        who = f"layer {self.layer}, attention head {self.head}"
        what = f"{who}: {n} queries over {T} keys of {d} features"
        return Summary("View", what, facts)


def rotate_half(q: NDArray[Any]) -> NDArray[Any]:
    """(−second half, first half) of the last axis: every pair (i, i + h/2) turned by 90°.

    >>> rotate_half(np.array([1.0, 2.0, 3.0, 4.0]))
    array([-3., -4.,  1.,  2.])
    """
    first, second = np.split(q, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)
