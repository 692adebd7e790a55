"""compare(): what training changed in each head, from two checkpoints of one model.

Both see the same texts and queries. The token whose attention grew most is taken for each query,
and three matrices are asked for it on unseen queries: the max-margin matrix of the grown tokens,
their mean difference, and ΔW = W_after − W_before itself. The direction of ΔW is compared with that
max-margin matrix, beside the ΔW of the layer's other heads, which have nothing to do with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.files import finite
from attsvm._utils.parallel import one_thread
from attsvm._utils.progress import bar
from attsvm._utils.result import Summary, Table
from attsvm.errors import BadTokens
from attsvm.inspection.agreement import rank_correlation, rule_for, sharpness_of
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.fits import (
    agreement_of,
    apart,
    cosine_of,
    mean_difference,
    one_hot,
    svm_fit,
)
from attsvm.inspection.inspection import LENGTH, HeadViews, config_of
from attsvm.inspection.models import load
from attsvm.inspection.view import View

# A token grew when it gained more than this much of a query's attention.
GROWN = 0.01

# What each field of a row is.
CHANGE_FIELDS: dict[str, str] = {
    "name": "the attention head: L3H5 is head 5 of layer 3, both from 0",
    "layer": "the layer, from 0",
    "head": "the attention head, from 0",
    "queries": "queries with at least two keys",
    "grown": "queries in which some key gained more than 0.01 of the attention",
    "fitted": "of these, fitted on",
    "tested": "of these, held out",
    "sharpness_before": "the mean of the largest attention before",
    "sharpness_after": "and after",
    "sharpened": "the difference",
    "saturated_before": "the share of queries with a key above 0.9 before",
    "saturated_after": "and after",
    "change_norm": "‖ΔW‖ / ‖W_before‖, Frobenius",
    "cosine_before": "between W and the max-margin matrix of its own choices, before",
    "cosine_after": "and after",
    "growth_cosine": "between ΔW and the max-margin matrix of the grown tokens",
    "growth_cosine_low": "the least such cosine of the layer's other attention heads",
    "growth_cosine_high": "the largest",
    "growth_svm": "held-out grown tokens that the max-margin matrix of the grown tokens finds",
    "growth_mean_difference": "that their mean difference finds",
    "growth_change": "that ΔW finds",
    "growth_rule": "that the best one-line rule finds",
    "growth_rule_name": "that rule",
    "chance": "that a blind guess finds",
    "seconds": "processor seconds spent on this attention head",
}


@dataclass(frozen=True, eq=False, repr=False)
class Change(Table):
    """What changed in each head, one row each; `attsvm.inspection.CHANGE_FIELDS` explains the
    columns.

    >>> from attsvm.inspection import compare, untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> found = compare(untrained_model(), untrained_model(seed=1), texts, heads="L0H1")
    >>> list(found.columns()) == list(CHANGE_FIELDS)
    True
    """

    before: str
    after: str
    config: InspectionConfig
    records: tuple[dict[str, Any], ...]

    def columns(self) -> dict[str, Any]:
        """A column per field of `attsvm.inspection.CHANGE_FIELDS`."""
        words = ("name", "growth_rule_name")
        values = {name: [record[name] for record in self.records] for name in CHANGE_FIELDS}
        return {name: own if name in words else np.array(own) for name, own in values.items()}

    def to_frame(self) -> Any:
        """A row per head (pandas), by its name."""
        return super().to_frame().set_index("name")

    def correlation(self, one: str = "sharpness_after", other: str = "cosine_after") -> float:
        """The rank correlation of two columns over heads."""
        columns = self.columns()
        return rank_correlation(columns[one], columns[other])

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers, words and lists; None for what is not known."""
        plain: dict[str, Any] = finite(
            {
                "before": self.before,
                "after": self.after,
                "config": vars(self.config),
                "fields": CHANGE_FIELDS,
                "heads": list(self.records),
                "rank_correlation": self.correlation(),
            }
        )
        return plain

    def _card(self) -> Summary:
        shown = ("name", "sharpened", "growth_svm", "growth_mean_difference")
        table = {name: [record[name] for record in self.records] for name in shown}
        columns = self.columns()
        facts = {
            "attention heads that sharpened": int((columns["sharpened"] > 0).sum()),
            "rank correlation of sharpness and cosine": self.correlation(),
        }
        said = f"{self.before} → {self.after}, {len(self.records)} attention heads"
        return Summary("Change", said, facts, table)


