"""capture(): one attention head of a torch model as Tokens and W, for every verdict of attsvm.

A head with logits (W_K y + b_k)·(W_Q x + b_q) · scale attends as one with the single matrix
W = scale · W_Kᵀ [W_Q b_q] and queries (x, 1): b_k moves all logits of a query alike and drops out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attsvm.errors import BadTokens, Unsupported
from attsvm.ground.arrays import Floats
from attsvm.lens.view import View
from attsvm.problem.tokens import Tokens
from attsvm.torch.calls import Call
from attsvm.torch.models import Attention
from attsvm.torch.watch import Watch

# A head has one W when its logits are those of W within this share of the largest.
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}
_OTHERWISE = 5e-2
NOT_SEEN = (
    "no attention of this model can be seen: capture reads attsvm.torch.Attention, "
    "nn.MultiheadAttention and modules that call scaled_dot_product_attention on their projections "
    "q_proj and k_proj (or query and key); of others give attsvm.Tokens and W to attsvm.outcome"
)


@dataclass(frozen=True, eq=False)
class Captured:
    """A head as attsvm takes it: `attsvm.outcome(c.W, c.tokens, c.v)` and so on.

    tokens: values, keys and queries (with a last 1 where the head has a bias), one input for each
    query. W (d, dq), the scale in it. factors: (K, Q) with W = K Qᵀ, as the optimizer moves them
    but for the root of the scale; None for a model with one W. v: the linear head of a one-layer
    model, else None: what reads a deep model's attention is not linear.

    >>> import torch
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> head = capture(model, torch.eye(2, dtype=torch.float64)[None], labels=[1])
    >>> head.W.shape, head.v, head.factors
    ((2, 1), array([0., 1.]), None)
    """

    tokens: Tokens
    W: Floats
    factors: tuple[Floats, Floats] | None
    v: Floats | None
    layer: str
    head: int

    def view(self, *, number: int = 0, ids: Any = None, positions: Any = None) -> View:
        """The head as `attsvm.lens` takes it.

        number: of the layer, to be shown with. ids (n, T): numbers of the tokens, which are named
        after them; their places without it. positions (n,): where the queries stand; the last key
        that each may attend to without it. The values of the View are the tokens themselves, since
        the model's own projection of values is not captured; no token counts as special.

        >>> import torch
        >>> x = torch.eye(3, 4, dtype=torch.float64)[None]
        >>> model = torch.nn.MultiheadAttention(4, 2, batch_first=True).double()
        >>> capture(model, (x, x, x), head=1).view()
        View(layer 0, head 1: 3 queries over 3 keys of 4 features)
          width      2
          bias       yes
          positions  learned, or none
          queries    2 2 2
        """
        tokens = self.tokens
        keys = tokens.keys if tokens.source is None else tokens.keys[tokens.source]
        n, T, d = keys.shape
        K, Q = (np.eye(d), self.W.T) if self.factors is None else self.factors
        valid = np.ones((n, T), dtype=bool) if tokens.mask is None else tokens.mask
        if positions is None:
            positions = T - 1 - valid[:, ::-1].argmax(axis=1)
        numbers = np.tile(np.arange(T), (n, 1)) if ids is None else np.asarray(ids)
        return View(
            layer=number,
            head=self.head,
            keys=keys,
            queries=tokens.queries,
            key_factor=K.T,
            query_factor=Q.T,
            value_factor=np.eye(d),
            value_shift=np.zeros(d),
            valid=valid,
            ids=numbers,
            special=np.zeros((n, T), dtype=bool),
            positions=np.asarray(positions),
            texts=tuple(tuple(str(one) for one in row) for row in numbers),
        )


def capture(
    model: nn.Module,
    batch: Any,
    *,
    layer: str | None = None,
    head: int = 0,
    query: str | int | None = None,
    labels: Any = None,
) -> Captured:
    """Run the model on a batch and read one head: its tokens and its W, in double precision.

    batch: a tensor, a tuple or a mapping: model(batch), model(*batch), model(**batch). The model
    runs as in evaluation, without gradients, and is left as it was. layer: the name of the
    attention module, where there are several. query: "first", "last" or a number: one query of each
    sequence; all of them without it. labels: −1 and +1, one for each input.

    >>> import torch
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> capture(model, torch.eye(2, dtype=torch.float64)[None], labels=[1]).tokens
    Tokens(n=1, T=2, d=2, prompt form)
    """
    calls = _calls(model, batch)
    if not calls:
        raise Unsupported(NOT_SEEN)
    if layer is None:
        if len(calls) > 1:
            raise Unsupported(f"the model attends in several places, give layer=: {_listed(calls)}")
        layer = next(iter(calls))
    if layer not in calls:
        raise Unsupported(f"no layer {layer!r} has attended; these have: {_listed(calls)}")
    call = calls[layer]
    if not 0 <= head < call.heads:
        raise Unsupported(f"head is {head}: {layer} has heads 0 to {call.heads - 1}")
    if call.single is not None:
        return _single(call, model, labels)
    return _factored(call, head, query, labels)


def _listed(calls: Mapping[str, Call]) -> str:
    names = list(calls)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _calls(model: nn.Module, batch: Any) -> dict[str, Call]:
    """The first call of every layer of a forward."""
    found: dict[str, Call] = {}
    inner = getattr(model, "_orig_mod", model)

    def take(call: Call) -> None:
        found.setdefault(call.layer, call)

    watch = Watch(inner, take, always=True)
    training = [x for x in inner.modules() if x.training]
    fast = torch.backends.mha.get_fastpath_enabled()
    inner.eval()
    try:
        watch.start()
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad():
            if isinstance(batch, Mapping):
                inner(**batch)
            elif isinstance(batch, tuple | list):
                inner(*batch)
            else:
                inner(batch)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        watch.stop()
        for x in training:
            x.training = True
    return found


def _array(x: Tensor) -> Floats:
    out: Floats = np.ascontiguousarray(x.detach().double().cpu().numpy())
    return out


def _single(call: Call, model: nn.Module, labels: Any) -> Captured:
    if call.inputs is None:
        raise Unsupported(NOT_SEEN)
    z, keys, X = call.inputs
    owner = next(x for x in model.modules() if isinstance(x, Attention) and x.W is call.single)
    W = owner.W if owner.W.ndim == 2 else owner.W[:, None]
    mask = None if call.mask is None else call.mask[:, 0, 0].cpu().numpy()
    tokens = Tokens(
        _array(X),
        queries=None if owner.W.ndim == 1 else _array(z[:, 0]),
        keys=None if keys is X else _array(keys),
        labels=_labels(labels, len(X)),
        mask=mask,
    )
    return Captured(tokens, _array(W), None, _array(owner.v), call.layer, 0)


def _factored(call: Call, head: int, query: str | int | None, labels: Any) -> Captured:
    found = call.weights()
    if found is None or call.inputs is None:
        raise Unsupported(
            f"{call.layer}: the projections of queries and keys are not known, so that its heads "
            "have no W: " + NOT_SEEN
        )
    if call.extra:
        raise Unsupported(f"{call.layer} adds keys of its own (add_bias_kv or add_zero_attn)")
    B, L, _ = call.size
    places = _places(query, L)
    x, y, values = call.inputs
    b = torch.arange(B, device=x.device)
    l = torch.as_tensor(places, device=x.device).expand(B, -1)
    raw, _ = (part[:, head].double() for part in call.logits(b, l))
    root = abs(call.scale) ** 0.5
    A, K = found[0][head] * root, found[1][head] * np.copysign(root, call.scale)
    z = x.detach()[:, places].double()
    if A.shape[1] == z.shape[2] + 1:
        z = torch.cat([z, torch.ones_like(z[..., :1])], dim=2)
    W = K.T @ A
    mine = torch.einsum("bsd,de,bme->bms", y.detach().double(), W, z)
    _check_logits(call, mine, raw)
    mask = _mask(call, b, l, head)
    tokens = Tokens(
        _array(values),
        keys=None if values is y else _array(y),
        queries=_array(z.reshape(-1, z.shape[2])),
        labels=_labels(labels, B * len(places)),
        mask=mask,
        source=np.repeat(np.arange(B), len(places)),
    )
    return Captured(tokens, _array(W), (_array(K.T), _array(A.T)), None, call.layer, head)


def _places(query: str | int | None, L: int) -> list[int]:
    if query is None:
        return list(range(L))
    if isinstance(query, str):
        if query not in ("first", "last"):
            raise Unsupported(f"query is {query!r}: 'first', 'last', a number, or None for all")
        return [0 if query == "first" else L - 1]
    if not -L <= query < L:
        raise Unsupported(f"query is {query}: there are {L} places")
    return [query % L]


def _labels(labels: Any, n: int) -> Any:
    if labels is None:
        return None
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.shape != (n,):
        raise BadTokens(
            f"labels has shape {array.shape}: {n} queries were captured, one label each"
        )
    return array


def _check_logits(call: Call, mine: Tensor, theirs: Tensor) -> None:
    """Raises Unsupported unless the logits of W are the head's own, up to a constant a query."""
    apart = mine - theirs
    apart = (apart - apart.mean(dim=-1, keepdim=True)).abs().max()
    kind = theirs.dtype if call.q is None else call.q.dtype
    kind = (call.inputs or (theirs,))[0].dtype if call.q is None else kind
    if not float(apart) <= _CLOSE.get(kind, _OTHERWISE) * max(float(theirs.abs().max()), 1.0):
        raise Unsupported(
            f"{call.layer}: queries or keys are changed between projection and softmax (rotary "
            "positions, normalization), so that the head has no single W"
        )


def _mask(call: Call, b: Tensor, l: Tensor, head: int) -> Any:
    """The mask of the inputs (n, T), True for a token; None without one."""
    added = call.added(b, l, torch.float64)
    if added is None:
        return None
    own = added[:, head if added.shape[1] > 1 else 0]
    shut = torch.isneginf(own)
    if own.masked_fill(shut, 0.0).any():
        raise Unsupported(
            f"{call.layer} adds numbers to its logits (positions by distance): W alone is not all "
            "that the head attends by"
        )
    return (~shut).reshape(-1, own.shape[2]).cpu().numpy()
