"""Model: a parameterization of the attention matrix, and its gradient by the chain rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.objects import keep_declared
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Head, Linear
from attsvm.training.losses import Loss
from attsvm.training.models.gradient.attention import Slopes, attend, pull, terms
from attsvm.training.models.gradient.batch import (
    Batch,
    residual,
    residual_of_heads,
    shortfalls,
)
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.wide import of_logs
from attsvm.training.optimizers.optimizer import Blocks, Gradient

# The vectors of each block's terms: left and right ones, (B, ·, ·).
Factors = dict[str, tuple[Floats, Floats]]


def _linear(params: Blocks) -> Head:
    """The linear head of the block v."""
    return Linear(params["v"])


def _no_chain(params: Blocks, G: Floats) -> Blocks:
    """The chain of a model that leaves it to its layer."""
    raise Unsupported("the model has no chain: give chain, or a layer that has one")


class LayerPart(NamedTuple):
    """A max-margin problem that a layer holds: `head`, the number of the one that reads it, selects
    the tokens by W (d, dq)."""

    tokens: Tokens
    W: Floats
    head: int


@dataclass(frozen=True, eq=False)
class Layer:
    """Attention with logits that are not k_t·W z for one W: several heads, or a normalized W z.

    heads: how many, H. vectors(params, z): w (B, H, n, d), head h gives token t of input i the
    logit k_t·w_ih; z (B, n, dq). chain(params, z, g, log): directions and log scales of the blocks,
    from the gradient e^log_ih g_ih of each w_ih, g (B, H, n, d), log (B, H, n). factors(params, D,
    z, h): as those of a `Model`, of head h.

    The prediction head reads the outputs of the heads one after the other, (B, n, H e).

    parts(params, tokens): what `outcome` solves, of one instance, kind: "head" or "input". prepare:
    the tokens as the layer reads them; raises BadTokens for those it cannot read. begin: the number
    at which a block starts that no `init` draws. resized(H): the model with H heads.
    """

    vectors: Callable[[Blocks, Floats], Floats]
    chain: Callable[[Blocks, Floats, Floats, Floats], tuple[Blocks, dict[str, Floats]]]
    parts: Callable[[Blocks, Tokens], list[LayerPart]]
    kind: str = "head"
    factors: Callable[[Blocks, Floats, Floats, int], Factors] | None = None
    heads: int = 1
    prepare: Callable[[Tokens], Tokens] = lambda tokens: tokens
    begin: Mapping[str, float] = field(default_factory=dict)
    resized: Callable[[int], Model] | None = None


@dataclass(frozen=True)
class Model:
    """Blocks of parameters that make W (B, d, dq).

    shapes(d, dq, width, e) gives the shape of each block without the stack axis; matrix(params)
    gives W; chain(params, G) the direction of each block from that of W. With `trains_head` a
    further block is the head, trained as well, and `reads` makes the head of it. `prompt` models
    need queries of width one. start: where a run begins by default. fused: W is the one
    block, so that the fused kernel takes its steps. paired: the blocks are K and Q with W = K Qᵀ,
    which have a kernel of their own. Both speak of matrix and chain: `dataclasses.replace` with
    another matrix or chain drops them. about: what they were declared for. layer: attention that is
    not that of one W; then there is no chain, and matrix gives what a record is shown by.

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
    chain: Callable[[Blocks, Floats], Blocks] = _no_chain
    trains_head: bool = False
    reads: Callable[[Blocks], Head] = _linear
    prompt: bool = False
    factors: Callable[[Blocks, Floats, Floats], Factors] | None = None
    start: str = "zero"
    fused: bool = False
    paired: bool = False
    layer: Layer | None = None
    about: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        keep_declared(self, (self.matrix, self.chain), ("fused", "paired"))


