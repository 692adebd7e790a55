"""Random tokens, queries and head on the unit sphere: the family of the averaged experiments."""

from __future__ import annotations

from typing import Any

import numpy as np


def sphere_arrays(
    n: int = 6, T: int = 8, d: int = 10, *, seed: int = 0, equal_scores: bool = False
) -> dict[str, Any]:
    """v, x and z uniform on the unit sphere of R^d, labels ±1 at random.

    equal_scores: tokens that are not an input's best are moved along v until they share the least
    of their scores, the premise of the global theorems; they leave the sphere.

    Theory: the setting of the local-convergence experiments [tarzanagh2023svm],
    [julistiono2024mirror].
    """
    draw = np.random.default_rng(seed)
    arrays = [draw.standard_normal(shape) for shape in ((n, T, d), (n, d), (d,))]
    X, z, v = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in arrays)
    y = draw.choice([-1.0, 1.0], size=n)
    if equal_scores:
        score = y[:, None] * (X @ v)
        rest = score < score.max(axis=1, keepdims=True)
        shift = np.where(rest, score.min(axis=1, keepdims=True) - score, 0.0)
        X = X + (y[:, None] * shift)[:, :, None] * v
    return {"X": X, "z": z, "v": v, "y": y}
