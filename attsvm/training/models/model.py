"""Model: a parameterization of the attention matrix, and its gradient by the chain rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.objects import keep_declared
from attsvm.errors import Unsupported
from attsvm.training.heads import Head, Linear
from attsvm.training.losses import Loss
from attsvm.training.models.gradient.attention import Slopes, attend, pull, terms
from attsvm.training.models.gradient.batch import Batch, residual, shortfalls
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import of_logs
from attsvm.training.optimizers.optimizer import Blocks, Gradient

# The vectors of each block's terms: left and right ones, (B, ·, ·).
Factors = dict[str, tuple[Floats, Floats]]


def _linear(params: Blocks) -> Head:
    """The linear head of the block v."""
    return Linear(params["v"])


@dataclass(frozen=True)
class Model:
    """Blocks of parameters that make W (B, d, dq).

    shapes(d, dq, width, e) gives the shape of each block without the stack axis; matrix(params)
    gives W; chain(params, G) the direction of each block from that of W. With `trains_head` a
    further block is the head, trained as well, and `reads` makes the head of it. `prompt` models
    need queries of width one. start: where a run begins by default. fused: W is the one
    block, so that the fused kernel takes its steps. paired: the blocks are K and Q with W = K Qᵀ,
    which have a kernel of their own. Both speak of matrix and chain: `dataclasses.replace` with
    another matrix or chain drops them. about: what they were declared for.

    factors(params, D, z) gives for each block the vectors a and b of the term a bᵀ that a term D zᵀ
    of W's gradient becomes: D (B, n T, d) differences of keys, one per token, z (B, n, dq) queries,
    one per input. None: the model has no graded form.

    >>> from attsvm.training.models import MODELS
    >>> params = {"K": np.ones((1, 3, 2)), "Q": np.ones((1, 4, 2))}
    >>> MODELS["factored"].matrix(params).shape
    (1, 3, 4)
    """

    name: str
    shapes: Callable[[int, int, int, int], dict[str, tuple[int, ...]]]
    matrix: Callable[[Blocks], Floats]
    chain: Callable[[Blocks, Floats], Blocks]
    trains_head: bool = False
    reads: Callable[[Blocks], Head] = _linear
    prompt: bool = False
    factors: Callable[[Blocks, Floats, Floats], Factors] | None = None
    start: str = "zero"
    fused: bool = False
    paired: bool = False
    about: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        keep_declared(self, (self.matrix, self.chain), ("fused", "paired"))


def check_model(model: Model) -> None:
    """Raises Unsupported, with the condition and the input, unless the model meets its contract.

    The contract: matrix gives a finite W (B, d, dq); chain gives each block of attention in its own
    shape, and its inner product with a small change of the blocks is that of G with the change of
    W; both leave their arguments alone. The head's own block has nothing to do with either.
    """
    d, dq, B = 3, 1 if model.prompt else 2, 2
    said = f"on two random instances with d = {d}, dq = {dq}, width 2"
    rng = np.random.default_rng(0)
    try:
        shapes = model.shapes(d, dq, 2, d)
        params = {name: rng.standard_normal((B, *shape)) for name, shape in shapes.items()}
        before = {name: block.copy() for name, block in params.items()}
        W = np.asarray(model.matrix(params))
        G = rng.standard_normal((B, d, dq))
        found = model.chain(params, G.copy())
        own = model.reads(params).block if model.trains_head else ""
        h, toward = 1e-6, {name: rng.standard_normal(x.shape) for name, x in params.items()}
        ends = [
            np.asarray(model.matrix({name: x + s * toward[name] for name, x in params.items()}))
            for s in (h, -h)
        ]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unsupported(f"model {model.name!r} fails {said} ({reason})") from error
    trained = {name: x.shape for name, x in params.items() if name != own}
    contract = {
        "matrix gives a finite W (B, d, dq)": W.shape == (B, d, dq) and np.isfinite(W).all(),
        "chain gives every block of attention in its own shape": trained
        == {name: np.shape(block) for name, block in found.items()},
        "matrix and chain leave their arguments alone": all(
            np.array_equal(params[name], block) for name, block in before.items()
        ),
    }
    if all(contract.values()):
        wanted = float(np.vdot(G, (ends[0] - ends[1]) / (2 * h)))
        got = sum(float(np.vdot(block, toward[name])) for name, block in found.items())
        contract["chain is the derivative of matrix"] = bool(np.isclose(got, wanted, 1e-5, 1e-6))
    for law, kept in contract.items():
        if not kept:
            raise Unsupported(f"model {model.name!r} breaks its contract: {law}; {said}")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One pass: loss (B,), gradient, log attention (B, n, T), top tokens (B, n), margins (B, n)."""

    loss: Floats
    gradient: Gradient
    logs: Floats
    top: Ints
    margins: Floats