def check_model(model: Model) -> None:
    """Raises Unsupported, with the condition and the input, unless the model meets its contract.

    The contract: matrix gives a finite W (B, d, dq); chain gives each block of attention in its own
    shape, and its inner product with a small change of the blocks is that of G with the change of
    W; both leave their arguments alone. The head's own block has nothing to do with either. Of a
    layer the same is asked, of its vectors (B, H, n, d) and its chain.
    """
    d, dq, B, n = 3, 1 if model.prompt else 2, 2, 2
    layer = model.layer
    what = "matrix gives a finite W (B, d, dq)"
    shape: tuple[int, ...] = B, d, dq
    if layer is not None:
        what, shape = "vectors gives finite w (B, H, n, d)", (B, layer.heads, n, d)
    said = f"on two random instances with d = {d}, dq = {dq}, width 2"
    rng = np.random.default_rng(0)
    try:
        shapes = model.shapes(d, dq, 2, d)
        params = {name: rng.standard_normal((B, *shape)) for name, shape in shapes.items()}
        before = {name: block.copy() for name, block in params.items()}
        G, z = rng.standard_normal(shape), rng.standard_normal((B, n, dq))

        def value(params: Blocks) -> Floats:
            made = model.matrix(params) if layer is None else layer.vectors(params, z)
            return np.asarray(made)

        W = value(params)
        if layer is None:
            found = model.chain(params, G.copy())
        else:
            log = rng.standard_normal(shape[:3])
            found = grown_blocks(*layer.chain(params, z, G.copy(), log))
            G *= np.exp(log)[..., None]
        own = model.reads(params).block if model.trains_head else ""
        h, toward = 1e-6, {name: rng.standard_normal(x.shape) for name, x in params.items()}
        ends = [value({name: x + s * toward[name] for name, x in params.items()}) for s in (h, -h)]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unsupported(f"model {model.name!r} fails {said} ({reason})") from error
    trained = {name: x.shape for name, x in params.items() if name != own}
    contract = {
        what: W.shape == shape and np.isfinite(W).all(),
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
    """One pass: loss (B,), gradient, log attention (B, n, T), top tokens (B, n), margins (B, n).

    Of several heads, log attention and top tokens have the inputs of each one after the other.
    """

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
    layer, (B, n, T) = model.layer, batch.present.shape
    views = [_view(model, params, batch)] if layer is None else _views(layer, params, batch)
    seen = [attend(*inputs, W) for inputs, W in views]
    logs = _beside([s.logs.reshape(B, n, T) for s in seen], 1)
    pooled = _beside([s.pooled.reshape(B, n, -1) for s in seen], 2)
    top = _beside([s.top.reshape(B, n) for s in seen], 1)
    margins = batch.labels * read.value(pooled)
    if loss.from_best is None or read.vector is None:
        value, (sign, log_slope) = loss.value(margins), loss.slope(margins)
    elif len(seen) == 1:
        short = shortfalls(batch, read.vector, loss.best)
        value, sign, log_slope = loss.from_best(*residual(short, logs))
    else:
        apart = residual_of_heads(batch, read.vector, loss.best, logs, top)
        value, sign, log_slope = loss.from_best(*apart)
    slopes = np.ascontiguousarray(batch.labels[:, :, None] * read.gradient(pooled))
    curvature = (read.curvature or 0.0) * batch.labels
    at = [Slopes(logs, top, slopes, sign, log_slope, curvature)]
    if layer is not None:
        # The mean over inputs is in what is pulled back; a layer's views have one input each.
        flat = [x.reshape(B * n, 1) for x in (sign, log_slope - np.log(n), curvature)]
        at = [
            Slopes(s.logs, s.top, own.reshape(s.pooled.shape), *flat)
            for s, own in zip(seen, np.split(slopes, layer.heads, axis=2), strict=True)
        ]
    pulled = [pull(*inputs, own) for (inputs, _), own in zip(views, at, strict=True)]
    if layer is None:
        G, scale = pulled[0]
        direction = model.chain(params, G)
        log_scale = {name: scale for name in direction}
    else:
        g = np.stack([G.reshape(B, n, -1) for G, _ in pulled], axis=1)
        log = np.stack([scale.reshape(B, n) for _, scale in pulled], axis=1)
        direction, log_scale = layer.chain(params, batch.queries, g, log)
    if model.trains_head:
        # (1/n) Σ ℓ'_i y_i ∂h(o_i): nothing cancels, only ℓ' underflows.
        top_slope = log_slope.max(axis=1)
        finite = np.where(np.isfinite(top_slope), top_slope, 0.0)
        weights = sign * np.exp(log_slope - finite[:, None]) * batch.labels
        direction[read.block] = read.pull(pooled, weights)
        log_scale[read.block] = top_slope - np.log(batch.keys.shape[1])
    gradient = Gradient(direction, log_scale)
    if graded and (model if layer is None else layer).factors is not None:
        found: dict[str, Graded] = {}
        for h, ((inputs, _), own) in enumerate(zip(views, at, strict=True)):
            D, share, power = terms(*inputs, own)
            vectors = _factors(model, params, D.reshape(B, n * T, -1), batch.queries, h)
            for name, block in _graded(
                vectors, share.reshape(B, n, T), power.reshape(B, n, T)
            ).items():
                found[name] = found[name].plus(block) if name in found else block
        if model.trains_head:
            # ∂h(o_i) = o_i unitsᵢᵀ, and o_i is the sum of its tokens' values s_t x_t.
            weight = log_slope[:, :, None] + logs - np.log(batch.keys.shape[1])
            signed = (sign * batch.labels)[:, :, None] * np.where(batch.present, 1.0, 0.0)
            vectors = {read.block: (batch.values.reshape(*_flat(batch.values)), read.units(pooled))}
            found |= _graded(vectors, *of_logs(signed, weight))
        gradient = replace(gradient, graded=found)
    return Evaluation(value.mean(axis=1), gradient, logs, top, margins)


def _beside(parts: list[Any], axis: int) -> Any:
    """The arrays along this axis; one alone as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


# What attention is computed on, keys, values, queries and present, and its W.
View = tuple[tuple[Floats, Floats, Floats, Bools], Floats]


def _view(model: Model, params: Blocks, batch: Batch) -> View:
    """The batch under the W of a model."""
    W = np.ascontiguousarray(model.matrix(params))
    return (batch.keys, batch.values, batch.queries, batch.present), W


def _views(layer: Layer, params: Blocks, batch: Batch) -> list[View]:
    """The batch under each head of a layer: every input alone, its query 1 and W its vector."""
    w = layer.vectors(params, batch.queries)
    B, n, _, d = batch.keys.shape
    keys, values = (x.reshape(B * n, 1, *x.shape[2:]) for x in (batch.keys, batch.values))
    inputs = keys, values, np.ones((B * n, 1, 1)), batch.present.reshape(B * n, 1, -1)
    return [(inputs, w[:, h].reshape(B * n, d, 1)) for h in range(layer.heads)]


def _factors(model: Model, params: Blocks, D: Floats, z: Floats, h: int) -> Factors:
    """The vectors of the terms of head h."""
    if model.layer is not None and model.layer.factors is not None:
        return model.layer.factors(params, D, z, h)
    return {} if model.factors is None else model.factors(params, D, z)


def grown_blocks(direction: Blocks, log_scale: dict[str, Floats]) -> Blocks:
    """direction e^log_scale of each block."""
    return {
        name: G * np.exp(log_scale[name]).reshape(-1, *[1] * (G.ndim - 1))
        for name, G in direction.items()
    }


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
