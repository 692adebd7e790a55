"""capture(): attention heads of a transformers model on texts, as Views.

An attention implementation is registered with transformers, with sdpa underneath: it receives
queries, keys and values as every head of the model has them, after rotary positions and
normalization, and leaves the model's output as it is. A hook on the attention module receives its
input features. Whether queries and keys are linear in these with one matrix is found by running a
copy of the module on unit vectors and comparing with what the model computes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.memory import available, require
from attsvm._utils.progress import bar
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.models import TrainedModel, libraries
from attsvm.inspection.names import parse_heads
from attsvm.inspection.texts import Inputs, patches, read_inputs
from attsvm.inspection.view import LayerOutput, View

_NAME = "attsvm"
# What is told of each call of an attention module: None where nothing is captured.
_TELL: ContextVar[Callable[..., None] | None] = ContextVar("attsvm_attention", default=None)
# Arguments of an attention that change its logits, by what they are.
_REFUSED = {
    "softcap": "soft-capping of its logits",
    "s_aux": "an attention sink beside its keys",
    "position_bias": "a bias that depends on positions added to its logits",
}
# Tokens of the first run, in which layers are counted and their projections read.
_FIRST = 8
# The logits of one matrix are those of the model within this share of the largest.
_CLOSE = 1e-4
# The share of free memory that the captured layers may take together.
_SHARE = 0.2


@dataclass(frozen=True)
class Draw:
    """Which queries are taken: one from each text.

    queries: how many texts, drawn without repetition; all of them, in their order, without it.
    seed: of that draw, and of the positions. length: tokens that a text is cut to, special ones
    included; whole texts without it. at: the position of every query, or one number per text;
    negative ones count from the end; drawn at random without it, from the second token on where a
    query sees only what stands before it.

    >>> Draw(queries=200, length=32)
    Draw(queries=200, seed=0, length=32, at=None)
    """

    queries: int | None = None
    seed: int = 0
    length: int | None = None
    at: int | Sequence[int] | None = None


@dataclass
class Call:
    """One call of an attention module: states (B, heads, T, width), mask, scale, output."""

    module: Any
    q: Any
    k: Any
    v: Any
    mask: Any
    scale: float
    out: Any
    arguments: tuple[Any, Any] = field(default=((), {}))
    output: Any = None


class _Enough(Exception):
    """The layers that are wanted have run."""


@dataclass(frozen=True, eq=False)
class Layer:
    """What is known of a layer once it ran: heads, heads of keys, whether it is causal, and its
    projections where queries and keys are linear in the features.

    factors: (Q, q shift, K) per head, in double precision; output (D, heads · width): the matrix
    that mixes the heads' outputs, and its shift.
    """

    heads: int
    groups: int
    causal: bool
    sizes: tuple[int, int]
    factors: tuple[Floats, Floats, Floats] | None
    output: tuple[Floats, Floats] | None


@dataclass(frozen=True, eq=False)
class LayerStates:
    """A layer on n queries: the rows of inputs they are from, and where they stand there.

    features (N, T, d), k (N, G, T, h), v (N, G, T, hv), q (n, H, h), out (n, H · hv), valid (n, T).
    """

    number: int
    layer: Layer
    inputs: Inputs
    rows: Ints
    positions: Ints
    scale: float
    features: NDArray[np.float32] | None
    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]
    out: NDArray[np.float32]
    valid: Bools

    def subset(self, queries: Ints) -> LayerStates:
        """The states for these queries."""
        names = ("rows", "positions", "q", "out", "valid")
        return replace(self, **{name: getattr(self, name)[queries] for name in names})

    def views(self, heads: Sequence[int]) -> Iterator[View]:
        """The Views of these heads."""
        keys = queries = None
        if self.features is not None:
            keys = self.features[self.rows]
            queries = self.features[self.rows, self.positions].astype(np.float64)
            queries = np.column_stack([queries, np.ones(len(queries))])
        total = None
        if self.layer.output is not None:
            total = self.out.astype(np.float64) @ self.layer.output[0].T + self.layer.output[1]
        for head in heads:
            yield self._view(head, keys, queries, total)

    def _view(self, head: int, keys: Any, queries: Any, total: Floats | None) -> View:
        group = head * self.layer.groups // self.layer.heads
        space, bias = "features", None
        if self.layer.factors is None or keys is None:
            space, keys = "head", self.k[:, group][self.rows]
            queries = self.q[:, head].astype(np.float64)
            K = np.eye(keys.shape[2])
            Q = self.scale * K
        else:
            Q, bias, K = (
                part[at] for part, at in zip(self.layer.factors, (head, head, group), strict=True)
            )
            Q = self.scale * np.column_stack([Q, bias])
            if not bias.any():
                queries, Q = queries[:, :-1], Q[:, :-1]
        values = self.v[:, group][self.rows]
        output = None
        if total is not None and self.layer.output is not None:
            width = values.shape[2]
            factor = self.layer.output[0][:, head * width : (head + 1) * width]
            output = LayerOutput(factor, total)
        return View(
            layer=self.number,
            head=head,
            keys=keys,
            queries=queries,
            key_factor=K,
            query_factor=Q,
            values=values,
            valid=self.valid,
            ids=self.inputs.ids[self.rows],
            special=self.inputs.special[self.rows],
            positions=self.positions,
            texts=tuple(self.inputs.tokens[i] for i in self.rows),
            space=space,
            layer_output=output,
        )


def capture(
    model: Any,
    texts: Any = None,
    *,
    head: str,
    tokenizer: Any = None,
    queries: int | None = None,
    seed: int = 0,
    length: int | None = None,
    at: int | Sequence[int] | None = None,
) -> View:
    """The View of one head, named as L3H5, on the texts.

    model, texts, tokenizer: as in `attsvm.inspect`. queries, seed, length, at: as in `Draw`.

    >>> from attsvm.inspection import untrained_model
    >>> view = capture(untrained_model(), ["a b c", "d e"], head="L1H0", at=0)
    >>> view.keys.shape, view.W.shape
    ((2, 5, 8), (8, 9))
    >>> view.texts[1], view.attention().sum(axis=1)
    (('[CLS]', 'd', 'e', '[SEP]'), array([1., 1.]))
    """
    draw = Draw(queries, seed, length, at)
    views = list(capture_heads(model, texts, heads=head, tokenizer=tokenizer, draw=draw))
    if len(views) > 1:
        raise Unsupported(f"head is {head!r}: name one, such as {views[0].name}")
    return views[0]


def capture_heads(
    model: Any,
    texts: Any = None,
    *,
    heads: str | Sequence[str] | None = None,
    tokenizer: Any = None,
    draw: Draw = Draw(),  # noqa: B008
) -> Iterator[View]:
    """The Views of many heads, layer by layer; all heads unless they are named.

    >>> from attsvm.inspection import untrained_model
    >>> [view.name for view in capture_heads(untrained_model(), ["a b c", "d e"])]
    ['L0H0', 'L0H1', 'L1H0', 'L1H1']
    """
    from attsvm.inspection.models import load

    run = Run(load(model, tokenizer), texts, length=draw.length)
    wanted = parse_heads(heads, [layer.heads for layer in run.layers])
    rows, positions = run.draw(draw)
    for states in run.states(sorted({layer for layer, _ in wanted}), rows, positions):
        yield from states.views([head for layer, head in wanted if layer == states.number])


class Run:
    """A model and its inputs: how many layers there are and what they are, and their states.

    Making one runs the model once, on a few tokens.
    """

    def __init__(self, known: TrainedModel, texts: Any, *, length: int | None = None) -> None:
        _check_model(known)
        self.known = known
        self.inputs = read_inputs(known, texts, length=length)
        self.layers = self._first()
        first = self.layers[0]
        known.about.update(
            family=known.model.config.model_type,
            layers=len(self.layers),
            heads=first.heads,
            key_heads=first.groups,
            width=first.sizes[0],
            causal=first.causal,
            space="features" if first.factors is not None else "head",
        )

    @property
    def causal(self) -> bool:
        """Whether every query sees only what stands before it."""
        return all(layer.causal for layer in self.layers)

    def _first(self) -> list[Layer]:
        """The layers, as the model runs on a few tokens."""
        inputs = self.inputs.subset([0])
        arguments = inputs.arguments(np.array([0]), inputs.ids.shape[1])
        if inputs.tensors is None:
            count = min(_FIRST, self.known.longest or _FIRST)
            ids = np.resize(inputs.ids[0][inputs.valid[0]], count)
            arguments = Inputs(ids[None], ids[None] >= 0, ids[None] < 0, (("",),)).arguments(
                np.array([0]), count
            )
        calls: list[Call] = []
        with _listening(self.known, calls.append, outputs=True):
            _run(self.known, arguments)
            layers = [_layer(call) for call in calls]
        if not calls:
            raise Unsupported(
                f"{type(self.known.model).__name__} does not call an attention implementation of "
                "transformers, so that its attention cannot be read"
            )
        if inputs.tensors is not None:
            self.inputs = patches(self.known, self.inputs, calls[0].k.shape[2])
        return layers

    def draw(self, draw: Draw) -> tuple[Ints, Ints]:
        """The rows that are drawn, and where their queries stand."""
        n = len(self.inputs)
        for name in ("queries", "seed"):
            value = getattr(draw, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 0):
                raise BadTokens(f"{name} is {value!r}; it must be a whole number from 0")
        rng = np.random.default_rng(draw.seed)
        rows = np.arange(n)
        if draw.queries is not None:
            if not 1 <= draw.queries <= n:
                raise BadTokens(
                    f"queries is {draw.queries} and there are {n} texts, one query each: give 1 to "
                    f"{n}, or more text"
                )
            rows = np.sort(rng.permutation(n)[: draw.queries])
        lengths = self.inputs.lengths[rows]
        return rows, _positions(draw.at, lengths, rng, int(self.causal))

    def states(self, layers: Sequence[int], rows: Ints, positions: Ints) -> Iterator[LayerStates]:
        """The states of these layers for queries at these positions of these rows.

        As many layers are kept at once as memory allows; the model runs anew for others.
        """
        kept, where = np.unique(rows, return_inverse=True)
        inputs = self.inputs.subset(kept)
        n, T = inputs.ids.shape
        first = self.layers[0]
        d = 0 if first.factors is None else first.factors[0].shape[2]
        need = 4.0 * n * T * (d + first.groups * sum(first.sizes))
        require(2 * need, f"capturing {n} texts of {T} tokens", use="fewer or shorter texts")
        most = max(1, int(_SHARE * available() // need)) if np.isfinite(available()) else 8
        for start in range(0, len(layers), most):
            yield from self._states(layers[start : start + most], inputs, where, positions)

    def _states(
        self, layers: Sequence[int], inputs: Inputs, where: Ints, positions: Ints
    ) -> Iterator[LayerStates]:
        found: dict[int, LayerStates] = {}
        batches = inputs.batches()
        with bar(f"the model, up to layer {max(layers)}") as show:
            for done, (rows, t) in enumerate(batches):
                number = -1

                def take(call: Call, rows: Ints = rows) -> None:
                    nonlocal number
                    number += 1
                    if number in layers:
                        states = found.get(number) or self._empty(number, inputs, where, positions)
                        found[number] = states
                        _fill(states, call, rows)
                    if number == max(layers):
                        raise _Enough

                with _listening(self.known, take):
                    _run(self.known, inputs.arguments(rows, t))
                if show is not None:
                    show((done + 1) / len(batches))
        for number in layers:
            yield _finished(found.pop(number))

    def _empty(self, number: int, inputs: Inputs, where: Ints, positions: Ints) -> LayerStates:
        layer, (N, T), n = self.layers[number], inputs.ids.shape, len(where)
        h, hv = layer.sizes
        d = None if layer.factors is None else layer.factors[0].shape[2]
        return LayerStates(
            number=number,
            layer=layer,
            inputs=inputs,
            rows=where,
            positions=positions,
            scale=np.nan,
            features=None if d is None else np.zeros((N, T, d), dtype=np.float32),
            q=np.zeros((n, layer.heads, h), dtype=np.float32),
            k=np.zeros((N, layer.groups, T, h), dtype=np.float32),
            v=np.zeros((N, layer.groups, T, hv), dtype=np.float32),
            out=np.zeros((n, layer.heads * hv), dtype=np.float32),
            valid=np.zeros((n, T), dtype=bool),
        )


def _fill(states: LayerStates, call: Call, rows: Ints) -> None:
    """The part of a layer's states that one call on these rows of inputs gives."""
    t = call.k.shape[2]
    states.k[rows, :, :t], states.v[rows, :, :t] = _array(call.k), _array(call.v)
    if states.features is not None:
        states.features[rows, :t] = _array(_features(call))
    place = {int(row): i for i, row in enumerate(rows)}
    mine = np.flatnonzero([int(row) in place for row in states.rows])
    batch = np.array([place[int(row)] for row in states.rows[mine]], dtype=np.int64)
    at = states.positions[mine]
    states.q[mine] = _array(call.q)[batch, :, at]
    states.out[mine] = _array(call.out)[batch, at]
    seen = (
        call.mask[:, 0].cpu().numpy()
        if call.mask.shape[0] > 1
        else np.repeat(call.mask[:, 0].cpu().numpy(), len(rows), axis=0)
    )
    states.valid[mine, :t] = seen[batch, at]
    object.__setattr__(states, "scale", call.scale)


