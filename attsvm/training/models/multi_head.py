"""Several heads: f_i = Σ_h v_hᵀ X_iᵀ softmax(X_i W_h z_i), the keys being X_i unless given.

Heads that start alike and are read alike stay so, so that a run starts elsewhere than at zero.
Optimizers normalize block by block: "multi-head" has all W_h in one block, below each other, and
"split-heads" has a block for each head.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.problem.tokens import Tokens
from attsvm.training.models.model import Factors, Layer, LayerPart, Model
from attsvm.training.optimizers.optimizer import Blocks


def summed(g: Floats, log: Floats, z: Floats) -> tuple[Floats, Floats]:
    """(G (B, d, dq), M (B,)) with Σ e^log_i g_i z_iᵀ = e^M G, log (B, m)."""
    peak = log.max(axis=1)
    weights = np.exp(log - np.where(np.isneginf(peak), 0.0, peak)[:, None])
    return np.matmul((g * weights[:, :, None]).swapaxes(1, 2), z), peak


def _parts(heads: Floats, tokens: Tokens) -> list[LayerPart]:
    """The matrices (1, H, d, dq) of the heads, each with all inputs."""
    return [LayerPart(tokens, W, h) for h, W in enumerate(heads[0])]


def _vectors(heads: Floats, z: Floats) -> Floats:
    """W_h z_i (B, H, n, d) of matrices (B, H, d, dq)."""
    return np.matmul(heads, z.swapaxes(1, 2)[:, None]).swapaxes(2, 3)


def multi_head(H: int) -> Model:
    """H heads in one block W (H d, dq), W_1 to W_H below each other."""

    def heads_of(params: Blocks) -> Floats:
        W = params["W"]
        return W.reshape(len(W), H, -1, W.shape[2])

    def chain(
        params: Blocks, z: Floats, g: Floats, log: Floats
    ) -> tuple[Blocks, dict[str, Floats]]:
        """∇W_h = Σ_i g_ih z_iᵀ, all over one scale."""
        peak = log.max(axis=(1, 2))
        parts = []
        for h in range(H):
            G, own = summed(g[:, h], log[:, h], z)
            parts.append(G * _down(own, peak)[:, None, None])
        return {"W": np.concatenate(parts, axis=1)}, {"W": peak}

    def factors(params: Blocks, D: Floats, z: Floats, h: int) -> Factors:
        """W_h = Σ x D zᵀ, in its rows."""
        d = D.shape[2]
        left = np.zeros((*D.shape[:2], H * d))
        left[:, :, h * d : (h + 1) * d] = D
        return {"W": (left, z)}

    layer = Layer(
        lambda params, z: _vectors(heads_of(params), z),
        chain,
        lambda params, tokens: _parts(heads_of(params), tokens),
        factors=factors,
        heads=H,
        resized=multi_head,
    )
    return Model(
        "multi-head",
        lambda d, dq, width, e: {"W": (H * d, dq)},
        lambda params: params["W"],
        start="normal:0.1",
        layer=layer,
    )


def split_heads(H: int) -> Model:
    """H heads in blocks W1 to WH (d, dq)."""
    names = [f"W{h}" for h in range(1, H + 1)]

    def heads_of(params: Blocks) -> Floats:
        return np.stack([params[name] for name in names], axis=1)

    def chain(
        params: Blocks, z: Floats, g: Floats, log: Floats
    ) -> tuple[Blocks, dict[str, Floats]]:
        """∇W_h = Σ_i g_ih z_iᵀ, each over its own scale."""
        found = {name: summed(g[:, h], log[:, h], z) for h, name in enumerate(names)}
        return {name: G for name, (G, _) in found.items()}, {
            name: scale for name, (_, scale) in found.items()
        }

    layer = Layer(
        lambda params, z: _vectors(heads_of(params), z),
        chain,
        lambda params, tokens: _parts(heads_of(params), tokens),
        factors=lambda params, D, z, h: {names[h]: (D, z)},
        heads=H,
        resized=split_heads,
    )
    return Model(
        "split-heads",
        lambda d, dq, width, e: dict.fromkeys(names, (d, dq)),
        lambda params: np.concatenate([params[name] for name in names], axis=1),
        start="normal:0.1",
        layer=layer,
    )


def _down(log: Floats, peak: Floats) -> Floats:
    """e^(log − peak), 0 where log is −∞."""
    return np.exp(log - np.where(np.isneginf(peak), 0.0, peak))
