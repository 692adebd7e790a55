"""One input, three tokens, two dimensions that count: the first pictures of the prompt problem."""

from __future__ import annotations

from typing import Any

import numpy as np


def _instance(last_score: float) -> dict[str, Any]:
    X = np.array([[[-0.1, 1.0, 1.0], [1.0, 0.0, 0.9], [0.0, 0.0, last_score]]])
    return {
        "X": X,
        "keys": X * np.array([1.0, 1.0, 0.0]),  # the third coordinate carries the score only
        "v": np.array([0.0, 0.0, 1.0]),
        "y": np.array([1.0]),
    }


def single_input_global() -> dict[str, Any]:
    """Tokens 1 and 2 share the score 0.9: only token 0 is optimal, globally and locally.

    Theory: A6.1 of the specification, p = (−0.09901, 0.99010, 0) [tarzanagh2023maxmargin].
    """
    return _instance(0.9)


def single_input_local() -> dict[str, Any]:
    """The last token scores 0, so that token 1 is locally optimal too.

    Theory: [tarzanagh2023maxmargin].
    """
    return _instance(0.0)
