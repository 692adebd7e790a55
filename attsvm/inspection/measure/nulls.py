"""Nulls: heads made of the same numbers by chance, which choose for themselves.

With the singular values of W = U S Vᵀ, `spectrum` draws both subspaces anew, and `rotated` keeps
the head's own subspaces and turns inside them: W = U R S R'ᵀ Vᵀ. What a trained head does no better
than these is no finding about training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import Unsupported
from attsvm.inspection.view import View

# Singular values below this share of the largest are rounding.
_RANK = 1e-12


def spectrum(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and random subspaces."""
    U, S, V = decompose(view)
    left = _orthonormal(rng, U.shape[0], len(S))
    return _with(view, left, S, _orthonormal(rng, V.shape[0], len(S)))


def rotate(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and subspaces, rotated inside them."""
    U, S, V = decompose(view)
    rank = max(1, int((_RANK * S.max() < S).sum()))  # what lies beyond is none of the head's
    turns = (_orthonormal(rng, rank, rank) for _ in range(2))
    left, right = (part[:, :rank] @ turn for part, turn in zip((U, V), turns, strict=True))
    return _with(view, left, S[:rank], right)


NULLS: dict[str, Callable[[View, np.random.Generator], View]] = {
    "spectrum": spectrum,
    "rotated": rotate,
}


def decompose(view: View) -> tuple[Floats, Floats, Floats]:
    """U (d, h), S (h,), V (dq, h) with W = U S Vᵀ, from the factors alone."""
    if view.turns is not None:
        raise Unsupported("an attention head with rotary positions has no single W and no nulls")
    left, A = np.linalg.qr(view.key_factor.astype(np.float64).T)
    right, B = np.linalg.qr(view.query_factor.astype(np.float64).T)
    u, S, v = np.linalg.svd(A @ B.T, full_matrices=False)
    return left @ u, S, right @ v.T


def permute(view: View, chosen: Ints, rng: np.random.Generator) -> Ints:
    """The choices (n,) of other queries, drawn without repetition.

    They are counted among the valid keys; where there are fewer, modulo their number.
    """
    rank = (np.cumsum(view.valid, axis=1) - 1)[np.arange(len(chosen)), chosen]
    other = rank[rng.permutation(len(chosen))] % view.valid.sum(axis=1)
    places = np.argsort(~view.valid, axis=1, kind="stable")
    keys: Ints = places[np.arange(len(chosen)), other]
    return keys


def _with(view: View, U: Floats, S: Floats, V: Floats) -> View:
    root = np.sqrt(S)
    return replace(view, key_factor=(U * root).T, query_factor=(V * root).T)


def _orthonormal(rng: np.random.Generator, d: int, h: int) -> Floats:
    """h orthonormal columns of d entries, uniform over all such."""
    basis, R = np.linalg.qr(rng.normal(size=(d, h)))
    columns: Floats = basis * np.sign(np.diag(R))
    return columns
