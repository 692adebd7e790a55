"""Errors of the gradient: against central differences, and against arithmetic of many digits."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.training.heads import HEADS, Head, Linear
from attsvm.training.losses import Loss
from attsvm.training.models import MODELS, TRAINED, Model, with_head
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate, grown_blocks
from attsvm.training.optimizers.optimizer import Blocks, Gradient
from tests.training.models.instances import (
    GRID_HEAD,
    for_model,
    head_named,
    random_batch,
    random_params,
    saturated,
    tied_batch,
    vectors,
)
from tests.training.models.precise import gradient as precise_gradient

# Every model with every head: those that can be trained, for a model that trains its head.
PAIRS = [
    (name, head)
    for name, model in MODELS.items()
    for head in (TRAINED if model.trains_head else HEADS)
]
# Central differences of order four: their error is step⁴ plus rounding over step.
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))
STEP = 1e-3
# Depth of the saturated instances: a gradient of the attention of about e^−600.
DEPTH = 600.0

Case = tuple[Model, Blocks, Batch, Head | None]


def plain(gradient: Gradient) -> Blocks:
    """Each block of a gradient as plain floats."""
    return grown_blocks(gradient.direction, gradient.log_scale)


def _form(name: str, head: str) -> Model:
    """The model of this name, with the head it trains if it trains one."""
    model = MODELS[name]
    return with_head(model, head) if model.trains_head else model


def unsaturated_case(name: str, head: str, seed: int = 23) -> Case:
    """A model with a head on a random masked batch whose attention is spread.

    With this seed no unit of a ReLU head turns on or off within the stencil.
    """
    model = _form(name, head)
    batch = for_model(model, random_batch(seed, mask=True))
    reader = None if model.trains_head else head_named(head, batch, seed, model)
    return model, random_params(model, batch, seed, 0.5), batch, reader


def saturated_case(name: str, head: str, seed: int = 11, depth: float = DEPTH) -> Case:
    """A model with a head on a masked batch with attention e^−depth off the top tokens."""
    model = _form(name, head)
    batch = for_model(model, random_batch(seed, B=2, mask=True))
    params = random_params(model, batch, seed)
    if "tau" in params:  # attention is saturated by τ, and keys stay of length one or so
        params["tau"] = np.copysign(depth, params["tau"])
    batch, top = saturated(batch, vectors(model, params, batch.queries), depth, seed)
    for own in top.swapaxes(0, 1):
        np.put_along_axis(batch.present, own[:, :, None], True, axis=2)
    reader = None if model.trains_head else head_named(head, batch, seed, model)
    return model, params, batch, reader


def tied_case(kind: str, seed: int, depth: float) -> Case:
    """The weight model on exact ties of this kind."""
    model = MODELS["weight"]
    params = random_params(model, random_batch(seed, B=2), seed)
    return model, params, tied_batch(kind, seed, params["W"], depth), Linear(GRID_HEAD[None])


def underflowing_case(name: str, seed: int = 11) -> Case:
    """A joint model with every margin between 1000 and 1003.

    The slopes of the logistic and the exponential loss are below 1e-400 and alike, so that every
    input counts in the direction of v: values are moved along v until the margins fit.
    """
    model, params, batch, reader = saturated_case(name, "linear", seed)
    v = params["v"]
    margins = 1000 + 3 * np.random.default_rng(seed).random(batch.values.shape[:3])
    short = batch.labels[:, :, None] * margins - np.einsum("bnte,be->bnt", batch.values, v)
    square = np.square(v).sum(axis=1)[:, None, None]
    batch.values[:] += (short / square)[..., None] * v[:, None, None, :]
    return model, params, batch, reader


def central_errors(case: Case, loss: Loss) -> dict[str, float]:
    """For each block the largest error against central differences, as a share of the largest
    entry; nan when the differences are all zero."""
    model, params, batch, reader = case
    found = plain(evaluate(model, params, batch, reader, loss).gradient)
    errors = {}
    for block, value in params.items():
        slope = np.zeros_like(value)
        for place in np.ndindex(value.shape[1:]):
            at = (slice(None), *place)
            for times, weight in STENCIL:
                moved = value.copy()
                moved[at] += times * STEP
                there = evaluate(model, params | {block: moved}, batch, reader, loss)
                slope[at] += weight * there.loss / STEP
        size = np.abs(slope).max()
        errors[block] = float(np.abs(found[block] - slope).max() / size) if size > 0 else np.nan
    return errors


def precise_error(case: Case, loss: Loss) -> tuple[float, float]:
    """The largest error of a direction or of a log norm over blocks and instances, and the least
    log norm; the error is infinite when a block that is not zero is lost, or the reverse."""
    model, params, batch, head = case
    found = evaluate(model, params, batch, head, loss).gradient
    error, least = 0.0, np.inf
    for b, blocks in enumerate(precise_gradient(model, params, batch, head, loss)):
        for name, (unit, log_size) in blocks.items():
            G: Floats = found.direction[name][b]
            size = float(np.linalg.norm(G))
            if log_size == -np.inf or size == 0:
                error = error if log_size == -np.inf and size == 0 else np.inf
                continue
            mine = np.log(size) + found.log_scale[name][b]
            error = max(error, float(np.abs(G / size - unit).max()), abs(mine - log_size))
            least = min(least, log_size)
    return error, least
