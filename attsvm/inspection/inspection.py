"""inspect(): what every head of a model selects, beside nulls, and what can be guaranteed of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.expected import expect, file_path
from attsvm._utils.files import finite
from attsvm._utils.progress import bar
from attsvm._utils.result import Result, Summary, Table
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.capturing import LayerStates, Run
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.guarantees import cache_of, guarantees
from attsvm.inspection.measures import FIELDS, NEEDED, THRESHOLDS, measure, query_columns
from attsvm.inspection.models import TrainedModel, load
from attsvm.inspection.texts import first_of_each
from attsvm.inspection.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Pattern(Table):
    """The attention of a head on a text of L tokens, a row per query.

    view: the head with every token as a query. table: by column the query, the selected key
    (`chosen`, `key`) and its attention; gap: its logit less the next one, inf where there is one
    key; key_radius, query_radius: the choice is certified to stay while every key, or the query,
    moves by less than this, over its size (0: two top logits cannot be separated); evictable: how
    many keys may be dropped together at 1 % error of the head's output.
    """

    view: View
    table: dict[str, Any]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens (L,)."""
        return self.view.texts[0]

    @property
    def attention(self) -> Floats:
        """The attention (L, L), a row per query."""
        return self.view.attention()

    @property
    def selected(self) -> Ints:
        """The key (L,) with the most attention of each query."""
        return self.view.chosen()

    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return self.table

    def plot(self, *, style: str = "screen") -> Figure:
        """Attention as shades, with a mark on each selected key."""
        from attsvm.plotting.networks import pattern_figure

        return pattern_figure(self, look=style)

    def _card(self) -> Summary:
        shown = ("query", "key", "attention", "gap", "key_radius", "query_radius")
        table = {name: self.table[name] for name in shown}
        said = f"{self.view.name} on {len(self.tokens)} tokens, margins in {self.view.space} space"
        return Summary("Pattern", said.replace("features", "feature"), {}, table)


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
    certain = guarantees(view, InspectionConfig(attacks=0))
    return Pattern(view, query_columns(view, certain))


KINDS = ("sink", "positional", "content", "diffuse")
# Tokens that a text is cut to.
LENGTH = 32


@dataclass(frozen=True, eq=False, repr=False)
class InspectedHead(Result):
    """One head of an Inspection.

    record: its row; details: what its page shows: sample texts, gaps.
    """

    record: dict[str, Any]
    details: dict[str, Any]
    columns: dict[str, Any]
    known: TrainedModel | None = None

    @property
    def name(self) -> str:
        """Its name, such as L3H5."""
        return str(self.record["name"])

    @property
    def queries(self) -> Any:
        """A row per query (pandas): what it chooses, the margin, and what is certified."""
        import pandas

        return pandas.DataFrame(self.columns)

    def sentence(self) -> str:
        """What is said of its norm, with the number of queries it holds for."""
        one = self.record
        if one["kind"] is None:
            return (
                f"{self.name}: its kind and its norm ratio are not known (queries: "
                f"{one['queries']}): a fit needs at least {NEEDED} queries."
            )
        if not np.isfinite(one["norm_ratio"]):
            return f"{self.name}: nothing is said of its norm, as no query has a clear choice."
        space = ", posed in head space" if one["space"] == "head" else ""
        said = (
            f"{self.name}: {one['norm_ratio']:.0%} of the norm of this attention head would "
            f"suffice for its choices on these {one['norm_ratio_queries']:,} queries{space}"
        )
        if not np.isfinite(one["norm_ratio_rotated"]):
            return f"{said}."
        return (
            f"{said}; for matrices with the same spectrum and subspaces "
            f"{one['norm_ratio_rotated']:.0%}, with the same spectrum alone "
            f"{one['norm_ratio_spectrum']:.0%}."
        )

    def pattern(self, text: Any) -> Pattern:
        """Its attention on one text, as `attsvm.inspection.pattern` gives it."""
        if self.known is None:
            raise Unsupported(f"{self.name} was inspected as a View: its model is not known")
        return pattern(self.known, text, head=self.name)

    def plot(self, *, style: str = "screen") -> Figure:
        """Its top-two gaps, sorted, beside those of the max-margin matrix."""
        from attsvm.plotting.networks import gaps_figure

        if not self.details["gaps"]:
            raise Unsupported(f"{self.name} has no gaps to draw: {self.sentence()}")
        return gaps_figure(self.details["gaps"], self.name, look=style)

    def _card(self) -> Summary:
        shown = ("sharpness", "rule", "rule_agreement", "svm_agreement", "evictable", "key_radius")
        facts = {name.replace("_", " "): self.record[name] for name in shown}
        kind = self.record["kind"] or f"kind needs at least {NEEDED} queries"
        return Summary("InspectedHead", f"{self.name}: {kind}", facts, note=self.sentence())


