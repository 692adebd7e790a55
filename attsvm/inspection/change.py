"""compare(): what training changed in each head, from two checkpoints of one model.

Both see the same texts and queries. The token whose attention grew most is taken for each query,
and three matrices are asked for it on unseen queries: the max-margin matrix of the grown tokens,
their mean difference, and ΔW = W_after − W_before itself. The direction of ΔW is compared with that
max-margin matrix, beside the ΔW of the layer's other heads, which have nothing to do with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.files import finite
from attsvm._utils.parallel import one_thread
from attsvm._utils.progress import bar
from attsvm._utils.result import Summary
from attsvm.errors import BadTokens
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.inspection import LENGTH, HeadTable, HeadViews
from attsvm.inspection.measures import (
    agreement_of,
    apart,
    cosine_of,
    fields,
    mean_difference,
    rule_for,
    sharpness_of,
    split_rows,
    svm_fit,
)
from attsvm.inspection.models import load
from attsvm.inspection.view import View

# A token grew when it gained more than this much of a query's attention.
GROWN = 0.01

# What each field of a row is.
CHANGE_FIELDS: dict[str, str] = fields("change")


@dataclass(frozen=True, eq=False, repr=False)
class Change(HeadTable):
    """What changed in each head, one row each; `attsvm.inspection.CHANGE_FIELDS` says what every
    column is.

    >>> import torch, transformers
    >>> config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2)
    >>> before, after = transformers.GPT2Model(config), transformers.GPT2Model(config)
    >>> found = compare(before, after, torch.arange(24).reshape(6, 4), at=-1)
    >>> list(found.columns()) == list(CHANGE_FIELDS)
    True
    """

    fields: ClassVar[dict[str, str]] = CHANGE_FIELDS
    before: str
    after: str
    config: InspectionConfig
    records: tuple[dict[str, Any], ...]

    def correlation(self) -> float:
        """The rank correlation of sharpness and cosine afterwards, over heads that have both."""
        table = self.to_frame()[["sharpness_after", "cosine_after"]].astype(float)
        return float(table.corr(method="spearman", min_periods=3).iloc[0, 1])

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers, words and lists; None for what is not known."""
        found = {
            "before": self.before,
            "after": self.after,
            "config": vars(self.config),
            "fields": CHANGE_FIELDS,
            "heads": list(self.records),
            "rank_correlation": self.correlation(),
            "facts": self.facts(),
        }
        plain: dict[str, Any] = finite(found)
        return plain

    def facts(self) -> dict[str, str]:
        """What is said of all heads together."""
        table = self.to_frame()
        finds = {"max margin": "svm", "mean difference": "mean_difference", "ΔW": "change"}
        shares = [
            f"{name} finds {table[f'growth_{by}'].median():.0%}" for name, by in finds.items()
        ]
        nearest = (table["growth_cosine"] > table["growth_cosine_high"]).sum()
        return {
            "Attention heads that sharpened": f"{(table['sharpened'] > 0).sum()} of {len(table)}",
            "Rank correlation of sharpness and cosine": f"{self.correlation():.3g}",
            "Held-out tokens whose attention grew": ", ".join(shares),
            "ΔW nearer to the max-margin matrix of these than that of all other heads": str(
                nearest
            ),
        }

    def _card(self) -> Summary:
        shown = ("name", "sharpened", "growth_svm", "growth_mean_difference")
        table = {name: [record[name] for record in self.records] for name in shown}
        said = f"{self.before} → {self.after}, {len(self.records)} attention heads"
        return Summary("Change", said, self.facts(), table)


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

    >>> import torch, transformers
    >>> config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=2, n_head=2)
    >>> before, after = transformers.GPT2Model(config), transformers.GPT2Model(config)
    >>> found = compare(before, after, torch.arange(24).reshape(6, 4), heads="L1", at=-1)
    >>> [record["name"] for record in found.records], found.records[0]["queries"]
    (['L1H0', 'L1H1'], 6)
    """
    config = config or InspectionConfig.of(queries=queries, quick=quick, seed=seed)
    models = [load(one, tokenizer) for one in (before, after)]
    asked: dict[str, Any] = {"heads": heads, "length": length, "at": at, "config": config}
    views = [HeadViews(one, texts, **asked) for one in models]
    names = [one.name for one in models]
    sizes = [{**one.about, "words": one.words} for one in models]
    for what, value in sizes[0].items():
        if value != sizes[1][what]:
            raise BadTokens(
                f"{names[0]} ({what} {value}) and {names[1]} ({what} {sizes[1][what]}) are not two "
                "checkpoints of one model"
            )
    pairs = ((one, other) for (one, _), (other, _) in zip(*views, strict=True))
    with bar(f"{len(views[0].wanted)} attention heads", late=True):
        return compare_views(pairs, names=(names[0], names[1]), config=config)


def compare_views(
    pairs: Iterable[tuple[View, View]],
    *,
    names: tuple[str, str] = ("before", "after"),
    config: InspectionConfig | None = None,
) -> Change:
    """The Change of heads given as pairs of Views, before and after, layer by layer."""
    config = config or InspectionConfig()
    records: list[dict[str, Any]] = []
    for _, layer in groupby(pairs, key=lambda pair: pair[0].layer):
        heads = [_compare_head(before, after, config) for before, after in layer]
        for record, _, svm in heads:
            others = [change for other, change, _ in heads if other is not record]
            cosines = [cosine_of(change, svm) for change in others if change is not None]
            if cosines and svm is not None:
                record["growth_cosine_low"] = float(np.min(cosines))
                record["growth_cosine_high"] = float(np.max(cosines))
            records.append(record)
    if not records:
        raise BadTokens("there is no attention head to compare: give at least one pair of Views")
    return Change(*names, config, tuple(records))


@one_thread()
def _compare_head(
    before: View, after: View, config: InspectionConfig
) -> tuple[dict[str, Any], Floats | None, Floats | None]:
    """The record of a head, its ΔW, and the max-margin matrix of its grown tokens."""
    start = time.process_time()
    names = ("ids", "positions")
    same = all(np.array_equal(getattr(before, name), getattr(after, name)) for name in names)
    if not same or before.name != after.name:
        raise BadTokens(
            f"{before.name} before and {after.name} after see different queries: capture both on "
            "the same texts and with the same seed"
        )
    rows = np.flatnonzero(before.valid.sum(axis=1) >= 2)
    if len(rows):
        before, after = before.subset(rows), after.subset(rows)
    sharp = {"before": sharpness_of(before), "after": sharpness_of(after)}
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
        "sharpened": sharp["after"]["sharpness"] - sharp["before"]["sharpness"],
        "growth_rule_name": None,
        "chance": sharp["after"]["chance"],
    }
    for when, found in sharp.items():
        record |= {f"{name}_{when}": found[name] for name in ("sharpness", "saturated")}
    change = svm = None
    if after.space == "features" and before.keys.shape[2:] == after.keys.shape[2:]:
        change, size = after.W - before.W, float(np.linalg.norm(before.W))
        record["change_norm"] = float(np.linalg.norm(change)) / size if size > 0 else np.nan
        for when, view in (("before", before), ("after", after)):
            fit, _, chosen = _fitted(view, view.chosen(), config)
            if len(chosen):
                record[f"cosine_{when}"] = cosine_of(fit.W, svm_fit(fit, chosen).W)
        if len(grown) >= 3:
            svm = _growth(record, after.subset(grown), growth[grown].argmax(axis=1), change, config)
    record["seconds"] = time.process_time() - start
    return record, change, svm


def _fitted(view: View, target: Ints, config: InspectionConfig) -> tuple[View, Ints, Ints]:
    """The View of the queries to fit on that have a choice, those held out, the fitted targets."""
    rows, held = split_rows(len(target), fit=config.fit, test=config.test, seed=config.seed)
    rows = rows[apart(view.subset(rows), target[rows])]
    return view.subset(rows) if len(rows) else view, held, target[rows]


def _growth(
    record: dict[str, Any], view: View, target: Ints, change: Floats, config: InspectionConfig
) -> Floats | None:
    """Fill in how well grown tokens are foretold; the max-margin matrix of the fitted ones."""
    fit, held, chosen = _fitted(view, target, config)
    if not len(chosen) or not len(held):
        return None
    test, target = view.subset(held), target[held]
    svm = svm_fit(fit, chosen).W
    mean = mean_difference(fit, np.eye(fit.valid.shape[1])[chosen])
    rule = rule_for((fit, chosen), (test, target))
    record |= {
        "fitted": len(chosen),
        "tested": len(held),
        "growth_cosine": cosine_of(change, svm),
        "growth_svm": agreement_of(test, svm, target),
        "growth_mean_difference": agreement_of(test, mean, target),
        "growth_change": agreement_of(test, change, target),
        "growth_rule": rule["rule_agreement"],
        "growth_rule_name": rule["rule"],
    }
    return svm
