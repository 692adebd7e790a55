"""Several contexts: tokens drawn round a centre carry the label, the others are noise."""

from __future__ import annotations

from typing import Any

import numpy as np


def contextual_arrays(
    n: int = 12,
    T: int = 6,
    d: int = 12,
    *,
    contexts: int = 3,
    relevant: int = 1,
    spread: float = 0.1,
    token_noise: float = 1.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> dict[str, Any]:
    """Inputs of `contexts` kinds, each with a centre c_k and a label direction u.

    An input of kind k and label y has `relevant` tokens c_k + y u plus noise of size `spread`, and
    T − relevant tokens that are noise of size `token_noise` (in norm); its query is c_k plus a
    little noise. A share `label_noise` of the labels is flipped. v = u: the relevant tokens score
    highest, so attention has to find the context.
    """
    draw = np.random.default_rng(seed)
    basis = np.linalg.qr(draw.standard_normal((d, min(contexts + 1, d))))[0].T
    u, centres = basis[0], basis[1 : contexts + 1]
    kind = draw.integers(0, len(centres), n)
    y = draw.choice([-1.0, 1.0], size=n)
    X = token_noise * draw.standard_normal((n, T, d)) / np.sqrt(d)
    places = np.stack([draw.permutation(T)[:relevant] for _ in range(n)])
    near = spread * draw.standard_normal((n, relevant, d)) / np.sqrt(d)
    X[np.arange(n)[:, None], places] = (centres[kind] + y[:, None] * u)[:, None, :] + near
    z = centres[kind] + spread * draw.standard_normal((n, d)) / np.sqrt(d)
    flipped = draw.random(n) < label_noise
    return {"X": X, "z": z, "v": u, "y": np.where(flipped, -y, y)}
