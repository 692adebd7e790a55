"""Keys and queries as factors: W = K Qᵀ with K (d, m) and Q (dq, m)."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.models.model import Factors, Model
from attsvm.training.optimizers.optimizer import Blocks


def shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    """K (d, m) and Q (dq, m)."""
    return {"K": (d, width), "Q": (dq, width)}


def matrix(params: Blocks) -> Floats:
    """K Qᵀ."""
    return np.matmul(params["K"], params["Q"].transpose(0, 2, 1))


def chain(params: Blocks, G: Floats) -> Blocks:
    """∇_K = G Q and ∇_Q = Gᵀ K."""
    return {"K": np.matmul(G, params["Q"]), "Q": np.matmul(G.transpose(0, 2, 1), params["K"])}


def factors(params: Blocks, D: Floats, z: Floats) -> Factors:
    """∇_K = Σ x D (Qᵀz)ᵀ and ∇_Q = Σ x z (KᵀD)ᵀ."""
    return {"K": (D, np.matmul(z, params["Q"])), "Q": (z, np.matmul(D, params["K"]))}


MODEL = Model("factored", shapes, matrix, chain, factors=factors, start="normal:0.1", paired=True)
