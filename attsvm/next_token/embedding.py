"""The vectors of a vocabulary's tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, floats
from attsvm._utils.expected import shown, whole
from attsvm._utils.memory import require
from attsvm.errors import BadTokens, Unsupported

KINDS = ("orthonormal", "normal")


def embedding_of(
    vocabulary: int, given: Any = "orthonormal", *, dimension: int | None = None, seed: int = 0
) -> Floats:
    """The embeddings E (N, d) of N tokens.

    given: "orthonormal", the first N unit vectors of d ≥ N; "normal", random directions of length
    1 drawn by the seed, for any d; or the array itself. dimension: d, N without it.

    >>> embedding_of(2)
    array([[1., 0.],
           [0., 1.]])
    """
    vocabulary, seed = whole(vocabulary, "vocabulary", least=1), whole(seed, "seed", least=0)
    dimension = None if dimension is None else whole(dimension, "dimension", least=1)
    if not isinstance(given, str):
        E = np.ascontiguousarray(floats(given, "the embedding").astype(np.float64))
        if E.ndim != 2 or len(E) != vocabulary or not E.shape[1]:
            raise BadTokens(
                f"the embedding has shape {E.shape}; it must be ({vocabulary}, d), d at least 1"
            )
        if dimension is not None and dimension != E.shape[1]:
            raise BadTokens(f"the embedding has {E.shape[1]} columns, not {dimension}")
        return E
    if given not in KINDS:
        raise Unsupported(
            f"unknown embedding {shown(given)}: give an array, or {' or '.join(KINDS)}"
        )
    d = vocabulary if dimension is None else dimension
    require(8.0 * vocabulary * d, f"the embedding of {vocabulary} tokens in {d} dimensions")
    if given == "orthonormal":
        if d < vocabulary:
            raise BadTokens(
                f"{vocabulary} tokens cannot be orthonormal in {d} dimensions: raise the dimension "
                f"to {vocabulary}, or take the embedding normal"
            )
        return np.eye(vocabulary, d)
    E = np.random.default_rng([seed, 11]).standard_normal((vocabulary, d))
    return E / np.linalg.norm(E, axis=1, keepdims=True)


def orthonormal(E: Floats) -> bool:
    """Whether the rows are the first N unit vectors: then every token has a coordinate."""
    return E.shape[0] <= E.shape[1] and bool((np.eye(*E.shape) == E).all())
