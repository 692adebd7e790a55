"""Batches for the gradient tests: random ones, and ones with exact ties built on a dyadic grid."""

import numpy as np

from attsvm.training.heads import HEADS, Head
from attsvm.training.models import MODELS, Model
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.task import heads_of


def random_batch(seed: int, *, B=3, n=4, T=5, d=4, dq=3, e=4, mask=False) -> Batch:
    """Gaussian keys, values and queries with random labels; with mask, about a third is absent."""
    rng = np.random.default_rng(seed)
    present = np.ones((B, n, T), bool)
    if mask:
        present = rng.random((B, n, T)) < 0.67
        present[:, :, rng.integers(T)] = True
    return Batch(
        rng.standard_normal((B, n, T, d)),
        rng.standard_normal((B, n, T, e)),
        rng.standard_normal((B, n, dq)),
        rng.choice([-1.0, 1.0], (B, n)),
        present,
    )


def random_params(model: Model, batch: Batch, seed: int, scale: float = 1.0) -> dict:
    """Gaussian blocks, those of the attention matrix times scale."""
    rng = np.random.default_rng(1000 + seed)
    d, dq = batch.shape
    shapes = model.shapes(d, dq, 2, batch.values.shape[3])
    return {
        name: rng.standard_normal((batch.size, *shape)) * (1.0 if name == "v" else scale)
        for name, shape in shapes.items()
    }


def for_model(model: Model, batch: Batch) -> Batch:
    """The batch, with queries 1 for a prompt."""
    if not model.prompt:
        return batch
    ones = np.ones((*batch.queries.shape[:2], 1))
    return Batch(batch.keys, batch.values, ones, batch.labels, batch.present)


def head_named(name: str, batch: Batch, seed: int, model: Model = MODELS["weight"]) -> Head:
    """A Gaussian prediction head of this kind, one per instance."""
    rng = np.random.default_rng(2000 + seed)
    return HEADS[name].random(rng, batch.size, heads_of(model) * batch.values.shape[3])


def vectors(model: Model, params: dict, z: np.ndarray) -> np.ndarray:
    """What the keys of each head and input are multiplied with, (B, H, n, d)."""
    if model.layer is not None:
        return model.layer.vectors(params, z)
    return np.matmul(z, model.matrix(params).swapaxes(1, 2))[:, None]


# The head of the tied instances: sums of grid values under it are exact.
GRID_HEAD = np.array([1.0, -0.5, 2.0, 0.25])
# Differences of values that this head does not see.
UNSEEN = np.array([[0.5, 1.0, 0.0, 0.0], [2.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 2.0]])


def saturated(batch: Batch, w: np.ndarray, depth: float, seed: int) -> tuple[Batch, np.ndarray]:
    """The batch with keys moved along the vectors w (B, H, n, d), and the top tokens (B, H, n).

    Logits become 0 at the top token and between −depth − 3 and −depth at the others, so that many
    terms of the gradient have the same order e^−depth.
    """
    rng = np.random.default_rng(4000 + seed)
    B, H, n, _ = w.shape
    T = batch.keys.shape[2]
    logits = -depth - 3 * rng.random((B, H, n, T))
    top = rng.integers(T, size=(B, H, n))
    np.put_along_axis(logits, top[..., None], 0.0, axis=3)
    short = logits - np.einsum("bntd,bhnd->bhnt", batch.keys, w)
    along = np.linalg.pinv(w.swapaxes(1, 2))  # (B, n, d, H)
    keys = batch.keys + np.einsum("bndh,bhnt->bntd", along, short)
    return Batch(keys, batch.values, batch.queries, batch.labels, batch.present), top


def tied_batch(kind: str, seed: int, W: np.ndarray, depth: float) -> Batch:
    """A saturated batch with exact ties of the top token under W (B, d, dq) and GRID_HEAD.

    kind: "equal scores", two tokens of each input, one of them attended; "all tied", every token
    of input 0; "all tied, all inputs"; "duplicates", the top token twice in each input; "same key",
    the top key twice in input 0 with other values; "zero query", input 0 attends to all alike;
    "near minimum" and "at minimum", top scores 1 + 2⁻²⁰ and 1 with labels 1; "plain", grid values
    without more. The top values are 0 in "tied at top", two tokens of equal score there, and "all
    tied at top": a bent head v·o − λ‖o‖² ties them there, and unties them on the way.
    """
    batch = random_batch(seed, B=len(W))
    w = vectors(MODELS["weight"], {"W": W}, batch.queries)
    batch, top = saturated(batch, w, depth, seed)
    top = top[:, 0]
    B, n, T, e = batch.values.shape
    rng = np.random.default_rng(3000 + seed)
    keys, queries, labels = batch.keys, batch.queries, batch.labels
    values = rng.integers(-8, 9, (B, n, T, e)) / 4.0
    for b in range(B):
        for i in range(n):
            a = top[b, i]
            one, two = (a + 1) % T, (a + 2) % T
            if kind.endswith("tied at top"):
                values[b, i, a] = 0.0
                times = rng.integers(1, 4, (T, 3)).astype(float)
                tied = np.arange(T) != a if kind.startswith("all") else [one, two]
                values[b, i, tied] = (times @ UNSEEN)[tied]
            elif kind == "equal scores":
                values[b, i, one] = values[b, i, a] + UNSEEN[i % 3]
                values[b, i, two] = values[b, i, a] - UNSEEN[(i + 1) % 3]
                w = W[b] @ queries[b, i]
                across = rng.standard_normal(len(w))
                keys[b, i, one] = keys[b, i, a] + across - (across @ w + rng.random()) * w / (w @ w)
            elif kind == "all tied, all inputs" or (kind == "all tied" and i == 0):
                times = rng.integers(-3, 4, (T, 3)).astype(float)
                values[b, i] = values[b, i, a] + times @ UNSEEN
            elif kind == "duplicates":
                values[b, i, one], keys[b, i, one] = values[b, i, a], keys[b, i, a]
            elif kind == "same key" and i == 0:
                keys[b, i, one] = keys[b, i, a]
            elif kind == "zero query" and i == 0:
                queries[b, i] = 0.0
            elif kind.endswith("minimum"):
                above = 2.0**-20 if kind == "near minimum" else 0.0
                values[b, i, a, 0] += 1 + above - values[b, i, a] @ GRID_HEAD
    if kind.endswith("minimum"):
        labels = np.ones_like(labels)
    return Batch(keys, values, queries, labels, batch.present)


TIES = (
    "plain", "equal scores", "all tied", "duplicates", "same key", "zero query", "near minimum",
    "at minimum",
)  # fmt: skip
