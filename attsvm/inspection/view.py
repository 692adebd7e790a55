"""View: one attention head of a trained model as it acts on n queries.

The logit of key x_t for query z is (K x_t)·(Q z) with the factors K and Q of the head, so that one
matrix W = Kᵀ Q decides what the head attends to. The scale is inside Q, and a query bias is the
last column of Q (queries then end in 1). A key bias adds the same number to all logits of a query,
and drops out. Where the logits are no such form of the features (rotary positions, normalized
queries or keys), keys and queries are those of the head itself, after rotary positions, and W is
the scale times the identity: the max-margin problem is then posed in head space.

The margin of key t is m_t = logit_a − logit_t, where a is the key chosen. What is guaranteed of a
head rests on lower bounds of margins: the rounding of the logits is taken off. The head that is
spoken of is the one with exactly these numbers, computed without rounding.

Theory: the standard model of rounding, [higham2002accuracy]. Where a product or a quotient falls
below the normal floats it errs by UNIT · TINY at most, so that TINY is added to every sum of
absolute terms: a share UNIT of that sum then bounds both kinds of error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints, floats
from attsvm._utils.interval import TINY, UNIT
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, Unsupported

_NAME = re.compile(r"[Ll](\d+)(?:[Hh](\d+))?|(\d+)\.(\d+)")


def parse_heads(heads: str | Sequence[str] | None, counts: Sequence[int]) -> list[tuple[int, int]]:
    """Layer and head of each name, in order; every head where none is named.

    heads: names such as L3H5, or L3 for all heads of a layer, apart by commas or in a list.
    counts: how many heads each layer has.

    >>> parse_heads("L1,L0H1", (2, 2))
    [(0, 1), (1, 0), (1, 1)]
    """
    if heads is None:
        return [(layer, head) for layer, count in enumerate(counts) for head in range(count)]
    words = heads.replace(",", " ").split() if isinstance(heads, str) else heads
    found: set[tuple[int, int]] = set()
    for word in words if isinstance(words, list | tuple) and words else [heads]:
        match = _NAME.fullmatch(word) if isinstance(word, str) else None
        if match is None:
            raise Unsupported(
                f"heads is {heads!r}: give names such as L3H5, or L3 for all heads of layer 3"
            )
        layer = int(match[1] or match[3] or 0)
        head = match[2] or match[4]
        most = counts[layer] if layer < len(counts) else 0
        if layer >= len(counts) or (head is not None and int(head) >= most):
            raise Unsupported(
                f"there is no attention head {word}: layers run from L0 to L{len(counts) - 1}, "
                f"heads from H0 to H{(most or max(counts)) - 1}"
            )
        found.update((layer, k) for k in (range(most) if head is None else [int(head)]))
    return sorted(found)


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
        shapes: dict[str, Any] = {"queries": (n, dq), "key_factor": (h, d), "query_factor": (h, dq)}
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
        return f"L{self.layer}H{self.head}"

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
        numbers = np.arange(len(self.queries))[rows]
        if not len(numbers):
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


# Each bound is widened by this, for the rounding of the bound itself.
WIDER = 1.01


class Margins(NamedTuple):
    """What is known of the choices of n queries over T keys.

    logits (n, T), −inf on keys that are not valid; error (n, T): how far each may be from the
    truth; chosen (n,); least (n, T): a lower bound of the margin of each valid key that is not
    chosen, inf elsewhere; gap (n,): the top logit less the second, inf where
    there is one key; tied (n,): the gap is not certified positive, so that there is no choice.
    """

    logits: Floats
    error: Floats
    chosen: Ints
    least: Floats
    gap: Floats
    tied: Bools


def margins_of(view: View) -> Margins:
    """The margins of a View, with rounding on the safe side.

    Raises BadTokens where a number is not finite, or too large to square.
    """
    for name in ("keys", "queries", "key_factor", "query_factor", "values"):
        array: Any = getattr(view, name)
        if array.any():
            floats(array, f"{view.name}: {name}")
    logits = view.logits()
    # How far each logit may be from the truth: a share of |x|ᵀ|K|ᵀ|Q||z|.
    K, Q = np.abs(view.key_factor), np.abs(view.query_factor)
    keys, queries = (np.abs(x.astype(np.float64)) for x in (view.keys, view.queries))
    slopes = (queries @ Q.T + TINY) @ K + TINY
    count = sum(K.shape) + Q.shape[1] + 12
    error = count * UNIT * WIDER * np.matmul(keys, slopes[:, :, None])[:, :, 0] + TINY
    n = len(logits)
    rows, chosen = np.arange(n), logits.argmax(axis=1)
    rivals = view.valid.copy()
    rivals[rows, chosen] = False
    with np.errstate(invalid="ignore"):  # a key that is not valid is no rival
        apart = logits[rows, chosen][:, None] - logits
        slack = (error[rows, chosen][:, None] + error + UNIT * np.abs(apart)) * WIDER
        least = np.where(rivals, apart - slack, np.inf)
    gap = np.where(rivals, apart, np.inf).min(axis=1)
    return Margins(logits, error, chosen, least, gap, ~(least.min(axis=1) > 0))
