"""Next-token prediction on an orthonormal vocabulary: the output matrix W_ov."""

from __future__ import annotations

from typing import Any

import numpy as np


def vocabulary_arrays() -> dict[str, Any]:
    """Twenty tokens, each followed by the next: (e_n(x) − e_u)ᵀ W x ≥ 1, least norm √19.

    Theory: [huang2024nexttoken].
    """
    N = 20
    return {
        "X": np.broadcast_to(np.eye(N), (N, N, N)).copy(),
        "z": np.eye(N),
        "alpha": (np.arange(N) + 1) % N,
    }
