"""Three inputs of seven tokens round three centres: the prompt problem with several inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.datasets.random.torch_random import TorchRandom


def multi_input_arrays() -> dict[str, Any]:
    """Identity keys, as the published notebook solves it: ½‖p‖² = 0.31319.

    Theory: [tarzanagh2023maxmargin].
    """
    X = 0.2 * TorchRandom(0).randn(3, 7, 3)
    X[:, 0] += (1.0, 0.0, 0.0)
    X[:, 1:4] += (-1.0, 1.0, 0.0)
    X[:, 4:] += (-0.5, -0.5, 0.0)
    X[:, :, 2] = 0.5
    X[:, 0, 2] = 1.0
    return {"X": X, "v": np.array([0.0, 0.0, 1.0]), "y": np.ones(3)}


def multi_input_planar() -> dict[str, Any]:
    """The keys that training uses, without the score coordinate: ½‖p‖² = 0.37134."""
    arrays = multi_input_arrays()
    arrays["keys"] = arrays["X"] * np.array([1.0, 1.0, 0.0])
    return arrays
