"""The two instances whose training paths are drawn in the plane: two inputs, weights 2 × 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.datasets.random.torch_random import TorchRandom


def _unit(a: Floats) -> Floats:
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def path_picture_1() -> dict[str, Any]:
    """Two clouds of three tokens, left and right (torch seed 1; v, X, z drawn in this order).

    Theory: [tarzanagh2023svm].
    """
    draw = TorchRandom(1)
    v = _unit(draw.randn(2))
    X = 0.3 * draw.randn(2, 3, 2)
    X[0] += (-1.0, 0.0)
    X[1] += (1.0, 0.0)
    return {"X": X, "z": _unit(draw.randn(2, 2)), "v": v, "y": np.ones(2)}


def path_picture_2() -> dict[str, Any]:
    """Five tokens each, the first at (1, ±½), the others to the left (torch seed 3).

    Theory: [tarzanagh2023svm].
    """
    draw = TorchRandom(3)
    v = _unit(draw.randn(2))
    X = 0.5 * draw.randn(2, 5, 2)
    X[:, 0] = ((1.0, 0.5), (1.0, -0.5))
    X[:, 1:] += (-1.0, 0.0)
    return {"X": X, "z": _unit(draw.randn(2, 2)), "v": v, "y": np.ones(2)}
