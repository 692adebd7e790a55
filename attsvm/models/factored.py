"""Keys and queries as factors: W = K Qᵀ with K (d, m) and Q (dq, m)."""

from __future__ import annotations

import numpy as np

from attsvm.models.model import Model
from attsvm.rules.rule import Blocks
from attsvm.tokens import Floats


def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """K (d, m) and Q (dq, m)."""
    return {"K": (d, width), "Q": (dq, width)}


def matrix(params: Blocks) -> Floats:
    """K Qᵀ."""
    return np.matmul(params["K"], params["Q"].transpose(0, 2, 1))


def chain(params: Blocks, G: Floats) -> Blocks:
    """∇_K = G Q and ∇_Q = Gᵀ K."""
    return {"K": np.matmul(G, params["Q"]), "Q": np.matmul(G.transpose(0, 2, 1), params["K"])}


MODEL = Model("factored", shapes, matrix, chain)