def evaluate(
    model: Model,
    params: Blocks,
    batch: Batch,
    head: Head | None,
    loss: Loss,
    *,
    graded: bool = False,
) -> Evaluation:
    """Loss and gradient of (1/n) Σ ℓ(y_i h(o_i)) at the parameters, exact at any saturation.

    head: the fixed head; None when the model trains its own. graded: add the gradient's graded
    form, if the model has one.
    """
    read = model.reads(params) if model.trains_head or head is None else head
    W = np.ascontiguousarray(model.matrix(params))
    arrays = batch.keys, batch.values, batch.queries, batch.present
    logs, top, pooled = attend(*arrays, W)
    margins = batch.labels * read.value(pooled)
    if loss.from_best is None or read.vector is None:
        value, (sign, log_slope) = loss.value(margins), loss.slope(margins)
    else:
        short = shortfalls(batch, read.vector, loss.best)
        value, sign, log_slope = loss.from_best(*residual(short, logs))
    slopes = np.ascontiguousarray(batch.labels[:, :, None] * read.gradient(pooled))
    curvature = (read.curvature or 0.0) * batch.labels
    at = Slopes(logs, top, slopes, sign, log_slope, curvature)
    G, scale = pull(*arrays, at)
    direction = model.chain(params, G)
    log_scale = {name: scale for name in direction}
    if model.trains_head:
        # (1/n) Σ ℓ'_i y_i ∂h(o_i): nothing cancels, only ℓ' underflows.
        top_slope = log_slope.max(axis=1)
        finite = np.where(np.isfinite(top_slope), top_slope, 0.0)
        weights = sign * np.exp(log_slope - finite[:, None]) * batch.labels
        direction[read.block] = read.pull(pooled, weights)
        log_scale[read.block] = top_slope - np.log(batch.keys.shape[1])
    gradient = Gradient(direction, log_scale)
    if graded and model.factors is not None:
        D, share, power = terms(*arrays, at)
        vectors = model.factors(params, D.reshape(*_flat(D)), batch.queries)
        found = _graded(vectors, share, power)
        if model.trains_head:
            # ∂h(o_i) = o_i unitsᵢᵀ, and o_i is the sum of its tokens' values s_t x_t.
            weight = log_slope[:, :, None] + logs - np.log(batch.keys.shape[1])
            signed = (sign * batch.labels)[:, :, None] * np.where(batch.present, 1.0, 0.0)
            vectors = {read.block: (batch.values.reshape(*_flat(batch.values)), read.units(pooled))}
            found |= _graded(vectors, *of_logs(signed, weight))
        gradient = replace(gradient, graded=found)
    return Evaluation(value.mean(axis=1), gradient, logs, top, margins)


def _flat(tokens: Floats) -> tuple[int, int, int]:
    """The shape (B, n T, ·) of tokens (B, n, T, ·)."""
    B, n, T, d = tokens.shape
    return B, n * T, d


def _graded(factors: Factors, share: Floats, power: Ints) -> dict[str, Graded]:
    """The terms of each block: wide numbers (B, n, T), and vectors of a token or an input each."""
    B, n, T = share.shape
    x = share.reshape(B, n * T), power.reshape(B, n * T)
    number = {n: np.repeat(np.arange(n), T), n * T: np.arange(n * T)}
    return {
        name: Graded(
            np.ascontiguousarray(left),
            np.ascontiguousarray(right),
            number[left.shape[1]],
            number[right.shape[1]],
            *x,
        )
        for name, (left, right) in factors.items()
    }


def log_norm(gradient: Gradient) -> Floats:
    """log ‖gradient‖ over all blocks (B,); −inf when it is exactly zero."""
    parts = []
    for name, G in gradient.direction.items():
        size = np.sqrt(np.square(G.reshape(len(G), -1)).sum(axis=1))
        log = np.log(size, out=np.full(len(size), -np.inf), where=size > 0)
        parts.append(log + gradient.log_scale[name])
    return 0.5 * np.logaddexp.reduce(2.0 * np.stack(parts), axis=0)