def _finished(states: LayerStates) -> LayerStates:
    """The states, checked; places beyond the end of a text repeat its first key."""
    beyond = np.nonzero(~states.inputs.valid)
    for name, array in (("features", states.features), ("keys", states.k), ("values", states.v)):
        if array is None:
            continue
        if not np.isfinite(array).all():
            raise BadTokens(f"layer L{states.number} has {name} that are not finite")
        moved = array if name == "features" else array.transpose(0, 2, 1, 3)
        moved[beyond] = moved[beyond[0], 0]
    valid = states.valid & states.inputs.valid[states.rows]
    return replace(states, valid=valid)


def _array(x: Any) -> NDArray[np.float32]:
    out: NDArray[np.float32] = x.detach().float().cpu().numpy()
    return out


def _features(call: Call) -> Any:
    """The input of an attention module."""
    args, named = call.arguments
    return args[0] if args else named["hidden_states"]


def _check_model(known: TrainedModel) -> None:
    """Raises Unsupported for models whose attention cannot be replaced."""
    model = known.model
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise Unsupported(f"{name} has an encoder and a decoder: give one of them")
    config = model.config.get_text_config()
    if any(
        getattr(config, word, None) for word in ("attn_logit_softcapping", "attn_logit_softcap")
    ):
        raise Unsupported(f"{name} has {_REFUSED['softcap']}: it cannot be inspected")
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        raise Unsupported(f"{name} has ALiBi, {_REFUSED['position_bias']}: it cannot be inspected")
    if not model._supports_sdpa or not model._can_set_attn_implementation():
        raise Unsupported(
            f"{name} has no attention by sdpa that transformers can replace: it cannot be inspected"
        )


