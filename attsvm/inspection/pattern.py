"""pattern(): the attention of one head on one text, with its choices and how firm they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.result import Summary, Table
from attsvm.errors import Unsupported
from attsvm.inspection.capturing import Run
from attsvm.inspection.guarantees import stability_of
from attsvm.inspection.margins import margins_of
from attsvm.inspection.models import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Pattern(Table):
    """The attention of a head on a text of L tokens, a row per query.

    attention (L, L); valid (L, L): what each query may attend to; selected (L,): the key with the
    most attention; margin (L,): its logit less the next one, inf where there is one key;
    key_radius, query_radius (L,): the choice is certified to stay while every key, or the query,
    moves by less than this, over its size (0: two top logits cannot be separated). space: features
    of the layer's input or, with rotary positions, "head": keys and queries of the head itself.
    """

    name: str
    tokens: tuple[str, ...]
    attention: Floats
    valid: Bools
    selected: Ints
    margin: Floats
    key_radius: Floats
    query_radius: Floats
    space: str

    def columns(self) -> dict[str, Any]:
        """A row per query: its token, the selected key and its attention, margin and radii."""
        rows = np.arange(len(self.tokens))
        return {
            "query": list(self.tokens),
            "selected": self.selected,
            "key": [self.tokens[t] for t in self.selected],
            "attention": self.attention[rows, self.selected],
            "margin": self.margin,
            "key_radius": self.key_radius,
            "query_radius": self.query_radius,
        }

    def plot(self, *, style: str = "screen") -> Figure:
        """Attention as shades, with a mark on each selected key."""
        from attsvm.plotting.networks import pattern_figure

        return pattern_figure(self, look=style)

    def _card(self) -> Summary:
        said = f"{self.name} on {len(self.tokens)} tokens, in {self.space} space"
        return Summary(
            "Pattern", said.replace("features space", "feature space"), {}, self.columns()
        )


def pattern(model: Any, text: Any, *, head: str, tokenizer: Any = None) -> Pattern:
    """The Pattern of one head, named as L3H5, on one text.

    model, tokenizer: as in `attsvm.inspect`. text: a string, a row of token ids, or one image.

    >>> import torch, transformers
    >>> config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=2, n_head=2)
    >>> found = pattern(transformers.GPT2Model(config), torch.arange(4), head="L1H0")
    >>> found.tokens, found.attention.shape, found.attention.sum(axis=1).round(6)
    (('0', '1', '2', '3'), (4, 4), array([1., 1., 1., 1.]))
    """
    known = load(model, tokenizer)
    if isinstance(text, str | list):
        rows = [text]
    else:  # token ids or an image, with a first axis or without
        rows = text[None] if text.ndim in (1, 3) else text
    run = Run(known, rows)
    if len(run.inputs) != 1:
        raise Unsupported(f"text has {len(run.inputs)} rows: give one")
    L = int(run.inputs.lengths[0])
    view = run.view(head, np.zeros(L, dtype=np.int64), np.arange(L))
    margins = margins_of(view)
    by_keys, by_query = stability_of(view, margins).shares
    return Pattern(
        name=view.name,
        tokens=run.inputs.tokens[0],
        attention=view.attention(),
        valid=view.valid,
        selected=margins.chosen,
        margin=margins.gap,
        key_radius=by_keys,
        query_radius=by_query,
        space=view.space,
    )
