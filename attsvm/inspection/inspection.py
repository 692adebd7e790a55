"""inspect(): what every head of a model selects, beside nulls, and what can be guaranteed of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import finite
from attsvm._utils.progress import Progress, bar
from attsvm._utils.result import Summary, Table
from attsvm.errors import BadTokens
from attsvm.inspection.measure.correlation import rank_correlation
from attsvm.inspection.measure.kinds import THRESHOLDS
from attsvm.inspection.model import TrainedModel, load
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.record import FIELDS, measure
from attsvm.inspection.scope import Scope, count_draws, scope_views, unlike_texts
from attsvm.inspection.view import View


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Table):
    """The records of heads, one row each; `attsvm.inspection.FIELDS` says what every column is.

    model: its name; plan: what was spent on each head; records: the rows; details: for each head,
    in the same order, what its page shows (see `attsvm.inspection.details`); rotary: heads have no
    single W, and the columns that need one are nan. texts: how many gave a query; repeated: how
    many were left out, as their tokens are those of another one.

    >>> from attsvm.inspection import untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> found = inspect(untrained_model(), texts, layers=[0], plan=InspectionConfig.quick())
    >>> len(found.records), sum(found.counts().values())
    (2, 2)
    """

    model: str
    plan: InspectionConfig
    records: tuple[dict[str, Any], ...]
    details: tuple[dict[str, Any], ...]
    rotary: bool
    texts: int
    repeated: int = 0

    def columns(self) -> dict[str, Any]:
        """A column per field of `attsvm.inspection.FIELDS`: arrays of numbers, lists of words."""
        return {name: _column([record[name] for record in self.records]) for name in FIELDS}

    def counts(self, field: str = "kind") -> dict[str, int]:
        """How many heads there are of each kind; `content_kind`: once special keys are removed."""
        words = [record[field] for record in self.records]
        return {kind: words.count(kind) for kind in ("sink", "positional", "content", "diffuse")}

    def correlation(self, one: str = "sharpness", other: str = "cosine") -> float:
        """The rank correlation of two columns over heads."""
        columns = self.columns()
        return rank_correlation(columns[one], columns[other])

    def sentence(self, row: int) -> str:
        """What is said of the economy of one head, with the number of queries it holds for."""
        one = self.records[row]
        who = f"layer {one['layer']}, attention head {one['head']}"
        if not np.isfinite(one["economy"]):
            why = "it has no single W" if self.rotary else "no query has a clear choice"
            return f"{who}: nothing is said of its norm, as {why}."
        said = (
            f"{who}: {one['economy']:.0%} of the norm of this attention head would suffice for its "
            f"choices on these {one['economy_queries']:,} queries"
        )
        if not np.isfinite(one["economy_rotated"]):
            return f"{said}."
        return (
            f"{said}; for matrices with the same spectrum and subspaces "
            f"{one['economy_rotated']:.0%}, with the same spectrum alone "
            f"{one['economy_spectrum']:.0%}."
        )

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers, words and lists; None for what is not known."""
        plain: dict[str, Any] = finite(
            {
                "model": self.model,
                "plan": vars(self.plan),
                "rotary": self.rotary,
                "texts": self.texts,
                "repeated": self.repeated,
                "fields": FIELDS,
                "thresholds": THRESHOLDS,
                "heads": list(self.records),
                "details": list(self.details),
                "kinds": self.counts(),
                "content_kinds": self.counts("content_kind"),
            }
        )
        return plain

    def _card(self) -> Summary:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        shown = ("layer", "head", "kind", "sharpness", "rule_agreement", "svm_agreement", "economy")
        table = {name: [record[name] for record in self.records] for name in shown}
        facts = {
            "special keys removed": ", ".join(
                f"{count} {kind}" for kind, count in self.counts("content_kind").items()
            ),
            "attacks on guarantees": sum(record["attacks"] for record in self.records),
            "violations": sum(record["violations"] for record in self.records),
        }
        said = f"{self.model}, {len(self.records)} attention heads: {kinds}"
        return Summary("Inspection", said, facts, table)


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, str | bool) or value is None for value in values):
        return values
    return np.array(values)


def inspect(
    model: str | Path | TrainedModel,
    texts: Sequence[str] | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    plan: InspectionConfig | None = None,
    length: int | None = 32,
    at: int | None = None,
) -> Inspection:
    """The Inspection of a model's heads on texts, one query from each.

    model: as `attsvm.inspection.load` gives it, or what that takes: a folder, a name. texts: the
    shipped sample for this kind of model without them. layers, heads: numbers from 0; all without
    them. plan: what is spent on each head; `InspectionConfig.quick()` spends less. length: tokens
    that a text is cut to. at: where the queries stand (0: the first token); drawn at random without
    it. All texts are used where they are fewer than the plan asks for. Texts that are equal once
    they are cut count once, and `repeated` says how many were left out: none is fitted on and held
    out as well.

    Nothing is said of a head without its nulls: read `economy` beside `economy_rotated` and
    `economy_spectrum`, and `svm_agreement` beside `rule_agreement`.

    >>> from attsvm.inspection import untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> found = inspect(
    ...     untrained_model(), texts, layers=[1], heads=[0], plan=InspectionConfig.quick()
    ... )
    >>> [int(found.records[0][name]) for name in ("layer", "head", "queries")]
    [1, 0, 6]
    """
    plan = plan or InspectionConfig()
    known = model if isinstance(model, TrainedModel) else load(model)
    passages = unlike_texts(known, texts, length=length)
    scope = Scope(layers, heads, length, at)
    views = scope_views(known, passages, scope, plan)
    count = scope.count(known)
    with bar(f"{count} attention heads", late=True) as show:
        tell = None if show is None else lambda done, said: show(done / count, said)
        found = inspect_views(views, name=known.name, plan=plan, progress=tell)
    left = count_draws(passages, plan) - found.texts
    return replace(found, repeated=passages.repeated + left)


def inspect_views(
    views: Iterable[View],
    *,
    name: str = "views",
    plan: InspectionConfig | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """The Inspection of heads given as Views: of `attsvm.inspection.capture`, or custom ones.

    progress: called with how many heads are done, parts of one included, and what comes next.

    >>> from attsvm.inspection import capture, untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> view = capture(untrained_model(), texts, layer=0, head=1)
    >>> len(inspect_views([view], plan=InspectionConfig.quick()).records)
    1
    """
    plan = plan or InspectionConfig()
    records: list[dict[str, Any]] = []
    details, rotary, texts = [], False, 0
    for view in views:
        tell = None if progress is None else _at_head(progress, len(records), view)
        record, shown = measure(view, plan, tell=tell)
        records.append(record)
        details.append(shown)
        rotary = rotary or view.turns is not None
        texts = max(texts, len(view.queries))
    if not records:
        raise BadTokens("there is no attention head to inspect: give at least one View")
    return Inspection(name, plan, tuple(records), tuple(details), rotary, texts)


def _at_head(progress: Progress, done: int, view: View) -> Progress:
    """What a head in work tells, after so many others."""
    who = f"layer {view.layer}, attention head {view.head}"
    return lambda share, said: progress(done + share, f"{who}, {said}")
