"""Model and text read again, and heads measured again: every figure beside the one on file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attsvm.errors import Unsupported
from attsvm.ground.progress import Tell, telling
from attsvm.ground.records import finite
from attsvm.lens.audit.possible import halves
from attsvm.lens.audit.row import Check, Row, row_of
from attsvm.lens.audit.within import row_checks
from attsvm.lens.change import check_same, compare_views
from attsvm.lens.inspection import inspect_views
from attsvm.lens.model import TrainedModel, load
from attsvm.lens.passages import read_passages, sample_texts
from attsvm.lens.plan import Plan
from attsvm.lens.scope import Passages, Scope, drawn_count, scope_views, unlike_texts
from attsvm.lens.sources import model_digests, text_digest

Report = Mapping[str, Any]
Head = tuple[int, int]


class Places(NamedTuple):
    """Where model, earlier model and text are now; None: where results.json says."""

    model: str | None = None
    against: str | None = None
    text: str | Path | None = None


def chosen_heads(report: Report, share: float, seed: int) -> list[Head]:
    """A random share of the heads on file, at least one."""
    heads = [(row["layer"], row["head"]) for row in report["heads"]]
    draw = np.random.default_rng(seed)
    rows = draw.choice(len(heads), ceil(share * len(heads)), replace=False)
    return [heads[int(row)] for row in sorted(rows)]


def measured_again(report: Report, heads: Sequence[Head], places: Places) -> list[Row]:
    """What was read, compared by digest; then each of these heads, figure by figure."""
    found = _read_again(report, places)
    rows = [row_of("model and text", found.checks)]
    if not rows[0].agrees:  # heads of another model, or on another text, are others
        return rows
    plan, settings = Plan(**report["plan"]), report["settings"]
    scope = Scope(
        sorted({layer for layer, _ in heads}), settings["heads"], settings["length"], settings["at"]
    )
    passages = unlike_texts(found.model, found.texts, length=scope.length)
    rows += [*_heads_again(report, heads, (found.model, passages, scope, plan))]
    if found.earlier is not None:
        rows += _change_again(report, (found.earlier, found.model), (passages, scope, plan))
    return rows


class _Read(NamedTuple):
    """The models and texts that results.json names, and whether they are the same as then."""

    model: TrainedModel
    earlier: TrainedModel | None
    texts: list[str]
    checks: list[Check]


def _read_again(report: Report, places: Places) -> _Read:
    settings, then = report["settings"], report["sources"]
    if places.against is not None and settings["against"] is None:
        raise Unsupported("nothing was compared with an earlier model: leave out --against")
    names = {"model": places.model or settings["model"]}
    if settings["against"] is not None:
        names["against"] = places.against or settings["against"]
    models = {what: load(name) for what, name in names.items()}
    checks: list[Check] = []
    for what, name in names.items():
        said = then.get(what)
        said = said if isinstance(said, dict) else {}
        for file, digest in model_digests(name).items():
            checks.append(
                (
                    said.get(file) == digest,
                    f"{name} is not the model that was inspected: its {file} has the digest "
                    f"{digest[:12]}…, results.json says {str(said.get(file))[:12]}…",
                )
            )
    model = models["model"]
    passages: str | Path | None = places.text or settings["text"]
    texts = sample_texts(model.texts) if passages is None else read_passages(passages)
    digest = text_digest(texts)
    where = "the shipped sample" if passages is None else str(passages)
    checks.append(
        (
            then.get("text") == digest,
            f"{where} is not the text that was read: its digest is {digest[:12]}…, results.json "
            f"says {str(then.get('text'))[:12]}…",
        )
    )
    about = model.about()
    checks += [
        (report["about"].get(name) == value, f"about.{name} is not the model's, {value}")
        for name, value in about.items()
    ]
    earlier = models.get("against")
    if earlier is not None:
        check_same(earlier, model)
    return _Read(model, earlier, texts, checks)


def _heads_again(
    report: Report, heads: Sequence[Head], read: tuple[TrainedModel, Passages, Scope, Plan]
) -> Iterator[Row]:
    """A Row for each of these heads, measured anew."""
    model, passages, _, plan = read
    saved = {
        (row["layer"], row["head"]): (row, details)
        for row, details in zip(report["heads"], report["details"], strict=True)
    }
    wanted = (view for view in scope_views(*read) if (view.layer, view.head) in set(heads))
    with telling(f"{len(heads)} heads again") as told:
        for done, view in enumerate(wanted):
            tell = None if told is None else _after(told, done, len(heads))
            found = inspect_views([view], name=model.name, plan=plan, progress=tell)
            made = found.as_json()
            row, details = saved[(view.layer, view.head)]
            repeated = passages.repeated + drawn_count(passages, plan) - found.texts
            checks = [
                (report["texts"] == found.texts, f"texts is {report['texts']}, not {found.texts}"),
                (report["repeated"] == repeated, f"repeated is not {repeated}"),
                *row_checks(row, made["heads"][0], of=_queries(row, report["plan"])),
                *_details_checks(details, finite(made["details"][0])),
            ]
            yield row_of(f"layer {view.layer}, head {view.head}", checks)


def _after(told: Tell, done: int, count: int) -> Tell:
    """What one of `count` heads tells, after so many others."""
    return lambda share, said: told((done + share) / count, said)


def _queries(row: Report, plan: Report) -> dict[str, int]:
    """How many queries each share of a row is of."""
    held = halves(row["content_queries"], plan)[1]
    return {
        name: held
        if name.startswith("content_")
        else row["tested" if "agree" in name or name == "lift" else "queries"]
        for name in row
    }


def _details_checks(saved: Report, again: Report) -> Iterator[Check]:
    """Samples, gaps and offsets of a page, each figure as in a row."""
    yield len(saved["samples"]) == len(again["samples"]), "there are other samples on file"
    for k, (one, other) in enumerate(zip(saved["samples"], again["samples"], strict=False)):
        for fine, said in row_checks(one, other, of={}):
            yield fine, f"sample {k}: {said}"
    # In a row these names mean something else.
    names = {"head": "head_gaps", "svm": "svm_gaps", "chosen": "chosen_share"}
    of = {"chosen_share": min(again["offsets"]["queries"], default=0)}
    for part in ("gaps", "offsets"):
        one, other = (
            {names.get(k, k): v for k, v in held[part].items()} for held in (saved, again)
        )
        yield set(one) == set(other), f"{part} has other entries on file"
        for fine, said in row_checks(one, other, of=of):
            yield fine, f"{part}: {said}"


def _change_again(
    report: Report,
    models: tuple[TrainedModel, TrainedModel],
    read: tuple[Passages, Scope, Plan],
) -> Iterator[Row]:
    """A Row for what changed in each layer: its heads are measured beside each other."""
    saved = {(row["layer"], row["head"]): row for row in report["change"]["heads"]}
    names = (models[0].name, models[1].name)
    views = [scope_views(model, *read) for model in models]
    for layer, pairs in groupby(zip(*views, strict=True), key=lambda pair: pair[0].layer):
        made = compare_views(pairs, names=names, plan=read[2]).as_json()
        checks: list[Check] = [
            (report["change"].get("before") == names[0], f"change is not against {names[0]}")
        ]
        for again in made["heads"]:
            row = saved[(again["layer"], again["head"])]
            of = {name: row["tested" if "growth" in name else "queries"] for name in row}
            who = f"head {again['head']}: "
            checks += [(fine, who + said) for fine, said in row_checks(row, again, of=of)]
        yield row_of(f"layer {layer}, what changed", checks)
