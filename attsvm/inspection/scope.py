"""Scope: which heads are looked at, on which tokens; and the Views of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attsvm.inspection.capturing import Draw, capture_layers, check_count, check_texts
from attsvm.inspection.model import TrainedModel
from attsvm.inspection.passages import sample_texts
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.view import View


@dataclass(frozen=True)
class Scope:
    """Layers and heads, all without them; length: tokens of a text; at: where queries stand.

    >>> Scope(layers=(0, 1))
    Scope(layers=(0, 1), heads=None, length=32, at=None)
    """

    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    length: int | None = 32
    at: int | None = None

    def count(self, model: TrainedModel) -> int:
        """How many heads of a model that is."""
        body = model.transformer
        layers = len(body.layers) if self.layers is None else len(set(self.layers))
        return layers * (body.heads if self.heads is None else len(set(self.heads)))


class Passages(NamedTuple):
    """The texts that queries are drawn from, and how many were left out as repetitions."""

    texts: Sequence[str]
    repeated: int


def unlike_texts(
    model: TrainedModel, texts: Sequence[str] | None, *, length: int | None
) -> Passages:
    """The texts that differ within their first `length` tokens, the first of each kind.

    One that is fitted on must not be held out as well. Without texts: the shipped sample.
    """
    given = sample_texts(model.texts) if texts is None else texts
    check_texts(given)
    check_count(length, "length")
    longest = model.transformer.longest
    rows = model.reader.first_of_each(given, length=length, longest=longest)
    return Passages([given[i] for i in rows], len(given) - len(rows))


def scope_views(
    model: TrainedModel, passages: Passages, scope: Scope, plan: InspectionConfig
) -> Iterator[View]:
    """The Views of the heads in scope, layer by layer, one query from each text.

    In a causal model texts with the same beginning can give queries that see the same tokens: the
    first of these is kept.
    """
    draw = Draw(count_draws(passages, plan), plan.seed, scope.length, scope.at)
    views = capture_layers(model, passages.texts, layers=scope.layers, heads=scope.heads, draw=draw)
    return map(_unlike, views) if model.transformer.causal else views


def count_draws(passages: Passages, plan: InspectionConfig) -> int:
    """How many queries are drawn: one from each text, at most what the plan asks for."""
    return min(plan.queries, len(passages.texts))


def _unlike(view: View) -> View:
    """The View without queries that see the same tokens as an earlier one."""
    first: dict[bytes, int] = {}
    for row, (ids, valid) in enumerate(zip(view.ids, view.valid, strict=True)):
        first.setdefault(ids[valid].tobytes(), row)
    return view if len(first) == len(view.ids) else view.subset(list(first.values()))