def compare(
    before: Any,
    after: Any,
    texts: Any = None,
    *,
    tokenizer: Any = None,
    heads: str | Sequence[str] | None = None,
    queries: int | None = None,
    quick: bool = False,
    length: int | None = LENGTH,
    at: int | None = None,
    seed: int = 0,
    config: InspectionConfig | None = None,
) -> Change:
    """The Change of each head from one checkpoint to another, on the same queries.

    before, after: models as `attsvm.inspect` takes them; what follows is as there. at=0 asks for
    the first token's query ([CLS]).

    >>> from attsvm.inspection import untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> found = compare(untrained_model(), untrained_model(seed=1), texts, heads="L0", at=0)
    >>> [record["name"] for record in found.records], found.records[0]["queries"]
    (['L0H0', 'L0H1'], 6)
    """
    config = config or config_of(queries=queries, quick=quick, seed=seed)
    models = [load(one, tokenizer) for one in (before, after)]
    texts = models[1].sample_texts() if texts is None else texts
    views = [
        HeadViews(one, texts, heads=heads, length=length, at=at, config=config) for one in models
    ]
    check_same(*views)
    count = len(views[0].wanted)
    pairs = ((one, other) for (one, _), (other, _) in zip(*views, strict=True))
    with bar(f"{count} attention heads") as show:
        step = None if show is None else lambda done: show(done / count)
        names = (models[0].name, models[1].name)
        return compare_views(pairs, names=names, config=config, progress=step)


def check_same(before: HeadViews, after: HeadViews) -> None:
    """Raises BadTokens unless two checkpoints are of one model: the same family and sizes."""
    one, other = (
        {**views.run.known.about, "words": views.run.known.words} for views in (before, after)
    )
    if one != other:
        unlike = [name for name in one if one[name] != other[name]]
        name = (unlike or ["family"])[0]
        raise BadTokens(
            f"{before.run.known.name} ({name} {one[name]}) and {after.run.known.name} ({name} "
            f"{other[name]}) are not two checkpoints of one model"
        )


def compare_views(
    pairs: Iterable[tuple[View, View]],
    *,
    names: tuple[str, str] = ("before", "after"),
    config: InspectionConfig | None = None,
    progress: Any = None,
) -> Change:
    """The Change of heads given as pairs of Views, before and after, layer by layer.

    >>> from attsvm.inspection import capture, untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> views = [capture(untrained_model(seed=k), texts, head="L0H1") for k in (0, 1)]
    >>> compare_views([tuple(views)]).records[0]["change_norm"] > 0
    True
    """
    config = config or InspectionConfig()
    records: list[dict[str, Any]] = []
    for _, layer in groupby(pairs, key=lambda pair: pair[0].layer):
        heads = []
        for before, after in layer:
            heads.append(_compare_head(before, after, config))
            if progress is not None:
                progress(len(records) + len(heads))
        records += _with_bands(heads)
    if not records:
        raise BadTokens("there is no attention head to compare: give at least one pair of Views")
    return Change(*names, config, tuple(records))


class _Head(NamedTuple):
    """The record of a head, its ΔW, and the max-margin matrix of its grown tokens."""

    record: dict[str, Any]
    change: Floats | None
    svm: Floats | None


def _with_bands(heads: list[_Head]) -> Iterator[dict[str, Any]]:
    """The records, each with the cosines of its max-margin matrix with the others' ΔW."""
    for head in heads:
        others = [
            cosine_of(other.change, head.svm)
            for other in heads
            if other is not head and other.change is not None and head.svm is not None
        ]
        if others:
            head.record["growth_cosine_low"] = float(np.min(others))
            head.record["growth_cosine_high"] = float(np.max(others))
        yield head.record