@cache
def _registered() -> str:
    """The name of the attention implementation, registered once."""
    _, transformers = libraries()
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    transformers.AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    return _NAME


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **named: Any
) -> tuple[Any, None]:
    """The attention of sdpa; what it is called with is told to whoever captures."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    tell = _TELL.get()
    if tell is None:
        out: tuple[Any, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **named
        )
        return out
    who = type(module).__name__
    for name, what in _REFUSED.items():
        if named.get(name) is not None:
            raise Unsupported(f"{who} has {what}: it cannot be inspected")
    if query.shape[2] != key.shape[2]:
        raise Unsupported(f"{who} attends to other tokens than its own: it cannot be inspected")
    mask = _mask(module, query, attention_mask, named.get("is_causal"))
    out = sdpa_attention_forward(module, query, key, value, attention_mask, **named)
    scale = named.get("scaling")
    scale = query.shape[3] ** -0.5 if scale is None else float(scale)
    tell(Call(module, query, key, value, mask, scale, out[0].flatten(2)))
    return out


def _mask(module: Any, query: Any, given: Any, is_causal: bool | None) -> Any:
    """Which keys each query sees (B or 1, 1, T, T), as sdpa takes what it is given."""
    torch, _ = libraries()
    T = query.shape[2]
    if given is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        seen = torch.ones((1, 1, T, T), dtype=torch.bool)
        return seen.tril() if causal and T > 1 else seen
    if given.dtype != torch.bool:
        open_ = given == 0
        if not (open_ | (given <= torch.finfo(given.dtype).min / 2)).all():
            raise Unsupported(
                f"{type(module).__name__} has {_REFUSED['position_bias']}: it cannot be inspected"
            )
        given = open_
    if given.shape[1] > 1 and not (given == given[:, :1]).all():
        raise Unsupported(f"{type(module).__name__} masks each head in its own way")
    # A place beyond the end of a text may see nothing: it is no query.
    return given[:, :1, :T, :T].expand(-1, 1, T, T)


@contextmanager
def _listening(
    known: TrainedModel, tell: Callable[[Call], None], *, outputs: bool = False
) -> Iterator[None]:
    """A context in which each call of an attention module is told of, in evaluation.

    outputs: the linear map that each output goes into next is noted in its Call.
    """
    torch, _ = libraries()
    model, held, pending = known.model, {}, []

    def note(module: Any, args: Any, named: Any) -> None:
        held[id(module)] = (args, named)

    def told(call: Call) -> None:
        call.arguments = held.get(id(call.module), ((), {}))
        if outputs:
            pending[:] = [call]
        tell(call)

    def linear(module: Any, args: Any) -> None:
        if pending and args and torch.is_tensor(args[0]):
            out = pending[0].out
            if args[0].numel() == out.numel() and torch.equal(args[0].reshape(out.shape), out):
                pending.pop().output = module

    before = model.config._attn_implementation
    training = [x for x in model.modules() if x.training]
    hooks = [
        module.register_forward_pre_hook(note, with_kwargs=True)
        for module in model.modules()
        if "attention" in type(module).__name__.lower()
    ]
    if outputs:
        kinds = ("Linear", "Conv1D")
        hooks += [
            module.register_forward_pre_hook(linear)
            for module in model.modules()
            if type(module).__name__ in kinds
        ]
    token = _TELL.set(told)
    try:
        model.eval()
        model.set_attn_implementation(_registered())
        yield
    finally:
        _TELL.reset(token)
        model.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()
        for x in training:
            x.training = True


def _run(known: TrainedModel, arguments: dict[str, Any]) -> None:
    """Run the model on these inputs, up to the last layer that is wanted."""
    import inspect

    torch, _ = libraries()
    first = next(known.model.parameters())
    given = {
        name: x.to(first.device, first.dtype if x.is_floating_point() else None)
        for name, x in arguments.items()
    }
    if "use_cache" in inspect.signature(known.trunk.forward).parameters:
        given["use_cache"] = False
    try:
        with torch.no_grad():
            known.trunk(**given)
    except _Enough:
        pass


def _layer(call: Call) -> Layer:
    """What a layer is, from its call on a few tokens."""
    torch, _ = libraries()
    T = call.k.shape[2]
    seen = call.mask[0, 0].cpu()
    causal = T > 1 and not bool((seen & ~torch.ones(T, T, dtype=torch.bool).tril()).any())
    heads, groups = call.q.shape[1], call.k.shape[1]
    output = None
    if call.output is not None:
        weight = call.output.weight.detach().double().cpu().numpy()
        weight = weight.T if type(call.output).__name__ == "Conv1D" else weight
        bias = call.output.bias
        shift = np.zeros(len(weight)) if bias is None else bias.detach().double().cpu().numpy()
        output = (weight, shift)
    sizes = (int(call.q.shape[3]), int(call.v.shape[3]))
    return Layer(heads, groups, causal, sizes, _factors(call), output)


def _factors(call: Call) -> tuple[Floats, Floats, Floats] | None:
    """Q (H, h, d), its shift (H, h) and K (G, h, d), where logits are linear in the features.

    A copy of the module runs on zero and on the unit vectors, in double precision.
    """
    torch, _ = libraries()
    args, named = call.arguments
    if not args and "hidden_states" not in named:
        return None
    x = _features(call).detach().double().cpu()
    T, d = x.shape[1:]
    unit = torch.cat([torch.zeros(1, d), torch.eye(d)]).double()[:, None]
    probed: list[Call] = []

    def take(found: Call) -> None:
        probed.append(found)
        raise _Enough

    def shorter(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(shorter(one) for one in part)
        if not torch.is_tensor(part):
            return part
        part = part.cpu().double() if part.is_floating_point() else part.cpu()
        return part[:, :1] if part.ndim > 1 and part.shape[1] == T else part

    rest = {
        name: None if "mask" in name else shorter(part)
        for name, part in named.items()
        if name != "hidden_states"
    }
    module = copy.deepcopy(call.module).cpu().double()
    for hooks in (one._forward_pre_hooks for one in module.modules()):
        hooks.clear()
    token = _TELL.set(take)
    try:
        with torch.no_grad():
            module(unit, *(None for _ in args[1:]), **rest)
    except _Enough:
        pass
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return None  # it takes more than its features: the problem is posed in head space
    finally:
        _TELL.reset(token)
    if not probed or probed[0].q.shape[0] != d + 1:
        return None
    q, k = (part[:, :, 0].double() for part in (probed[0].q, probed[0].k))
    Q, shift, K = (q[1:] - q[0]).permute(1, 2, 0), q[0], (k[1:] - k[0]).permute(1, 2, 0)
    mine = torch.einsum("ghd,btd->bgth", K, x)
    own = call.k.double().cpu()
    own = own - k[0][:, None]
    theirs = torch.einsum("hed,btd->bhte", Q, x) + shift[:, None]
    for a, b in ((mine, own), (theirs, call.q.double().cpu())):
        if not float((a - b).abs().max()) <= _CLOSE * max(float(b.abs().max()), 1e-30):
            return None
    return tuple(part.contiguous().numpy() for part in (Q, shift, K))  # type: ignore[return-value]


def _positions(at: Any, lengths: Ints, rng: np.random.Generator, first: int) -> Ints:
    if at is None:
        if lengths.min() <= first:
            raise BadTokens(
                f"text {lengths.argmin()} has one token: a query that sees what stands before it "
                "needs two"
            )
        return rng.integers(first, lengths)
    given = np.asarray(at)
    if given.dtype.kind not in "iu" or given.shape not in ((), lengths.shape):
        raise BadTokens(f"at must be a whole number, or {len(lengths)} of them, one for each text")
    places = np.broadcast_to(given.astype(np.int64), lengths.shape)
    wrong = np.flatnonzero((places >= lengths) | (places < -lengths))
    if len(wrong):
        i = wrong[0]
        raise BadTokens(f"at is {places[i]} for text {i}, which has {lengths[i]} tokens")
    return places % lengths
