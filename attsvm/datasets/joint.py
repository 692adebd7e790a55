"""Prompt and decoder together: three inputs of two tokens, the second one selected."""

from __future__ import annotations

from typing import Any

import numpy as np


def _instance(last: float) -> dict[str, Any]:
    chosen = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, last]])
    return {
        "X": np.stack([np.zeros_like(chosen), chosen], axis=1),
        "y": np.array([1.0, -1.0, 1.0]),
        "alpha": np.ones(3, dtype=np.int64),
        "p0": np.array([0.0, -1.0]),
        "v0": np.array([-1.0, 0.0]),
    }


def joint_tight() -> dict[str, Any]:
    """All selected tokens support the decoder: p = (4/3, 1/3), v = (0, 1).

    Theory: [tarzanagh2023maxmargin].
    """
    return _instance(1.0)


def joint_relaxed() -> dict[str, Any]:
    """The third input does not support the decoder: p = (1.25, 0.25), relaxed p = (1, 0).

    Theory: [tarzanagh2023maxmargin].
    """
    return _instance(1.5)
