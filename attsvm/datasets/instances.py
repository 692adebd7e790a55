"""Instances of token selection: those of the papers' pictures, and random families.

Each function returns the arrays of one problem file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats


def _single_input(last_score: float) -> dict[str, Any]:
    """One input, three tokens, two dimensions that count."""
    X = np.array([[[-0.1, 1.0, 1.0], [1.0, 0.0, 0.9], [0.0, 0.0, last_score]]])
    return {
        "X": X,
        "keys": X * np.array([1.0, 1.0, 0.0]),  # the third coordinate carries the score only
        "v": np.array([0.0, 0.0, 1.0]),
        "y": np.array([1.0]),
    }


def single_input_global() -> dict[str, Any]:
    """Tokens 1 and 2 share the score 0.9: only token 0 is optimal, globally and locally.

    The least prompt is p = (−0.09901, 0.99010, 0).

    Theory: [tarzanagh2023maxmargin].
    """
    return _single_input(0.9)


def single_input_local() -> dict[str, Any]:
    """The last token scores 0, so that token 1 is locally optimal too.

    Theory: [tarzanagh2023maxmargin].
    """
    return _single_input(0.0)


def multi_input_arrays() -> dict[str, Any]:
    """Three inputs of seven tokens round three centres, with ½‖p‖² = 0.31319.

    The keys are the identity, as in the published notebook.

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


def _joint(last: float) -> dict[str, Any]:
    """Prompt and decoder together: three inputs of two tokens, the second one selected."""
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
    return _joint(1.0)


def joint_relaxed() -> dict[str, Any]:
    """The third input does not support the decoder: p = (1.25, 0.25), relaxed p = (1, 0).

    Theory: [tarzanagh2023maxmargin].
    """
    return _joint(1.5)


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


def vocabulary_arrays() -> dict[str, Any]:
    """Twenty orthonormal tokens, each followed by the next: (e_n(x) − e_u)ᵀ W x ≥ 1.

    The least norm is √19.

    Theory: [huang2024nexttoken].
    """
    N = 20
    return {
        "X": np.broadcast_to(np.eye(N), (N, N, N)).copy(),
        "z": np.eye(N),
        "alpha": (np.arange(N) + 1) % N,
    }


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


class TorchRandom:
    """torch.randn without torch: a stream of `torch.manual_seed(seed)`, in the order of the calls.

    torch draws 32-bit words from the same Mersenne twister as NumPy's legacy generator. Fewer than
    16 normals come one by one from 53-bit uniforms (the second of each pair is kept for the next
    small call); 16 and more come in blocks of 16 from 24-bit uniforms in float32, first 8 as
    radius, last 8 as angle, and a size that is no multiple of 16 draws its last 16 again.

    >>> [round(float(x), 4) for x in TorchRandom(0).randn(3)]
    [1.541, -0.2934, -2.1788]
    """

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed)
        self._kept: float | None = None

    def _draw(self, count: int) -> np.ndarray:
        """The next 32-bit words."""
        return np.frombuffer(self._words.bytes(4 * count), dtype="<u4").astype(np.uint64)

    def randn(self, *shape: int) -> Floats:
        """Standard normals of this shape, as torch.randn in float32 would give them."""
        size = int(np.prod(shape))
        flat = self._blocks(size) if size >= 16 else self._singles(size)
        return flat.astype(np.float32).astype(np.float64).reshape(shape)

    def _singles(self, size: int) -> Floats:
        out = np.empty(size)
        for k in range(size):
            if self._kept is not None:
                out[k], self._kept = self._kept, None
                continue
            high1, low1, high2, low2 = (int(w) for w in self._draw(4))
            first = (((high1 << 32) | low1) & ((1 << 53) - 1)) / 2**53
            second = (((high2 << 32) | low2) & ((1 << 53) - 1)) / 2**53
            radius = np.sqrt(-2.0 * np.log1p(-second))
            out[k] = radius * np.cos(2 * np.pi * first)
            self._kept = float(radius * np.sin(2 * np.pi * first))
        return out

    def _blocks(self, size: int) -> Floats:
        uniform = self._uniform(size)
        out = np.empty(size, dtype=np.float32)
        for start in range(0, size - 15, 16):
            out[start : start + 16] = _block(uniform[start : start + 16])
        if size % 16:
            out[size - 16 :] = _block(self._uniform(16))
        return out.astype(np.float64)

    def _uniform(self, count: int) -> np.ndarray:
        return ((self._draw(count) & 0xFFFFFF).astype(np.float32)) / np.float32(2**24)


def _block(u: np.ndarray) -> np.ndarray:
    """16 normals from 16 uniforms: radius from the first 8, angle from the last 8."""
    radius = np.sqrt(np.float32(-2) * np.log(np.float32(1) - u[:8]))
    angle = np.float32(2 * np.pi) * u[8:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
