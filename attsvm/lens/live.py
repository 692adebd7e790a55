"""view_of(): a head of a live torch model, captured by `attsvm.torch.capture`, as a View."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.lens.view import View

if TYPE_CHECKING:
    from attsvm.torch.captures import Captured


def view_of(captured: Captured, *, layer: int = 0, ids: Any = None, positions: Any = None) -> View:
    """The View of a head that `attsvm.torch.capture(model, batch, query=…)` has read.

    layer: the number it is shown with. ids (n, T): of the tokens, which are named after them; by
    their places without it. positions (n,): where the queries stand; the last key that each may
    attend to without it. The values of the View are the tokens themselves, since the model's own
    value projection is not captured; no token counts as special.
    """
    tokens = captured.tokens
    keys = tokens.keys if tokens.source is None else tokens.keys[tokens.source]
    n, T, d = keys.shape
    if captured.factors is None:
        key_factor, query_factor = np.eye(d), captured.W
    else:
        key_factor, query_factor = captured.factors[0].T, captured.factors[1].T
    valid = np.ones((n, T), dtype=bool) if tokens.mask is None else tokens.mask
    numbers = np.broadcast_to(np.arange(T), (n, T)) if ids is None else np.asarray(ids)
    if positions is None:
        positions = T - 1 - valid[:, ::-1].argmax(axis=1)
    return View(
        layer=layer,
        head=captured.head,
        keys=keys,
        queries=tokens.queries,
        key_factor=key_factor,
        query_factor=query_factor,
        value_factor=np.eye(d),
        value_shift=np.zeros(d),
        valid=valid,
        ids=numbers,
        special=np.zeros((n, T), dtype=bool),
        positions=np.asarray(positions),
        texts=tuple(tuple(str(number) for number in row) for row in numbers),
    )
