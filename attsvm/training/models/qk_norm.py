"""Normalized queries and keys: logits τ k̂_tᵀ W z/‖W z‖ with unit keys k̂, W and τ trained."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens
from attsvm.training.models.model import Factors, Layer, LayerPart, Model
from attsvm.training.models.multi_head import summed
from attsvm.training.optimizers.optimizer import Blocks


def _directions(params: Blocks, z: Floats) -> tuple[Floats, Floats]:
    """W z_i/‖W z_i‖ (B, n, d) and ‖W z_i‖ (B, n, 1)."""
    u = np.matmul(z, params["W"].swapaxes(1, 2))
    size = (u * u).sum(axis=2, keepdims=True) ** 0.5
    if (size == 0).any():
        b, i, _ = (int(k) for k in np.argwhere(size == 0)[0])
        raise BadTokens(
            f"W z is 0 at input {i} of instance {b}, and model 'qk-norm' divides by its norm: the "
            "start must not be zero, such as init normal:0.1"
        )
    return u / size, size


def _vectors(params: Blocks, z: Floats) -> Floats:
    return (params["tau"][:, :, None] * _directions(params, z)[0])[:, None]


def _chain(params: Blocks, z: Floats, g: Floats, log: Floats) -> tuple[Blocks, dict[str, Floats]]:
    """∇τ = Σ g_i·u_i and ∇W = Σ (τ/‖W z_i‖) (g_i − (g_i·u_i) u_i) z_iᵀ, u_i = W z_i/‖W z_i‖."""
    u, size = _directions(params, z)
    g, log = g[:, 0], log[:, 0]
    along = (g * u).sum(axis=2, keepdims=True)
    W, scale = summed(params["tau"][:, :, None] / size * (g - along * u), log, z)
    tau, _ = summed(along, log, np.ones((*log.shape, 1)))
    return {"W": W, "tau": tau[:, :, 0]}, {"W": scale, "tau": scale}


def _factors(params: Blocks, D: Floats, z: Floats, h: int) -> Factors:
    """W = Σ x (τ/‖W z‖) (D − (D·u) u) zᵀ and τ = Σ x D·u."""
    u, size = _directions(params, z)
    B, n, d = u.shape
    parts = D.reshape(B, n, -1, d)
    along = (parts * u[:, :, None]).sum(axis=3, keepdims=True)
    across = params["tau"][:, :, None, None] / size[:, :, None] * (parts - along * u[:, :, None])
    ones = np.ones((B, n, 1))
    return {"W": (across.reshape(D.shape), z), "tau": (along.reshape(*D.shape[:2], 1), ones)}


def unit_keys(tokens: Tokens) -> Tokens:
    """The tokens with unit keys."""
    still = np.flatnonzero(~tokens.queries.any(axis=1))
    if len(still):
        raise BadTokens(f"query {still[0]} has norm 0, and model 'qk-norm' divides by ‖W z‖")
    keys = np.asarray(tokens.keys, dtype=np.float64)
    size = np.linalg.norm(keys, axis=2, keepdims=True)
    source = size if tokens.source is None else size[tokens.source]
    zero = np.argwhere((source[:, :, 0] == 0) & tokens.present())
    if len(zero):
        i, t = (int(k) for k in zero[0])
        raise BadTokens(
            f"token {t} of input {i} has a key of norm 0, which model 'qk-norm' divides by"
        )
    return Tokens(
        tokens.X,
        keys=keys / np.where(size == 0, 1.0, size),
        queries=tokens.queries,
        labels=tokens.labels,
        mask=tokens.mask,
        source=tokens.source,
    )


def inputs_alone(params: Blocks, tokens: Tokens) -> list[LayerPart]:
    """Each input alone, its prompt τ W z/‖W z‖."""
    w = _vectors(params, tokens.queries[None])[0, 0]
    keys, X, present = np.asarray(tokens.keys), np.asarray(tokens.X), tokens.present()
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    found = []
    for i, s in enumerate(source):
        labels = None if tokens.labels is None else tokens.labels[i : i + 1]
        alone = Tokens(X[s][None], keys=keys[s][None], labels=labels, mask=present[i][None])
        found.append(LayerPart(alone, w[i][:, None], 0))
    return found


QK_NORM = Model(
    "qk-norm",
    lambda d, dq, width, e: {"W": (d, dq), "tau": (1,)},
    lambda params: params["W"],
    start="normal:0.1",
    layer=Layer(
        _vectors,
        _chain,
        inputs_alone,
        kind="input",
        factors=_factors,
        prepare=unit_keys,
        begin={"tau": 1.0},
    ),
)
