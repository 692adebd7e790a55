"""Transformer: a stack of attention layers as plain arrays, and its forward pass in NumPy.

Every family of models is read into this one form. With x the residual stream of a text,

    s = before(x)                                  what the projections of the heads see
    x ← after(x + out(attention of s))
    x ← mlp_after(x + mlp(mlp_before(x)))

where families that normalize first have `before` and `mlp_before`, and the others the two norms
that come after. The pass is in single precision, as models are trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.inspection.pieces import Floats32, LinearLayer, Mlp, NormLayer, normed
from attsvm.inspection.view import rotate_half


@dataclass(frozen=True, eq=False)
class Embedding:
    """Word, position and type vectors, added, normalized and widened.

    words (V, e); places (P, e), or None without learned positions; first: the row of the first
    position; kind (e,): the vector of the one type of token that is used here.
    """

    words: Floats32
    places: Floats32 | None = None
    first: int = 0
    kind: Floats32 | None = None
    norm: NormLayer | None = None
    widen: LinearLayer | None = None

    def __call__(self, ids: Ints) -> Floats32:
        """The stream (B, T, d) that enters the first layer; ids (B, T)."""
        x = self.words[ids]
        if self.places is not None:
            x = x + self.places[self.first : self.first + ids.shape[1]]
        if self.kind is not None:
            x = x + self.kind
        x = normed(self.norm, x)
        return x if self.widen is None else self.widen(x)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: projections of all heads, the norms round them, and the network after them.

    query (H h, d), key and value (G h, d), out (d, H h). scale: what logits are multiplied by.
    """

    query: LinearLayer
    key: LinearLayer
    value: LinearLayer
    out: LinearLayer
    scale: float
    mlp: Mlp
    before: NormLayer | None = None
    after: NormLayer | None = None
    mlp_before: NormLayer | None = None
    mlp_after: NormLayer | None = None


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary positions: the pair (i, i + h/2) of a head turns by position × angles[i]."""

    angles: Floats

    def __call__(self, places: Any) -> tuple[Floats, Floats]:
        """cos and sin (…, h) at these positions, or differences of positions."""
        half = np.multiply.outer(np.asarray(places, dtype=np.float64), self.angles)
        turn = np.concatenate([half, half], axis=-1)
        return np.cos(turn), np.sin(turn)


@dataclass(frozen=True, eq=False)
class Transformer:
    """The layers of a model with H heads of width h; G key heads, each shared by H/G query heads.

    family: the word of its configuration. longest: how many positions it has. causal: a query sees
    keys up to its own place; window: and not further back than this, where it is given.
    """

    family: str
    embedding: Embedding
    layers: tuple[Layer, ...]
    heads: int
    groups: int
    width: int
    features: int
    longest: int
    causal: bool = False
    window: int | None = None
    rotary: Rotary | None = None

    def attention_input(self, layer: int, x: Floats32) -> Floats32:
        """What the projections of a layer see of the stream x (…, d)."""
        return normed(self.layers[layer].before, x)

    def step(self, layer: int, x: Floats32, valid: Bools) -> Floats32:
        """The stream (B, T, d) after a layer. valid (B, T): where a text has a token."""
        part = self.layers[layer]
        s = normed(part.before, x)
        shares = self.shares(layer, s, valid)
        values = self._split(part.value(s), self.groups)
        mixed = np.matmul(shares, self._shared(values))
        B, H, T, h = mixed.shape
        x = normed(part.after, x + part.out(mixed.transpose(0, 2, 1, 3).reshape(B, T, H * h)))
        return normed(part.mlp_after, x + part.mlp(normed(part.mlp_before, x)))

    def shares(self, layer: int, s: Floats32, valid: Bools) -> Floats32:
        """The attention (B, H, T, T) of every query, 0 for keys it may not see; s from `seen`."""
        part = self.layers[layer]
        q = self._split(part.query(s), self.heads)
        k = self._split(part.key(s), self.groups)
        if self.rotary is not None:
            cos, sin = (_narrow(a) for a in self.rotary(np.arange(s.shape[1])))
            q, k = _narrow(q * cos + rotate_half(q) * sin), _narrow(k * cos + rotate_half(k) * sin)
        logits = np.matmul(q, self._shared(k).transpose(0, 1, 3, 2))
        logits *= np.float32(part.scale)
        open_ = self.sight(s.shape[1]) & valid[:, None, :]
        # A place beyond the end of a text has no one to look at; it looks at the first token.
        open_[~open_.any(axis=2), 0] = True
        logits[~np.broadcast_to(open_[:, None], logits.shape)] = -np.inf
        logits -= logits.max(axis=3, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=3, keepdims=True)
        return logits

    def sight(self, T: int) -> Bools:
        """(T, T), True where the query of a row may see the key of a column in a full text."""
        return _sight(T, self.causal, self.window)

    def factors(self, layer: int, head: int) -> dict[str, Floats]:
        """The factors of one head in double precision, by their names in View.

        A key bias drops out of the softmax, except under rotary positions, which turn it: there it
        is a last column of the key factor, for keys that end in 1.
        """
        part = self.layers[layer]
        group = head // (self.heads // self.groups)
        mine = slice(head * self.width, (head + 1) * self.width)
        shared = slice(group * self.width, (group + 1) * self.width)
        key, value = part.key.weight[shared], part.value.weight[shared]
        shift = part.value.bias
        if self.keys_end_in_one(layer):
            bias = part.key.bias
            key = np.column_stack([key, bias[shared]])  # type: ignore[index]
            value = np.column_stack([value, np.zeros(self.width)])
        query = part.query.weight[mine]
        if part.query.bias is not None:
            query = np.column_stack([query, part.query.bias[mine]])
        elif self.keys_end_in_one(layer):
            query = np.column_stack([query, np.zeros(self.width)])
        return {
            "key_factor": key.astype(np.float64),
            "query_factor": query.astype(np.float64) * part.scale,
            "value_factor": value.astype(np.float64),
            "value_shift": np.zeros(self.width) if shift is None else _wide(shift[shared]),
        }

    def keys_end_in_one(self, layer: int) -> bool:
        """Whether the keys of a layer carry a last 1, for a bias that does not drop out."""
        return self.rotary is not None and self.layers[layer].key.bias is not None

    def queries_end_in_one(self, layer: int) -> bool:
        """Whether the queries of a layer carry a last 1, for their bias."""
        return self.layers[layer].query.bias is not None or self.keys_end_in_one(layer)

    def _shared(self, x: Floats32) -> Floats32:
        """Keys or values (B, G, T, h) as the H heads use them."""
        times = self.heads // self.groups
        return x if times == 1 else np.repeat(x, times, axis=1)

    def _split(self, x: Floats32, heads: int) -> Floats32:
        B, T, _ = x.shape
        return x.reshape(B, T, heads, self.width).transpose(0, 2, 1, 3)


def _wide(x: NDArray[Any]) -> Floats:
    return x.astype(np.float64)


def _narrow(x: NDArray[Any]) -> Floats32:
    return x.astype(np.float32, copy=False)


@cache
def _sight(T: int, causal: bool, window: int | None) -> Bools:
    offset = np.arange(T)[:, None] - np.arange(T)[None, :]
    seen = offset >= 0 if causal else np.ones((T, T), dtype=bool)
    seen = seen if window is None else seen & (offset < window)
    seen.setflags(write=False)
    return seen