class HeadTable(Table):
    """Records of heads, a row each; `fields` says what every column is."""

    fields: ClassVar[dict[str, str]]
    records: Sequence[dict[str, Any]]

    def columns(self) -> dict[str, Any]:
        """A column per field: arrays of numbers, lists of words."""
        rows = {name: [record[name] for record in self.records] for name in self.fields}
        words = (str, bool, type(None))
        return {
            name: own if any(isinstance(x, words) for x in own) else np.array(own)
            for name, own in rows.items()
        }

    def to_frame(self) -> Any:
        """A row per head (pandas), by its name."""
        return super().to_frame().set_index("name")


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(HeadTable):
    """Heads, one row each; `attsvm.inspection.FIELDS` says what every column is.

    model: its name; config: what was spent on each head; heads: in order. texts: how many gave a
    query; repeated: how many were left out, as their tokens are those of another one. about: the
    family and the sizes of the model; seconds: as measured.

    >>> import torch, transformers
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    >>> config = transformers.BertConfig(vocab_size=30, num_hidden_layers=1, **sizes)
    >>> found = inspect(transformers.BertModel(config), torch.arange(24).reshape(6, 4))
    >>> found.head("L0H1").record["queries"], found.counts()["sink"]
    (6, 0)
    """

    fields: ClassVar[dict[str, str]] = FIELDS
    model: str
    config: InspectionConfig
    heads: tuple[InspectedHead, ...]
    repeated: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    seconds: float = np.nan

    @property
    def records(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The rows."""
        return [head.record for head in self.heads]

    @property
    def texts(self) -> int:
        """How many texts gave a query."""
        return max(int(record["queries"]) for record in self.records)

    def head(self, name: str) -> InspectedHead:
        """The head of this name."""
        named = {head.name: head for head in self.heads}
        layer, dot, head = str(name).upper().partition(".")
        found = named.get(f"L{layer}H{head}" if dot else layer)
        if found is None:
            raise Unsupported(
                f"{name} was not inspected: heads run from {self.heads[0].name} to "
                f"{self.heads[-1].name}"
            )
        return found

    def counts(self, field: str = "kind") -> dict[str, int]:
        """How many heads there are of each kind; `content_kind`: once special keys are removed."""
        words = [record[field] for record in self.records]
        return {kind: words.count(kind) for kind in KINDS}

    def plot(self, *, style: str = "screen") -> Figure:
        """Sharpness against norm ratio of every head, beside its nulls."""
        from attsvm.plotting.networks import norm_ratio_figure

        if not any(self.counts().values()):
            raise Unsupported(f"norm ratios are not known: a fit needs at least {NEEDED} queries")
        return norm_ratio_figure(self.records, look=style)

    def save(self, folder: str | Path) -> Path:
        """Write results.json and report.html, the page, to a folder; the file of the page."""
        from attsvm.inspection.page import write_folder

        return write_folder(file_path(folder, "folder"), self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Everything as plain numbers, words and lists; None for what is not known.

        quick: fewer queries were fitted than by default.
        """
        fitted = [one["fitted"] for one in self.records if one["kind"]] or [self.config.fit]
        found = {
            "status": "done",
            "model": self.model,
            "about": self.about,
            "seconds": self.seconds,
            "config": vars(self.config),
            "quick": min(fitted) < InspectionConfig.fit,
            "needed": NEEDED,
            "texts": self.texts,
            "repeated": self.repeated,
            "fields": FIELDS,
            "thresholds": THRESHOLDS,
            "heads": self.records,
            "details": [head.details for head in self.heads],
            "kinds": self.counts(),
            "content_kinds": self.counts("content_kind"),
        }
        plain: dict[str, Any] = finite(found)
        return plain

    def _card(self) -> Summary:
        shown = ("name", "kind", "sharpness", "rule_agreement", "svm_agreement", "norm_ratio")
        kinds, rest = (
            ", ".join(f"{count} {kind}" for kind, count in self.counts(field).items())
            for field in ("kind", "content_kind")
        )
        if not any(self.counts().values()):
            kinds = f"a fit needs at least {NEEDED} queries"
        facts = {
            "special keys removed": rest,
            "attacks on guarantees": sum(record["attacks"] for record in self.records),
            "violations": sum(record["violations"] for record in self.records),
        }
        table = {name: [record[name] for record in self.records] for name in shown}
        said = f"{self.model}, {len(self.heads)} attention heads: {kinds}"
        return Summary("Inspection", said, facts, table)


def inspect(
    model: Any,
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
) -> Inspection:
    """The Inspection of a model's heads on texts, one query from each.

    Parameters
    ----------
    model: a transformers model in memory, a folder made by `save_pretrained`, or a known name
        (minilm, rxnfp-pretrained, rxnfp, rxnfp-10k, rxnmapper).
    texts: a list of strings, a file as `read_passages` takes it, rows of token ids, or images as
        one tensor; the shipped sample for this kind of model without them.
    tokenizer: of the model; that of the folder without it. Not needed for tensors.
    heads: names such as "L3H5,L5"; all without them.
    queries: how many are fitted on (200, or 60 with quick); twice as many are held out. All texts
        are used where there are fewer.
    quick: fewer queries and nulls, the Frobenius norm only.
    length: tokens that a text is cut to. at: where the queries stand (0: the first token); drawn at
        random without it. seed: of every draw. config: everything that is spent, in one object.

    Texts that are equal once they are cut count once, and `repeated` says how many were left out:
    none is fitted on and held out as well. Nothing is said of a head without its nulls: read
    `norm_ratio` beside `norm_ratio_rotated` and `norm_ratio_spectrum`, and `svm_agreement` beside
    `rule_agreement`.

    >>> import torch, transformers
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    >>> config = transformers.BertConfig(vocab_size=30, num_hidden_layers=2, **sizes)
    >>> model = transformers.BertModel(config)  # any model of transformers
    >>> found = inspect(model, torch.arange(24).reshape(6, 4), heads="L1H0", quick=True)
    >>> found.to_frame()[["queries", "keys"]]
          queries  keys
    name
    L1H0        6   4.0
    """
    if config is None:
        config = InspectionConfig.of(queries=queries, quick=quick, seed=seed)
    expect(config, InspectionConfig, "config")
    known = load(model, tokenizer)
    views = HeadViews(known, texts, heads=heads, length=length, at=at, config=config)
    found: list[InspectedHead] = []
    start = time.perf_counter()
    with bar(f"{len(views.wanted)} attention heads", late=True) as show:
        for view, cache in views:
            found.append(InspectedHead(*measure(view, config, cache=cache), known))
            if show is not None:
                show(len(found) / len(views.wanted), view.name)
    seconds = time.perf_counter() - start
    done = Inspection(known.name, config, tuple(found), about=known.about, seconds=seconds)
    return replace(done, repeated=views.repeated + views.count - done.texts)


def inspect_views(
    views: Iterable[View], *, name: str = "views", config: InspectionConfig | None = None
) -> Inspection:
    """The Inspection of heads given as Views: of `capture`, of `attsvm.torch`, or custom ones.

    >>> from attsvm.inspection import View
    >>> keys, rows = np.tile(np.eye(3), (4, 1, 1)), np.ones((4, 3), dtype=bool)
    >>> factors = {"key_factor": np.eye(3), "query_factor": np.eye(3), "values": keys}
    >>> places = {"valid": rows, "special": ~rows, "ids": rows * 1, "positions": np.arange(4) % 3}
    >>> own = {"keys": keys, "queries": keys[0][[0, 1, 2, 0]], "texts": (("a", "b", "c"),) * 4}
    >>> found = inspect_views([View(layer=0, head=1, **own, **factors, **places)])
    >>> found.records[0]["name"], found.records[0]["violations"]
    ('L0H1', 0)
    """
    config = expect(InspectionConfig() if config is None else config, InspectionConfig, "config")
    found = tuple(InspectedHead(*measure(view, config)) for view in views)
    if not found:
        raise BadTokens("there is no attention head to inspect: give at least one View")
    return Inspection(name, config, found)


class HeadViews:
    """The Views of heads of a model, each with what is known of its cache of keys.

    Texts that are equal once they are cut are left out, `repeated` of them; `count` queries are
    drawn.
    """

    def __init__(
        self,
        known: TrainedModel,
        texts: Any,
        *,
        heads: str | Sequence[str] | None,
        length: int | None,
        at: int | None,
        config: InspectionConfig,
    ) -> None:
        length = min(LENGTH, known.longest or LENGTH) if length == LENGTH else length
        self.run = Run(known, texts, length=length)
        self.config, self.at = config, at
        self.wanted = self.run.wanted(heads)
        inputs = self.run.inputs
        own = inputs.ids if inputs.images is None else inputs.images.cpu().numpy()
        kept = first_of_each(own, inputs.valid if inputs.images is None else own == own)
        self.repeated = len(inputs) - len(kept)
        self.run.inputs = inputs.subset(kept)
        self.count = min(config.fit + config.test, len(kept))

    def __iter__(self) -> Iterator[tuple[View, dict[str, Any] | None]]:
        run, config = self.run, self.config
        rows, positions = run.draw(self.count, config.seed, self.at)
        n = len(rows)
        rows, positions, first = self._with_cache(rows, positions)
        for states in run.states(sorted({layer for layer, _ in self.wanted}), rows, positions):
            heads = [head for layer, head in self.wanted if layer == states.number]
            kept = self._cache(states, heads, n, first)
            for view in states.subset(np.arange(n)).views(heads):
                if run.causal and run.inputs.images is None:
                    # Queries that see the same tokens as an earlier one are left out.
                    view = view.subset(first_of_each(view.ids, view.valid))
                yield view, kept.get(view.head)

    def _with_cache(self, rows: Any, positions: Any) -> tuple[Any, Any, Any]:
        """The queries and after them those in the second half of some texts; the key from which
        each of these texts has later queries."""
        lengths = self.run.inputs.lengths[rows]
        long = [int(i) for i in np.flatnonzero(lengths >= 4)[: self.config.cache]]
        if not self.run.causal or not long:
            return rows, positions, np.zeros(0, dtype=np.int64)
        later = [np.arange(lengths[i] // 2, lengths[i]) for i in long]
        sizes = [len(own) for own in later]
        more, first = np.repeat(rows[long], sizes), np.repeat(lengths[long] // 2, sizes)
        return np.concatenate([rows, more]), np.concatenate([positions, *later]), first

    def _cache(
        self, states: LayerStates, heads: list[int], n: int, first: Any
    ) -> dict[int, dict[str, Any]]:
        """What a cache of keys can drop, by head; nothing where no query comes later."""
        if not len(first):
            return {}
        later = states.subset(np.arange(n, n + len(first)))
        found: dict[int, dict[str, Any]] = {}
        times = states.layer.heads // states.layer.groups
        for group in sorted({head // times for head in heads}):
            members = range(group * times, (group + 1) * times)
            fields = cache_of(list(later.views(members)), later.rows, first, self.config)
            found |= dict(zip(members, fields, strict=True))
        return found