@one_thread()
def _compare_head(before: View, after: View, config: InspectionConfig) -> _Head:
    start = time.process_time()
    _check_pair(before, after)
    rows = np.flatnonzero(before.valid.sum(axis=1) >= 2)
    if len(rows):
        before, after = before.subset(rows), after.subset(rows)
    sharp = (sharpness_of(before), sharpness_of(after))
    growth = np.where(after.valid, after.attention() - before.attention(), -np.inf)
    grown = np.flatnonzero(growth.max(axis=1) > GROWN)
    record: dict[str, Any] = dict.fromkeys(CHANGE_FIELDS, np.nan) | {
        "name": after.name,
        "layer": after.layer,
        "head": after.head,
        "queries": len(rows),
        "grown": len(grown),
        "fitted": 0,
        "tested": 0,
        "sharpness_before": sharp[0].mean,
        "sharpness_after": sharp[1].mean,
        "sharpened": sharp[1].mean - sharp[0].mean,
        "saturated_before": sharp[0].saturated,
        "saturated_after": sharp[1].saturated,
        "growth_rule_name": None,
        "chance": sharp[1].chance,
    }
    change = svm = None
    if after.space == "features" and before.keys.shape[2:] == after.keys.shape[2:]:
        change = after.W - before.W
        size = float(np.linalg.norm(before.W))
        record["change_norm"] = float(np.linalg.norm(change)) / size if size > 0 else np.nan
        for name, view in (("cosine_before", before), ("cosine_after", after)):
            record[name] = _own_cosine(view, config)
        if len(grown) >= 3:
            svm = _growth(record, after.subset(grown), growth[grown].argmax(axis=1), change, config)
    record["seconds"] = time.process_time() - start
    return _Head(record, change, svm)


def _own_cosine(view: View, config: InspectionConfig) -> float:
    """The cosine of W and the max-margin matrix of its own choices, on the fitted queries."""
    fit = view.subset(_order(len(view.queries), config)[: config.fit])
    rows = apart(fit, fit.chosen())
    if not len(rows):
        return np.nan
    fit = fit.subset(rows)
    return cosine_of(fit.W, svm_fit(fit, fit.chosen()).W)


def _growth(
    record: dict[str, Any], view: View, target: Ints, change: Floats, config: InspectionConfig
) -> Floats | None:
    """Fill in how well grown tokens are foretold; the max-margin matrix of the fitted ones."""
    order = _order(len(view.queries), config)
    cut = config.fit if len(order) >= config.queries else max(1, min(config.fit, len(order) // 3))
    rows, held = order[:cut], order[cut : cut + config.test]
    rows = rows[apart(view.subset(rows), target[rows])]
    if not len(rows) or not len(held):
        return None
    fit, test = view.subset(rows), view.subset(held)
    svm = svm_fit(fit, target[rows]).W
    mean = mean_difference(fit, one_hot(fit, target[rows]))
    rule = rule_for((fit, target[rows]), (test, target[held]))
    record |= {
        "fitted": len(rows),
        "tested": len(held),
        "growth_cosine": cosine_of(change, svm),
        "growth_svm": agreement_of(test, svm, target[held]),
        "growth_mean_difference": agreement_of(test, mean, target[held]),
        "growth_change": agreement_of(test, change, target[held]),
        "growth_rule": rule.agreement,
        "growth_rule_name": rule.name,
    }
    return svm


def _order(n: int, config: InspectionConfig) -> Ints:
    return np.random.default_rng(config.seed).permutation(n)


def _check_pair(before: View, after: View) -> None:
    """Raises BadTokens unless both are of one head on the same queries."""
    same = (
        (before.layer, before.head) == (after.layer, after.head)
        and before.ids.shape == after.ids.shape
        and bool((before.ids == after.ids).all())
        and bool((before.positions == after.positions).all())
    )
    if not same:
        raise BadTokens(
            f"{before.name} before and {after.name} after see different queries: capture both on "
            "the same texts and with the same seed"
        )
