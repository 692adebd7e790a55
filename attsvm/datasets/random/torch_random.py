"""torch.randn without torch: the papers' data from their seeds.

torch draws 32-bit words from the same Mersenne twister as NumPy's legacy generator. Fewer than 16
normals come one by one from 53-bit uniforms (the second of each pair is kept for the next small
call); 16 and more come in blocks of 16 from 24-bit uniforms in float32, first 8 as radius, last 8
as angle, and a size that is no multiple of 16 draws its last 16 again.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats


class TorchRandom:
    """A stream of `torch.manual_seed(seed)`; `randn(*shape)` in the order of the calls.

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
