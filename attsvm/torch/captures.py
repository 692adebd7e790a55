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

from attsvm._utils.arrays import Floats, Ints, detached
from attsvm._utils.expected import expect, place, shown, whole
from attsvm._utils.result import Result, Summary
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.outcome import Outcome, outcome
from attsvm.torch.calls import Call, not_seen, reading

# A head has a single W when its logits are those of W within this share of the largest.
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}
_OTHERWISE = 5e-2
NOT_SEEN = (
    "no attention of this model can be read: capture reads attsvm.torch.Attention, "
    "nn.MultiheadAttention and modules that call scaled_dot_product_attention on what their linear "
    "projections give; of others give attsvm.Tokens and W to attsvm.outcome"
)


@dataclass(frozen=True, eq=False, repr=False)
class Captured(Result):
    """An attention head as attsvm takes it: `attsvm.outcome(c.W, c.tokens)` and so on.

    tokens: values, keys and queries (with a last 1 where the head has a bias), one input for each
    query. W (d, dq), the scale in it. factors: (K, Q) with W = K Qᵀ, as the optimizer moves them
    but for the root of the scale; None for a model with one W. v: the prediction head of a
    one-layer model, else None: what reads a deep model's attention is not linear. layer: the name
    of its module. number: of the layer, among those that attend. head: its number in the layer.
    positions (n,): where each query stands in its sequence; None in a one-layer model.

    >>> import torch
    >>> x = torch.eye(3, 4, dtype=torch.float64)[None]
    >>> model = torch.nn.MultiheadAttention(4, 2, bias=False, batch_first=True).double()
    >>> head = capture(model, (x, x, x), head=1, query="last")
    >>> head.name, head.W.shape, head.positions
    ('L0H1', (4, 4), array([2]))
    >>> print(head)
    Captured(L0H1 of MultiheadAttention: 1 queries over 3 keys of 4 features)
      positions        2
      W                4 × 4
      factors          of width 2
      prediction head  none
    """

    tokens: Tokens
    W: Floats
    factors: tuple[Floats, Floats] | None
    v: Floats | None
    layer: str
    number: int
    head: int
    positions: Ints | None = None

    @property
    def name(self) -> str:
        """The head in short, such as L3H5: layer 3, attention head 5."""
        return f"L{self.number}H{self.head}"

    def outcome(self, head: Any = None, **options: Any) -> Outcome:
        """The Outcome of its W: `attsvm.outcome(W, tokens, v)`.

        head: a prediction head; that of a one-layer model unless given. Without one the outcome
        has what does not depend on it: selection, margins and the share of ‖W‖ that suffices for
        them. options: norm, optimizer, lr and loss.

        >>> import torch
        >>> from attsvm.torch import Attention
        >>> model = Attention([0.0, 1.0], shape=(2,))
        >>> model.W.data[1] = 9.0
        >>> capture(model, torch.eye(2, dtype=torch.float64)[None], labels=[1]).outcome().selection
        array([1])
        """
        return outcome(self.W, self.tokens, self.v if head is None else head, **options)

    def _card(self) -> Summary:
        tokens = self.tokens
        facts = {
            "positions": "one for each input" if self.positions is None else self.positions,
            "W": f"{self.W.shape[0]} × {self.W.shape[1]}",
            "factors": "none" if self.factors is None else f"of width {self.factors[0].shape[1]}",
            "prediction head": "none" if self.v is None else f"v of {len(self.v)} entries",
        }
        d = tokens.keys.shape[-1]
        said = f"{tokens.n} queries over {tokens.T} keys of {d} features"
        return Summary("Captured", f"{self.name} of {self.layer}: {said}", facts)


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
    >>> from attsvm.torch import Attention
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> capture(model, torch.eye(2, dtype=torch.float64)[None], labels=[1]).tokens
    Tokens(n=1, T=2, d=2, prompt form)
    """
    calls = _calls(expect(model, nn.Module, "model"), batch)
    if not calls:
        raise Unsupported(not_seen(model, NOT_SEEN))
    names = ", ".join(list(calls)[:6]) + (f" and {len(calls) - 6} more" if len(calls) > 6 else "")
    if layer is None:
        if len(calls) > 1:
            raise Unsupported(f"the model attends in several places, give layer=: {names}")
        layer = next(iter(calls))
    if not isinstance(layer, str) or layer not in calls:
        raise Unsupported(f"no layer {shown(layer)} has attended; these have: {names}")
    call, number = calls[layer], list(calls).index(layer)
    head = whole(head, "head", least=0)
    if head >= call.heads:
        raise Unsupported(
            f"head is {head}: the attention heads of {layer} are 0 to {call.heads - 1}"
        )
    found = call.weights()
    if found is None or call.query is None or call.key is None or call.values is None:
        raise Unsupported(
            f"{layer}: the projections of queries and keys are not known, so that its attention "
            "heads have no W: " + NOT_SEEN
        )
    B, L, _ = call.size
    places = _places(query, L)
    x, y, values = call.query.x, call.key.x, call.values
    b = torch.arange(B, device=x.device)
    l = torch.as_tensor(places, device=x.device).expand(B, -1)
    logits = call.logits(b, l)[0][:, head].double()
    root = abs(call.scale) ** 0.5
    A, K = found[0][head] * root, found[1][head] * np.copysign(root, call.scale)
    z = x.detach()[:, places].double()
    if A.shape[1] == z.shape[2] + 1:
        z = torch.cat([z, torch.ones_like(z[..., :1])], dim=2)
    W = K.T @ A
    _check_logits(call, torch.einsum("bsd,de,bme->bms", y.detach().double(), W, z), logits)
    mask = _mask(call, b, l, head)
    owner, one = call.owner, call.owner is not None
    prompt = owner is not None and owner.W.ndim == 1
    tokens = Tokens(
        _array(values),
        keys=None if values is y else _array(y),
        queries=None if prompt else _array(z.reshape(-1, z.shape[2])),
        labels=None if labels is None else detached(labels),
        mask=mask,
        source=None if one else np.repeat(np.arange(B), len(places)),
    )
    return Captured(
        tokens,
        _array(W),
        None if one else (_array(K.T), _array(A.T)),
        None if owner is None else _array(owner.v),
        layer,
        number,
        head,
        None if one else np.tile(places, B),
    )


def _calls(model: nn.Module, batch: Any) -> dict[str, Call]:
    """The first call of every layer of a forward in evaluation."""
    found: dict[str, Call] = {}
    inner = getattr(model, "_orig_mod", model)
    training = [x for x in inner.modules() if x.training]
    inner.eval()
    try:
        with reading(inner, lambda call: found.setdefault(call.layer, call)):
            if isinstance(batch, Mapping):
                inner(**batch)
            else:
                inner(*(batch if isinstance(batch, tuple | list) else (batch,)))
    finally:
        for x in training:
            x.training = True
    return found


def _array(x: Tensor) -> Floats:
    out: Floats = np.ascontiguousarray(x.detach().double().cpu().numpy())
    return out


def _places(query: str | int | None, L: int) -> list[int]:
    if query is None:
        return list(range(L))
    named = {"first": 0, "last": -1}
    if isinstance(query, str) and query not in named:
        raise Unsupported(f"query is {shown(query)}: 'first', 'last', a number, or None for all")
    return [place(named[query] if isinstance(query, str) else query, L, "query") % L]


def _check_logits(call: Call, mine: Tensor, theirs: Tensor) -> None:
    """Raises Unsupported unless the logits of W are the head's own, up to a constant a query."""
    apart = mine - theirs
    apart = (apart - apart.mean(dim=-1, keepdim=True)).abs().max()
    close = _CLOSE.get(call.q.dtype, _OTHERWISE)
    if not float(apart) <= close * max(float(theirs.abs().max()), 1.0):
        raise Unsupported(
            f"{call.layer}: queries or keys are changed between projection and softmax (rotary "
            "positions, normalization), so that the attention head has no single W"
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
            f"{call.layer} adds numbers to its logits (positions by distance): the attention "
            "head is not determined by W alone"
        )
    return (~shut).reshape(-1, own.shape[2]).cpu().numpy()
