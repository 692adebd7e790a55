"""The attention calls of a running model, read without changing it.

A `Call` is one call: logits are scale · q·k plus what the mask adds. Queries and keys come as
tensors (B, H, L, dh), or as the layer's inputs (B, L, d) with the projections that make q and k of
them, so that only the sampled ones are computed. `AttentionHooks` reads the calls of
nn.MultiheadAttention, scaled_dot_product_attention, attsvm.torch.Attention or a custom reader.
Modules are followed by torch's hooks for all modules, so that the model itself holds nothing: its
copies and pickles stay as they were. scaled_dot_product_attention is wrapped where
torch.nn.functional keeps it.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from attsvm.errors import Unsupported
from attsvm.torch.networks import Attention

# Keys of a call that are read, about.
KEYS = 4096


class Projection(NamedTuple):
    """x ↦ M x + b, M some rows of a weight (columns where `across`), b some of a bias.

    weight, bias: the parameters themselves, as the optimizer knows them.
    """

    weight: Tensor
    bias: Tensor | None = None
    rows: slice = slice(None)
    bias_rows: slice = slice(None)
    across: bool = False

    def matrix(self, heads: int) -> Tensor:
        """M by heads, (heads, dh, d), in the weight's own memory where it can be."""
        M = self.weight.detach()
        M = (M.T if self.across else M)[self.rows]
        return M.reshape(heads, -1, M.shape[1])

    def vector(self, heads: int) -> Tensor | None:
        """b by heads, (heads, dh)."""
        if self.bias is None:
            return None
        return self.bias.detach()[self.bias_rows].reshape(heads, -1)

    def of(self, x: Tensor, heads: int) -> Tensor:
        """q or k of inputs (…, d), as (…, heads, dh)."""
        M, b = self.matrix(heads), self.vector(heads)
        flat = M.reshape(-1, M.shape[2])
        x = x.detach().to(flat.dtype)
        out = nn.functional.linear(x, flat, None if b is None else b.reshape(-1))
        return out.reshape(*x.shape[:-1], heads, -1)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention.

    layer: its name in the model. heads: H; keys may have fewer, each for H/Hk queries in turn.
    size: (B, L, S), extra keys not counted. q (B, H, L, dh), k (B, Hk, S, dh): None where the
    projections make them. mask: booleans, True where a key is present, or numbers that are added,
    of a shape that broadcasts to (B, H, L, S). extra: keys (H, dh) behind all others, which no mask
    hides; extra_weights: the parameters among them. inputs: what the layer read for queries, keys
    and values. single: the one W of a model with logits x·W z; then `query` and `key` are None.
    key_heads: how many heads the projections of keys and values have, H unless given. value: the
    projection of values, None where it is not known.
    """

    layer: str
    heads: int
    size: tuple[int, int, int]
    scale: float
    q: Tensor | None = None
    k: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    query: Projection | None = None
    key: Projection | None = None
    extra: Sequence[Tensor] = ()
    extra_weights: Sequence[Tensor] = ()
    inputs: tuple[Tensor, Tensor, Tensor] | None = None
    single: Tensor | None = None
    key_heads: int | None = None
    value: Projection | None = None

    @property
    def like(self) -> Tensor:
        """A tensor with the device and precision of the queries."""
        return self.q if self.q is not None else self._need(0)[0]

    def logits(self, b: Tensor, l: Tensor) -> tuple[Tensor, Tensor]:
        """(scale · q·k, the same with what masks add: −inf where no key is), each (nb, H, m, S).

        b (nb,): sequences; l (nb, m): places of queries in them.
        """
        rows = b[:, None]
        if self.q is not None:
            q = self.q.detach()[rows, :, l]
        else:
            x, M = self._need(0)
            q = M.of(x[rows, l], self.heads)
        if self.k is not None:
            k = self.k.detach()[b]
        else:
            x, M = self._need(1)
            k = M.of(x[b], self.key_heads or self.heads).transpose(1, 2)
        kind = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        q, k = q.to(kind).transpose(1, 2), k.to(kind)
        if k.shape[1] != self.heads:
            k = k.repeat_interleave(self.heads // k.shape[1], dim=1)
        for more in self.extra:
            one = more.detach().to(kind).reshape(1, self.heads, 1, -1)
            k = torch.cat([k, one.expand(len(k), -1, -1, -1)], dim=2)
        raw = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        added = self.added(b, l, raw.dtype)
        return raw, raw if added is None else raw + added

    def added(self, b: Tensor, l: Tensor, kind: torch.dtype) -> Tensor | None:
        """What masks add, (nb, H or 1, m, S); −inf where no key is, None without a mask."""
        B, L, S = self.size
        out: Tensor | None = None
        if self.mask is not None:
            mask = self.mask.detach()
            while mask.ndim < 4:
                mask = mask[None]
            mask = mask.expand(B, -1, L, S)[b[:, None], :, l].transpose(1, 2)
            out = _additive(mask, kind)
        if self.causal:
            later = torch.arange(S, device=l.device) > l[..., None]
            shut = _additive(~later, kind)[:, None]
            out = shut if out is None else out + shut
        if out is not None and self.extra:
            out = nn.functional.pad(out, (0, len(self.extra)))
        return out

    def _need(self, side: int) -> tuple[Tensor, Projection]:
        """The input and projection of the queries (0) or the keys (1)."""
        M = (self.query, self.key)[side]
        if self.inputs is None or M is None:
            raise RuntimeError("a call has q and k, or inputs and projections")
        return self.inputs[side], M

    def weights(self) -> tuple[Tensor, Tensor] | None:
        """(A, K) in double precision with W = scale · Kᵀ A for each head; None where not known.

        A = [W_Q b_q] (H, dh, dq + 1), K = W_K (H, dh, d); the bias of keys moves all logits of a
        query alike and is left out. Without a bias A has no last column.
        """
        if self.single is not None:
            W = self.single.detach().double()
            W = W[:, None] if W.ndim == 1 else W
            return W[None], torch.eye(len(W), dtype=W.dtype, device=W.device)[None]
        if self.query is None or self.key is None:
            return None
        A, b = self.query.matrix(self.heads).double(), self.query.vector(self.heads)
        if b is not None:
            A = torch.cat([A, b.double()[..., None]], dim=2)
        return A, self._by_heads(self.key.matrix(self.key_heads or self.heads))

    def values(self) -> tuple[Tensor, Tensor] | None:
        """(V (H, dh, d), shift (H, dh)) in double precision, the values V x + shift of each head.

        None where they are not known, or are not of the inputs that the keys are of.
        """
        if self.value is None or self.inputs is None:
            return None
        if self.inputs[2] is not self.inputs[1] and not torch.equal(*self.inputs[1:]):
            return None
        heads = self.key_heads or self.heads
        V, shift = self.value.matrix(heads), self.value.vector(heads)
        shift = torch.zeros_like(V[..., 0]) if shift is None else shift
        return self._by_heads(V), self._by_heads(shift)

    def _by_heads(self, x: Tensor) -> Tensor:
        """What keys or values have by their own heads, as the H heads use it."""
        return x.double().repeat_interleave(self.heads // len(x), dim=0)


def _additive(mask: Tensor, kind: torch.dtype) -> Tensor:
    """A mask as numbers to add, −inf for what is shut.

    Libraries also shut keys by the least number of a type, which is −inf in all but name.
    """
    if mask.dtype == torch.bool:
        shut = ~mask
        mask = torch.zeros(mask.shape, dtype=kind, device=mask.device)
    else:
        shut = mask <= torch.finfo(mask.dtype).min / 2
        mask = mask.to(kind)
    return mask.masked_fill(shut, -torch.inf)


@lru_cache(maxsize=8)
def sample(size: tuple[int, int, int], most: int, turn: int, device: Any) -> tuple[Tensor, Tensor]:
    """(b (nb,), l (nb, m)): at most `most` queries, evenly over sequences and places.

    Of long sequences few are opened, 16 queries in each, because each needs all its keys. turn:
    moves the choice on from one record to the next. No random number is drawn: that would change
    the training.
    """
    B, L, S = size
    nb = max(1, min(B, most // min(L, 16, most), max(4, KEYS // S)))
    m = max(1, min(L, most // nb))
    b = (torch.arange(nb, device=device) * B // nb + turn) % B
    start = (torch.arange(nb, device=device)[:, None] * 7 + turn * 3) % max(L // m, 1)
    l = (torch.arange(m, device=device) * L // m)[None] + start
    return b, l.clamp(max=L - 1)


# Names under which attention modules keep the projections of queries, keys and values.
TRIPLES = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("wq", "wk", "wv"),
    ("w_q", "w_k", "w_v"),
    ("W_q", "W_k", "W_v"),
    ("Wq", "Wk", "Wv"),
    ("q", "k", "v"),
)
# One projection for queries, keys and values in this order.
PACKED = ("c_attn", "qkv", "qkv_proj", "in_proj", "Wqkv", "to_qkv")
NAMES = frozenset(name for triple in TRIPLES for name in triple) | frozenset(PACKED)


class AttentionInputs(NamedTuple):
    """What a custom reader of a Monitor yields for one layer.

    q (B, H, L, dh) or (B, L, dh), k likewise, with H or fewer heads. mask: booleans, True where a
    key is present, or numbers that are added to logits, broadcast to (B, H, L, S). scale: 1/√dh
    unless given. weights: (W_Q, W_K), each (H·dh, d), the parameters themselves; without them no
    norm of W_QK and no ceiling is known. inputs: what they are applied to, (B, L, d), (B, S, d).

    >>> import torch
    >>> q = torch.zeros(1, 2, 5, 4)  # one input, two heads, five queries of width four
    >>> AttentionInputs("block 1", q, q, causal=True).layer
    'block 1'
    """

    layer: str
    q: Tensor
    k: Tensor
    mask: Tensor | None = None
    scale: float | None = None
    causal: bool = False
    weights: tuple[Tensor, Tensor] | None = None
    inputs: tuple[Tensor, Tensor] | None = None


class RanProjection(NamedTuple):
    """A projection that ran inside an attention module: itself, its input, its output."""

    module: nn.Module
    x: Tensor
    out: Tensor


def call_of_inputs(given: Any) -> Call:
    """The call of what a custom reader yields. Raises Unsupported where it is no such thing."""
    try:
        read = AttentionInputs(*given)
    except TypeError:
        raise Unsupported(
            "reads must yield tuples (layer, q, k) or attsvm.torch.AttentionInputs, this is "
            f"{type(given).__name__}"
        ) from None
    q, k = (x[:, None] if x.ndim == 3 else x for x in (read.q, read.k))
    if q.ndim != 4 or k.ndim != 4 or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise Unsupported(
            f"{read.layer}: q has shape {tuple(read.q.shape)} and k {tuple(read.k.shape)}: they "
            "must be (B, H, L, dh) and (B, H, S, dh), or both without the axis of heads"
        )
    if q.shape[1] % k.shape[1]:
        raise Unsupported(
            f"{read.layer}: q has {q.shape[1]} attention heads and k has {k.shape[1]}: the number "
            "of q must be a multiple of that of k"
        )
    made: dict[str, Any] = {}
    if read.weights is not None:
        made["query"], made["key"] = (Projection(W) for W in read.weights)
        if read.inputs is not None:
            made["inputs"] = (*read.inputs, read.inputs[1])
    return _of_tensors(
        read.layer, q, k, mask=read.mask, causal=read.causal, scale=read.scale, **made
    )


def _of_tensors(
    layer: str, q: Tensor, k: Tensor, *, scale: float | None, causal: bool, **more: Any
) -> Call:
    return Call(
        layer,
        heads=q.shape[1],
        size=(q.shape[0], q.shape[2], k.shape[2]),
        scale=1 / math.sqrt(q.shape[3]) if scale is None else float(scale),
        q=q,
        k=k,
        causal=bool(causal),
        **({"key_heads": k.shape[1]} | more),
    )


def call_of_function(
    layer: str, given: Mapping[str, Any], seen: Mapping[str, RanProjection]
) -> Call | None:
    """The call of scaled_dot_product_attention with these arguments, by name; None if nested.

    seen: the projections that ran in the same module. Their weights are taken for those of q and k
    only where every query and key has the length that they gave it (rotations keep it), those of
    values where they are unchanged.
    """
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    if q.is_nested or k.is_nested or q.ndim < 3:
        return None
    if q.ndim > 4 or k.ndim != q.ndim:
        return None
    if q.ndim == 3:
        q, k, v = q[:, None], k[:, None], v[:, None]
        mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask
    made = _projections(q, k, v, seen)
    return _of_tensors(
        layer,
        q,
        k,
        mask=mask,
        causal=bool(given.get("is_causal", False)),
        scale=given.get("scale"),
        **made,
    )


def _projections(
    q: Tensor, k: Tensor, v: Tensor, seen: Mapping[str, RanProjection]
) -> dict[str, Any]:
    """The projections of q (B, H, L, dh), k and v (B, Hk, S, dh) among those seen, and inputs."""
    wide = [x.shape[1] * x.shape[3] for x in (q, k, v)]
    names = next((names for names in TRIPLES if names[0] in seen and names[1] in seen), None)
    if names is not None:
        ends = [(seen.get(name), slice(None)) for name in names]
    else:
        packed = next((seen[name] for name in PACKED if name in seen), None)
        ends = [(packed, slice(sum(wide[:i]), sum(wide[: i + 1]))) for i in range(3)]
    query, key = (_projection(*end, x) for end, x in zip(ends, (q, k), strict=False))
    if query is None or key is None or ends[0][0] is None or ends[1][0] is None:
        return {}
    made = {"query": query[0], "key": key[0], "key_heads": key[1]}
    inputs = [ends[0][0].x, ends[1][0].x, ends[1][0].x]
    value = _projection(*ends[2], v, whole=True)
    if value is not None and value[1] == key[1] and ends[2][0] is not None:
        made["value"], inputs[2] = value[0], ends[2][0].x
    return made | {"inputs": tuple(inputs)}


def _projection(
    found: RanProjection | None, part: slice, x: Tensor, *, whole: bool = False
) -> tuple[Projection, int] | None:
    """What made x (B, H, L, dh), and of how many heads; None unless it gave every part its length.

    whole: its entries too. One sequence is enough to see whether something stands in between.
    """
    if found is None:
        return None
    out, x, width = found.out.detach()[:1, ..., part], x.detach()[:1], x.shape[3]
    if out.ndim != 3 or out.shape[-1] % width or x.shape[1] % (out.shape[-1] // width):
        return None
    if out.shape[0] != x.shape[0] or out.shape[1] != x.shape[2]:
        return None
    heads = out.shape[-1] // width
    mine = out.reshape(*out.shape[:2], heads, width).transpose(1, 2).float()
    mine, theirs = mine.repeat_interleave(x.shape[1] // heads, dim=1), x.float()
    if not whole:
        mine, theirs = mine.norm(dim=-1), theirs.norm(dim=-1)
    close = 1e-4 if x.dtype in (torch.float32, torch.float64) else 2e-2
    if not torch.allclose(mine, theirs, rtol=close, atol=close * 1e-2):
        return None
    weight: Any = found.module.weight
    bias: Any = getattr(found.module, "bias", None)
    across = type(found.module).__name__ == "Conv1D"  # weights (in, out)
    return Projection(weight, bias, part, part, across), heads


def call_of_multihead(layer: str, module: nn.MultiheadAttention, given: Mapping[str, Any]) -> Call:
    """The call of nn.MultiheadAttention with these arguments, by name."""
    x, y, z = given["query"], given["key"], given["value"]
    pad, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if x.ndim == 2:
        x, y, z = x[None], y[None], z[None]
        pad = None if pad is None else pad[None]
    elif not module.batch_first:
        x, y, z = (t.transpose(0, 1) for t in (x, y, z))
    H, E = module.num_heads, module.embed_dim
    B, L, S = x.shape[0], x.shape[1], y.shape[1]
    bias = module.in_proj_bias
    packed: Tensor | None = module.in_proj_weight
    if packed is not None:
        query = Projection(packed, bias, slice(E), slice(E))
        key = Projection(packed, bias, slice(E, 2 * E), slice(E, 2 * E))
        value = Projection(packed, bias, slice(2 * E, 3 * E), slice(2 * E, 3 * E))
    else:
        query = Projection(module.q_proj_weight, bias, bias_rows=slice(E))
        key = Projection(module.k_proj_weight, bias, bias_rows=slice(E, 2 * E))
        value = Projection(module.v_proj_weight, bias, bias_rows=slice(2 * E, 3 * E))
    extra, extra_weights = [], []
    if module.bias_k is not None:
        extra.append(module.bias_k.reshape(H, -1))
        extra_weights.append(module.bias_k)
    if module.add_zero_attn:
        extra.append(torch.zeros(H, E // H, dtype=x.dtype, device=x.device))
    return Call(
        layer,
        heads=H,
        size=(B, L, S),
        scale=1 / math.sqrt(E // H),
        mask=_merge(mask, pad, B, H),
        query=query,
        key=key,
        value=value,
        extra=extra,
        extra_weights=extra_weights,
        inputs=(x, y, z),
    )


def _merge(mask: Tensor | None, pad: Tensor | None, B: int, H: int) -> Tensor | None:
    """The masks of nn.MultiheadAttention, where True hides, as numbers (B, H, L, S) to add."""

    def numbers(x: Tensor) -> Tensor:
        if x.dtype != torch.bool:
            return x.detach()
        return torch.zeros(x.shape, device=x.device).masked_fill(x, -torch.inf)

    out = None
    if mask is not None:
        out = numbers(mask)
        out = out.reshape(B, H, *out.shape[1:]) if out.ndim == 3 else out[None, None]
    if pad is not None:
        shut = numbers(pad)[:, None, None, :]
        out = shut if out is None else out + shut
    return out


def call_of_single(layer: str, module: Attention, given: Mapping[str, Any]) -> Call:
    """The call of attention with one W."""
    X, z, keys, mask = given["X"], given.get("z"), given.get("keys"), given.get("mask")
    keys = X if keys is None else keys
    z = torch.ones(len(X), 1, dtype=X.dtype, device=X.device) if z is None else z
    W = module.W if module.W.ndim == 2 else module.W[:, None]
    return Call(
        layer,
        heads=1,
        size=(len(X), 1, X.shape[1]),
        scale=1.0,
        q=(z.detach() @ W.detach().T)[:, None, None],
        k=keys[:, None],
        mask=None if mask is None else mask[:, None, None],
        inputs=(z[:, None], keys, X),
        single=module.W,
    )


Reads = Callable[[nn.Module], Iterable[Any]]
_MULTIHEAD = inspect.signature(nn.MultiheadAttention.forward)
_SINGLE = inspect.signature(Attention.forward)
_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


# The open hooks that follow scaled_dot_product_attention, and the function without the wrapper.
_LISTENING: list[AttentionHooks] = []
_BEFORE: list[Any] = []


def _listen(hooks: AttentionHooks) -> None:
    """Wrap the function once for all hooks, which may be closed in any order."""
    if not _LISTENING:
        given = F.scaled_dot_product_attention

        def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = given(*args, **kwargs)
            for one in tuple(_LISTENING):
                one.attended(args, kwargs)
            return out

        _BEFORE[:] = [given]
        F.scaled_dot_product_attention = scaled_dot_product_attention
    _LISTENING.append(hooks)


def _ignore(hooks: AttentionHooks) -> None:
    if hooks in _LISTENING:
        _LISTENING.remove(hooks)
        if not _LISTENING:
            F.scaled_dot_product_attention = _BEFORE.pop()


def not_seen(model: nn.Module, otherwise: str) -> str:
    """Why no attention of a model was seen; otherwise: what is said of most models.

    Models of Hugging Face attend by the function that their configuration names.
    """
    for part in model.modules():
        kind = getattr(getattr(part, "config", None), "_attn_implementation", None)
        if isinstance(kind, str) and kind != "sdpa":
            return (
                f"no attention of this model can be seen: it runs {kind} attention; load it with "
                'attn_implementation="sdpa", or call model.set_attn_implementation("sdpa")'
            )
    return otherwise


@dataclass
class RunningModule:
    """A module that is running, the projections that ran in it, and how often it attended."""

    module: nn.Module
    seen: dict[str, RanProjection] = field(default_factory=dict)
    calls: int = 0


class AttentionHooks:
    """Calls `take` with every attention call of a model while it is open.

    reads: a function of the model that yields what it attended by; then nothing else is read.
    always: also without gradients; else validation between two steps is skipped.
    """

    def __init__(
        self,
        model: nn.Module,
        take: Callable[[Call], None],
        *,
        reads: Reads | None = None,
        always: bool = False,
    ) -> None:
        self.model = model
        self.names = {id(x): name or type(x).__name__ for name, x in model.named_modules()}
        self.ran = False
        self._take, self._reads, self._always = take, reads, always
        self._running = threading.local()
        self._handles: list[Any] = []

    @property
    def open(self) -> bool:
        """Whether the hooks are registered."""
        return bool(self._handles)

    def start(self) -> None:
        """Register the hooks."""
        if self._handles:
            return
        self.ran = False
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        if self._reads is None:
            _listen(self)

    def stop(self) -> None:
        """Remove the hooks and the wrapper."""
        for handle in self._handles:
            handle.remove()
            # torch leaves the id of the hook in this dictionary.
            module_hooks._global_forward_hooks_with_kwargs.pop(handle.id, None)
        self._handles = []
        _ignore(self)
        self._running = threading.local()

    def _frames(self) -> list[RunningModule]:
        frames: list[RunningModule] | None = getattr(self._running, "frames", None)
        if frames is None:
            frames = self._running.frames = []
        return frames

    def _wanted(self) -> bool:
        if torch.compiler.is_compiling() or not self._handles:
            return False
        return self._always or torch.is_grad_enabled()

    def _enter(self, module: nn.Module, args: Any) -> None:
        if id(module) in self.names and not torch.compiler.is_compiling():
            self._frames().append(RunningModule(module))

    def _leave(self, module: nn.Module, args: Any, *rest: Any) -> None:
        """torch calls it without keyword arguments where the module has raised."""
        if id(module) not in self.names or torch.compiler.is_compiling():
            return
        frames = self._frames()
        while frames and frames.pop().module is not module:
            pass
        if len(rest) != 2 or not self._wanted():
            return
        kwargs, out = rest
        self.ran = True
        name = self.names[id(module)]
        if self._reads is not None:
            if module is self.model:
                for given in self._reads(self.model):
                    self._read(call_of_inputs(given))
        elif isinstance(module, nn.MultiheadAttention):
            bound = _MULTIHEAD.bind(module, *args, **kwargs).arguments
            if not bound["query"].is_nested:
                self._read(call_of_multihead(name, module, bound))
        elif isinstance(module, Attention):
            self._read(
                call_of_single(name, module, _SINGLE.bind(module, *args, **kwargs).arguments)
            )
        elif frames and (leaf := name.rpartition(".")[2]) in NAMES and isinstance(out, Tensor):
            x = args[0] if args else next(iter(kwargs.values()), None)
            weight = getattr(module, "weight", None)
            if isinstance(x, Tensor) and isinstance(weight, Tensor) and weight.ndim == 2:
                frames[-1].seen[leaf] = RanProjection(module, x, out)

    def attended(self, args: Any, kwargs: dict[str, Any]) -> None:
        """scaled_dot_product_attention has run with these arguments."""
        frames = self._frames()
        if not frames or not self._wanted():
            return
        frame = frames[-1]
        self.ran = True
        if isinstance(frame.module, nn.MultiheadAttention):
            return  # read from its own arguments
        name = self.names[id(frame.module)]
        frame.calls += 1
        layer = name if frame.calls == 1 else f"{name}, call {frame.calls}"
        call = call_of_function(
            layer, dict(zip(_ARGUMENTS, args, strict=False)) | kwargs, frame.seen
        )
        if call is not None:
            self._read(call)

    def _read(self, call: Call) -> None:
        with torch.no_grad(), torch.autocast(call.like.device.type, enabled=False):
            self._take(call)


@contextmanager
def reading(
    model: nn.Module, take: Callable[[Call], None], *, reads: Reads | None = None
) -> Iterator[None]:
    """A context without gradients, in which `take` is called with every attention call."""
    hooks = AttentionHooks(model, take, reads=reads, always=True)
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        hooks.start()
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        hooks.stop()
