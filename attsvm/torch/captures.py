"""capture(): one attention head of a torch model as Tokens and W, for every verdict of attsvm.

A head with logits (W_K y + b_k)·(W_Q x + b_q) · scale attends as one with the single matrix
W = scale · W_Kᵀ [W_Q b_q] and queries (x, 1): b_k moves all logits of a query alike and drops out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attsvm._utils.arrays import Floats, Ints, detached, rectangular
from attsvm._utils.expected import expect, shown, whole
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.view import View
from attsvm.problem.tokens import Tokens
from attsvm.torch.calls import Call, not_seen, reading
from attsvm.torch.networks import Attention

# A head has a single W when its logits are those of W within this share of the largest.
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}
_OTHERWISE = 5e-2
NOT_SEEN = (
    "no attention of this model can be read: capture reads attsvm.torch.Attention, "
    "nn.MultiheadAttention and modules that call scaled_dot_product_attention on their projections "
    "q_proj and k_proj (or query and key); of others give attsvm.Tokens and W to attsvm.outcome"
)


@dataclass(frozen=True, eq=False, repr=False)
class Captured(Result):
    """An attention head as attsvm takes it: `attsvm.outcome(c.W, c.tokens, c.v)` and so on.

    tokens: values, keys and queries (with a last 1 where the head has a bias), one input for each
    query. W (d, dq), the scale in it. factors: (K, Q) with W = K Qᵀ, as the optimizer moves them
    but for the root of the scale; None for a model with one W. v: the prediction head of a
    one-layer model, else None: what reads a deep model's attention is not linear. number: of the
    layer, among those that attend. positions (n,): where the queries stand among their keys; None
    where they are other tokens. values: (V, shift), the head's values are V x + shift of its keys
    x; None where they are not known, or are not of the keys.

    >>> import torch
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> head = capture(model, torch.eye(2, dtype=torch.float64)[None], labels=[1])
    >>> head.W.shape, head.v, head.factors
    ((2, 1), array([0., 1.]), None)
    >>> print(head)
    Captured(Attention, attention head 0: 1 queries over 2 keys of 2 features)
      W          2 × 1, norm 0
      factors    no
      decoder    yes
      values     of width 2
      positions  not known
    """

    tokens: Tokens
    W: Floats
    factors: tuple[Floats, Floats] | None
    v: Floats | None
    layer: str
    head: int
    number: int = 0
    positions: Ints | None = None
    values: tuple[Floats, Floats] | None = None

    def view(
        self,
        *,
        number: int | None = None,
        ids: Any = None,
        positions: Any = None,
        special: Any = None,
    ) -> View:
        """The head as `attsvm.inspection` takes it: its layer, places and values as the model has
        them.

        number: another number of the layer. ids (n, T), or a row for each sequence: numbers of the
        tokens, which are named after them; their places without it. special, likewise: marks such
        as [CLS] and [SEP]; none without it. positions (n,): where the queries stand, where that is
        not known; the last key that each may attend to without it. Queries that stand on padding
        (keys that no query of their sequence may attend to) are left out. Raises Unsupported where
        the values of the head are not known.

        >>> import torch
        >>> x = torch.eye(3, 4, dtype=torch.float64)[None]
        >>> model = torch.nn.MultiheadAttention(4, 2, batch_first=True).double()
        >>> capture(model, (x, x, x), head=1).view()
        View(L0H1: 3 queries over 3 keys of 4 features)
          width    2
          bias     yes
          space    features
          queries  0 1 2
        """
        if self.values is None:
            raise Unsupported(
                f"{self.layer}: the values are not a projection of the keys under a usual name "
                "(v_proj beside q_proj, value beside query, …), so that there is no View of it: "
                "give the arrays to attsvm.inspection.View"
            )
        tokens = self.tokens
        keys = tokens.keys if tokens.source is None else tokens.keys[tokens.source]
        n, T, d = keys.shape
        K, Q = (np.eye(d), self.W.T) if self.factors is None else self.factors
        valid = np.ones((n, T), dtype=bool) if tokens.mask is None else tokens.mask
        own = self.positions if positions is None else rectangular(positions, "positions")
        marks = np.zeros((n, T), dtype=bool) if special is None else self._rows(special, "special")
        numbers = np.tile(np.arange(T), (n, 1)) if ids is None else self._rows(ids, "ids")
        view = View(
            layer=self.number if number is None else number,
            head=self.head,
            keys=keys,
            queries=tokens.queries,
            key_factor=K.T,
            query_factor=Q.T,
            values=keys @ self.values[0].T + self.values[1],
            valid=valid,
            ids=numbers,
            special=marks,
            positions=T - 1 - valid[:, ::-1].argmax(axis=1) if own is None else own,
            texts=tuple(tuple(str(one) for one in row) for row in numbers),
        )
        if positions is not None or self.positions is None or tokens.mask is None:
            return view
        source = np.arange(n) if tokens.source is None else tokens.source
        read = np.zeros((len(tokens.keys), T), dtype=bool)
        np.logical_or.at(read, source, valid)
        rows = read[source, self.positions]
        return view if rows.all() else view.subset(rows)

    def _rows(self, given: Any, name: str) -> Any:
        """One row for each query, of rows for each query or for each sequence."""
        array, source = rectangular(given, name), self.tokens.source
        if (
            source is not None
            and array.ndim == 2
            and len(source) > len(array) == len(self.tokens.X)
        ):
            array = array[source]
        if array.shape != (self.tokens.n, self.tokens.T):
            n, T = self.tokens.n, self.tokens.T
            raise BadTokens(f"{name} has shape {array.shape}; it must be ({n}, {T})")
        return array

    def _card(self) -> Summary:
        tokens = self.tokens
        facts = {
            "W": f"{self.W.shape[0]} × {self.W.shape[1]}, norm {np.linalg.norm(self.W):.6g}",
            "factors": "no" if self.factors is None else f"of width {self.factors[0].shape[1]}",
            "decoder": self.v is not None,
            "values": None if self.values is None else f"of width {len(self.values[0])}",
            "positions": self.positions,
        }
        d = tokens.keys.shape[-1]
        said = f"{tokens.n} queries over {tokens.T} keys of {d} features"
        return Summary("Captured", f"{self.layer}, attention head {self.head}: {said}", facts)


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
    calls = _calls(expect(model, nn.Module, "model"), batch)
    if not calls:
        raise Unsupported(not_seen(model, NOT_SEEN))
    if layer is None:
        if len(calls) > 1:
            raise Unsupported(f"the model attends in several places, give layer=: {_names(calls)}")
        layer = next(iter(calls))
    if not isinstance(layer, str) or layer not in calls:
        raise Unsupported(f"no layer {shown(layer)} has attended; these have: {_names(calls)}")
    call, number = calls[layer], list(calls).index(layer)
    head = whole(head, "head", least=0)
    if head >= call.heads:
        raise Unsupported(
            f"head is {head}: the attention heads of {layer} are 0 to {call.heads - 1}"
        )
    if call.single is not None:
        return replace(_single(call, model, labels), number=number)
    return replace(_factored(call, head, query, labels), number=number)


def _names(calls: Mapping[str, Call]) -> str:
    names = list(calls)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _calls(model: nn.Module, batch: Any) -> dict[str, Call]:
    """The first call of every layer of a forward."""
    found: dict[str, Call] = {}
    inner = getattr(model, "_orig_mod", model)

    def take(call: Call) -> None:
        found.setdefault(call.layer, call)

    training = [x for x in inner.modules() if x.training]
    inner.eval()
    try:
        with reading(inner, take):
            if isinstance(batch, Mapping):
                inner(**batch)
            elif isinstance(batch, tuple | list):
                inner(*batch)
            else:
                inner(batch)
    finally:
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
    own = (np.eye(tokens.d), np.zeros(tokens.d)) if keys is X else None
    return Captured(tokens, _array(W), None, _array(owner.v), call.layer, 0, values=own)


def _factored(call: Call, head: int, query: str | int | None, labels: Any) -> Captured:
    found = call.weights()
    if found is None or call.inputs is None:
        raise Unsupported(
            f"{call.layer}: the projections of queries and keys are not known, so that its "
            "attention heads have no W: " + NOT_SEEN
        )
    if call.extra:
        raise Unsupported(
            f"{call.layer} adds keys (add_bias_kv or add_zero_attn), which no token has"
        )
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
    own = call.values()
    return Captured(
        tokens,
        _array(W),
        (_array(K.T), _array(A.T)),
        None,
        call.layer,
        head,
        positions=np.tile(places, B) if x is y or torch.equal(x, y) else None,
        values=None if own is None else (_array(own[0][head]), _array(own[1][head])),
    )


def _places(query: str | int | None, L: int) -> list[int]:
    if query is None:
        return list(range(L))
    if isinstance(query, str):
        if query not in ("first", "last"):
            raise Unsupported(
                f"query is {shown(query)}: 'first', 'last', a number, or None for all"
            )
        return [0 if query == "first" else L - 1]
    number = whole(query, "query", least=-L)
    if number >= L:
        raise Unsupported(f"query is {number}: there are {L} places")
    return [number % L]


def _labels(labels: Any, n: int) -> Any:
    if labels is None:
        return None
    array = rectangular(detached(labels), "labels")
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
