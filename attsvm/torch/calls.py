"""The attention calls of a running model, read without changing it.

A `Call` is one call: logits are scale · q·k plus what the mask adds. Queries and keys come as
tensors (B, H, L, dh), or as the layer's inputs (B, L, d) with the projections that make q and k of
them, so that only the sampled ones are computed. `AttentionHooks` reads the calls of
nn.MultiheadAttention, scaled_dot_product_attention and attsvm.torch.Attention. Modules are followed
by torch's hooks for all modules, so that the model itself holds nothing: its copies and pickles
stay as they were. scaled_dot_product_attention is wrapped where torch.nn.functional keeps it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, wraps
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
    """x ↦ M x + b, with M (H·dh, d) and b (H·dh,), and the inputs x (B, L, d) that it was given."""

    weight: Tensor
    bias: Tensor | None
    x: Tensor

    def by_heads(self, width: int) -> tuple[Tensor, Tensor | None]:
        """M (H, dh, d) and b (H, dh), in double precision; width: dh."""
        M = self.weight.detach().double().unflatten(0, (-1, width))
        b = self.bias
        return M, None if b is None else b.detach().double().unflatten(0, (-1, width))

    def output(self, heads: int) -> Tensor:
        """q or k, as (B, heads, L, dh)."""
        M, b = self.weight.detach(), None if self.bias is None else self.bias.detach()
        out = F.linear(self.x.detach().to(M.dtype), M, b)
        return out.unflatten(2, (heads, -1)).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention.

    layer: its name in the model. q (B, H, L, dh); k (B, H, S, dh), or with fewer heads, each for as
    many queries in turn. mask: booleans, True where a key is present, or numbers that are added, of
    a shape that broadcasts to (B, H, L, S). query, key: what made q and k, of which inputs; values:
    the inputs that values are made of; None where not known. owner: the model with one W that made
    the call.
    """

    layer: str
    q: Tensor
    k: Tensor
    scale: float
    mask: Tensor | None = None
    causal: bool = False
    query: Projection | None = None
    key: Projection | None = None
    values: Tensor | None = None
    owner: Attention | None = None

    @property
    def heads(self) -> int:
        """H."""
        return self.q.shape[1]

    @property
    def size(self) -> tuple[int, int, int]:
        """(B, L, S)."""
        return self.q.shape[0], self.q.shape[2], self.k.shape[2]

    def logits(self, b: Tensor, l: Tensor) -> tuple[Tensor, Tensor]:
        """(scale · q·k, the same with what masks add: −inf where no key is), each (nb, H, m, S).

        b (nb,): sequences; l (nb, m): places of queries in them.
        """
        q, k = self.q.detach()[b[:, None], :, l], self.k.detach()[b]
        kind = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        q, k = q.to(kind).transpose(1, 2), k.to(kind)
        k = k.repeat_interleave(self.heads // k.shape[1], dim=1)
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
        return out

    def weights(self) -> tuple[Tensor, Tensor] | None:
        """(A, K) in double precision with W = scale · Kᵀ A for each head; None where not known.

        A = [W_Q b_q] (H, dh, dq + 1), K = W_K (H, dh, d); the bias of keys moves all logits of a
        query alike and is left out. Without a bias A has no last column.
        """
        if self.query is None or self.key is None:
            return None
        A, b = self.query.by_heads(self.q.shape[3])
        if b is not None:
            A = torch.cat([A, b[..., None]], dim=2)
        K, _ = self.key.by_heads(self.q.shape[3])
        return A, K.repeat_interleave(self.heads // len(K), dim=0)


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


def call_of_function(
    layer: str, given: Mapping[str, Any], seen: Sequence[tuple[Projection, Tensor]]
) -> Call | None:
    """The call of scaled_dot_product_attention with these arguments, by name; None if nested.

    seen: the projections that ran in the same module, and what they gave.
    """
    q, k, mask = given["query"], given["key"], given.get("attn_mask")
    if q.is_nested or k.is_nested or not 3 <= q.ndim <= 4 or k.ndim != q.ndim:
        return None
    if q.ndim == 3:
        q, k = q[:, None], k[:, None]
        mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask
    wide, more = q.shape[1] * q.shape[3], k.shape[1] * k.shape[3]
    key = _made(seen, k, slice(wide, wide + more))
    return Call(
        layer,
        q,
        k,
        scale=given.get("scale") or q.shape[3] ** -0.5,
        mask=mask,
        causal=bool(given.get("is_causal", False)),
        query=_made(seen, q, slice(wide)),
        key=key,
        values=None if key is None else key.x,
    )


def _made(seen: Sequence[tuple[Projection, Tensor]], x: Tensor, packed: slice) -> Projection | None:
    """The projection that made x (B, H, L, dh): its outputs have the lengths of x at every place.

    packed: the part of a projection of queries, keys and values at once that makes x. Rotations
    keep lengths, normalization does not. One sequence is enough to see this.
    """
    close = 1e-4 if x.dtype in (torch.float32, torch.float64) else 2e-2
    theirs = x.detach()[:1].float().norm(dim=-1)
    for (weight, bias, inputs), given in seen:
        for part in (slice(None), packed):
            out = given.detach()[:1, ..., part]
            if out.ndim != 3 or out.shape[1] != x.shape[2] or out.shape[2] % x.shape[3]:
                continue
            mine = out.float().unflatten(2, (-1, x.shape[3])).norm(dim=-1).transpose(1, 2)
            many = x.shape[1] // max(mine.shape[1], 1)  # heads that share a head of keys
            mine = mine.repeat_interleave(many, dim=1)
            if mine.shape == theirs.shape and torch.allclose(mine, theirs, close, close * 1e-2):
                return Projection(weight[part], None if bias is None else bias[part], inputs)
    return None


def call_of_multihead(layer: str, module: nn.MultiheadAttention, given: Mapping[str, Any]) -> Call:
    """The call of nn.MultiheadAttention with these arguments, by name."""
    if module.bias_k is not None or module.add_zero_attn:
        raise Unsupported(
            f"{layer} adds keys (add_bias_kv or add_zero_attn), which no token has: its attention "
            "cannot be read"
        )
    x, y, z = given["query"], given["key"], given["value"]
    pad, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if x.ndim == 2:
        x, y, z = x[None], y[None], z[None]
        pad = None if pad is None else pad[None]
    elif not module.batch_first:
        x, y, z = (t.transpose(0, 1) for t in (x, y, z))
    H, B = module.num_heads, x.shape[0]
    if module._qkv_same_embed_dim:
        W_q, W_k, _ = module.in_proj_weight.chunk(3)
    else:
        W_q, W_k = module.q_proj_weight, module.k_proj_weight
    b_q, b_k, _ = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    query, key = Projection(W_q, b_q, x), Projection(W_k, b_k, y)
    return Call(
        layer,
        query.output(H),
        key.output(H),
        scale=(module.embed_dim // H) ** -0.5,
        mask=_merge(mask, pad, B, H),
        query=query,
        key=key,
        values=z,
    )


def _merge(mask: Tensor | None, pad: Tensor | None, B: int, H: int) -> Tensor | None:
    """The masks of nn.MultiheadAttention, where True hides, as numbers (B, H, L, S) to add."""
    given = [] if pad is None else [pad[:, None, None, :]]
    if mask is not None:
        given.append(mask.reshape(B, H, *mask.shape[1:]) if mask.ndim == 3 else mask[None, None])
    added = [_additive(~x if x.dtype == torch.bool else x.detach(), torch.float32) for x in given]
    return sum(added[1:], start=added[0]) if added else None


def call_of_single(layer: str, module: Attention, given: Mapping[str, Any]) -> Call:
    """The call of attention with one W: queries W z, the keys as they are."""
    X, z, keys, mask = given["X"], given.get("z"), given.get("keys"), given.get("mask")
    keys = X if keys is None else keys
    z = torch.ones(len(X), 1, dtype=X.dtype, device=X.device) if z is None else z
    W = module.W.detach()
    W = W if W.ndim == 2 else W[:, None]
    query = Projection(W, None, z[:, None])
    return Call(
        layer,
        query.output(1),
        keys[:, None],
        scale=1.0,
        mask=None if mask is None else mask[:, None, None],
        query=query,
        key=Projection(torch.eye(len(W), dtype=W.dtype, device=W.device), None, keys),
        values=X,
        owner=module,
    )


_MULTIHEAD = inspect.signature(nn.MultiheadAttention.forward)
_SINGLE = inspect.signature(Attention.forward)
_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
# The open hooks that follow scaled_dot_product_attention, which may be closed in any order.
_LISTENING: list[AttentionHooks] = []


def _heard(given: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, which tells all open hooks of each call."""

    @wraps(given)
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Tensor:
        out = given(*args, **kwargs)
        for one in tuple(_LISTENING):
            one.attended(args, kwargs)
        return out

    return scaled_dot_product_attention


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
    seen: list[tuple[Projection, Tensor]] = field(default_factory=list)
    calls: int = 0


class AttentionHooks:
    """Calls `take` with every attention call of a model while it is open.

    always: also without gradients; else validation between two steps is skipped.
    """

    def __init__(
        self, model: nn.Module, take: Callable[[Call], object], *, always: bool = False
    ) -> None:
        self.model = model
        self.names = {id(x): name or type(x).__name__ for name, x in model.named_modules()}
        self.ran = False
        self._take, self._always = take, always
        self._frames: list[RunningModule] = []
        self._handles: list[Any] = []

    @property
    def open(self) -> bool:
        """Whether the hooks are registered."""
        return bool(self._handles)

    def start(self) -> None:
        """Register the hooks, which are closed."""
        self.ran = False
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        if not _LISTENING:
            F.scaled_dot_product_attention = _heard(F.scaled_dot_product_attention)
        _LISTENING.append(self)

    def stop(self) -> None:
        """Remove the hooks and the wrapper."""
        if not self._handles:
            return
        for handle in self._handles:
            handle.remove()
            # torch leaves the id of the hook in this dictionary.
            module_hooks._global_forward_hooks_with_kwargs.pop(handle.id, None)
        self._handles, self._frames = [], []
        _LISTENING.remove(self)
        if not _LISTENING:
            F.scaled_dot_product_attention = vars(F.scaled_dot_product_attention)["__wrapped__"]

    def _reads(self) -> bool:
        return self._always or torch.is_grad_enabled()

    def _enter(self, module: nn.Module, args: Any) -> None:
        if id(module) in self.names and not torch.compiler.is_compiling():
            self._frames.append(RunningModule(module))

    def _leave(self, module: nn.Module, args: Any, *rest: Any) -> None:
        """torch calls it without keyword arguments where the module has raised."""
        if id(module) not in self.names or torch.compiler.is_compiling():
            return
        frames = self._frames
        while frames and frames.pop().module is not module:
            pass
        if len(rest) != 2 or not self._reads():
            return
        kwargs, out = rest
        self.ran = True
        name = self.names[id(module)]
        if isinstance(module, nn.MultiheadAttention):
            given = _MULTIHEAD.bind(module, *args, **kwargs).arguments
            if not given["query"].is_nested:
                self._read(call_of_multihead(name, module, given))
        elif isinstance(module, Attention):
            given = _SINGLE.bind(module, *args, **kwargs).arguments
            self._read(call_of_single(name, module, given))
        elif frames and isinstance(module, nn.Linear) and isinstance(out, Tensor):
            x = args[0] if args else kwargs["input"]
            frames[-1].seen.append((Projection(module.weight, module.bias, x), out))

    def attended(self, args: Any, kwargs: dict[str, Any]) -> None:
        """scaled_dot_product_attention has run with these arguments."""
        if not self._frames or torch.compiler.is_compiling() or not self._reads():
            return
        frame = self._frames[-1]
        self.ran = True
        if isinstance(frame.module, nn.MultiheadAttention):
            return  # read from its own arguments
        frame.calls += 1
        more = "" if frame.calls == 1 else f", call {frame.calls}"
        given = dict(zip(_ARGUMENTS, args, strict=False)) | kwargs
        call = call_of_function(self.names[id(frame.module)] + more, given, frame.seen)
        if call is not None:
            self._read(call)

    def _read(self, call: Call) -> None:
        with torch.no_grad(), torch.autocast(call.q.device.type, enabled=False):
            self._take(call)


@contextmanager
def reading(model: nn.Module, take: Callable[[Call], object]) -> Iterator[None]:
    """A context without gradients, in which `take` is called with every attention call."""
    hooks = AttentionHooks(model, take, always=True)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    hooks.start()
    try:
        with torch.no_grad():
            yield
    finally:
        hooks.stop()
        torch.backends.mha.set_fastpath_enabled(fast)
