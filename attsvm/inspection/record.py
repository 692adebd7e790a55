"""The record of a head: every measure and guarantee in one flat dict of plain numbers and words.

`FIELDS` says what each one is. nan stands for what is not known: fits, kinds and norm ratios need
NEEDED queries, and eight-bit weights are of heads whose logits are linear in the features.
"""

from __future__ import annotations

import time
import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.memory import require
from attsvm._utils.parallel import one_thread
from attsvm.errors import TooLarge
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.guarantees import Guaranteed, guarantees
from attsvm.inspection.measures import (
    NEEDED,
    NULLS,
    HeldOutAgreement,
    decompose,
    held_out,
    kind_of,
    logits_by,
    norm_ratio_of,
    null_ratios,
    sharpness_of,
    split,
)
from attsvm.inspection.view import View, choosing, margins_of

# How often the fitted keys, or matrices of the size of W, are held at once.
_TIMES = 6
# Queries that are shown with their text.
SAMPLES = 6


def fields(name: str) -> dict[str, str]:
    """What the columns of a table in fields.toml are."""
    text = files("attsvm.inspection").joinpath("fields.toml").read_text("utf-8")
    found: dict[str, str] = tomllib.loads(text)[name]
    return found


_AGREEMENT = fields("agreement")
# What each field of a record is.
FIELDS: dict[str, str] = {
    **fields("head"),
    **_AGREEMENT,
    **fields("selection"),
    **{f"content_{name}": f"special keys removed: {what}" for name, what in _AGREEMENT.items()},
    **fields("norm"),
    **fields("guarantees"),
}


@one_thread()
def measure(
    view: View,
    config: InspectionConfig | None = None,
    *,
    cache: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Every field of FIELDS for a head; what its page shows, samples and gaps; its queries.

    cache: the fields on the cache of keys. Raises BadTokens where no query has two keys.
    """
    config = config or InspectionConfig()
    start = time.process_time()
    view = choosing(view)
    _check_memory(view)
    found: dict[str, Any] = dict.fromkeys(FIELDS, np.nan)
    found |= dict.fromkeys(name for name in FIELDS if name.endswith(("rule", "place", "kind")))
    found |= {
        "name": view.name,
        "layer": view.layer,
        "head": view.head,
        "space": view.space,
        "separable": None,
        "content_separable": None,
        "queries": len(view.queries),
        "keys": float(view.valid.sum(axis=1).mean()),
        **sharpness_of(view),
    }
    certain = guarantees(view, config)
    found |= certain.fields | {
        name: value + certain.fields.get(name, 0) for name, value in (cache or {}).items()
    }
    gaps: dict[str, Any] = {}
    if len(view.queries) >= NEEDED:
        fit, test = split(view, fit=config.fit, test=config.test, seed=config.seed)
        agreed = held_out(fit, test, seed=config.seed, cross=config.cross)
        content, without = _content_fields(view, config)
        found |= _agreement_fields(agreed) | content | _norm_fields(fit, config)
        found |= {"kind": kind_of(agreed, without), "ease": agreed.ease}
        found |= {"fitted": len(fit.queries), "tested": len(test.queries)}
        gaps = _sorted_gaps(agreed)
    queries = query_columns(view, certain)
    details = {"name": view.name, "samples": _samples(view, certain), "gaps": gaps}
    found["seconds"] = time.process_time() - start
    return found, details, queries


def _check_memory(view: View) -> None:
    """Raises TooLarge unless the keys fit, in double precision and a few times over."""
    what = f"measuring an attention head on queries over keys of shape {view.keys.shape}"
    need = _TIMES * 8.0 * (view.keys.size + view.keys.shape[2] * view.queries.shape[1])
    require(need, what, use="fewer queries or shorter texts")


def _agreement_fields(agreed: HeldOutAgreement, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: getattr(agreed, name) for name in _AGREEMENT}


def _content_fields(
    view: View, config: InspectionConfig
) -> tuple[dict[str, Any], HeldOutAgreement | None]:
    """The fields with special keys removed; no agreement where too few keys are left."""
    rows = np.flatnonzero((view.valid & ~view.special).sum(axis=1) >= 2)
    if len(rows) < NEEDED:
        return {"content_queries": len(rows)}, None
    content = view.subset(rows)
    content = replace(content, valid=content.valid & ~content.special)
    parts = split(content, fit=config.fit, test=config.test, seed=config.seed)
    agreed = held_out(*parts, seed=config.seed, cross=config.cross, eased=False)
    sharpness = sharpness_of(content)["sharpness"]
    fields = {"content_queries": len(rows), "content_sharpness": sharpness}
    return fields | _agreement_fields(agreed, "content_"), agreed


def _norm_fields(view: View, config: InspectionConfig) -> dict[str, Any]:
    """The norm ratio, certified, beside that of both nulls."""
    S = decompose(view)[1]
    own = norm_ratio_of(view)
    found = {
        "norm": float(np.sqrt((S**2).sum())),
        "nuclear_norm": float(S.sum()),
        "norm_ratio": own.upper,
        "norm_ratio_lower": own.lower,
        "norm_ratio_seen": own.seen,
        "norm_ratio_queries": own.queries,
    }
    for name, values in null_ratios(view, draws=config.draws, seed=config.seed).items():
        for end, share in (("_low", 0.0), ("", 0.5), ("_high", 1.0)):
            found[f"norm_ratio_{name}{end}"] = _quantile(values, share)
    if config.nuclear_draws < 0:
        return found
    try:
        own = norm_ratio_of(view, "nuclear")
        draws = null_ratios(view, "nuclear", draws=config.nuclear_draws, seed=config.seed)
    except TooLarge:  # only the Frobenius norm is reported
        return found
    found |= {"nuclear_norm_ratio": own.upper, "nuclear_norm_ratio_lower": own.lower}
    return found | {f"nuclear_norm_ratio_{name}": _quantile(draws[name], 0.5) for name in NULLS}


def _quantile(values: Floats, share: float) -> float:
    """The quantile of the values that are known; nan without any."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else np.nan


def _samples(view: View, found: Guaranteed) -> list[dict[str, Any]]:
    """For each of the first queries, its text as the head sees it and what is guaranteed."""
    out = []
    for i, tokens in enumerate(view.texts[:SAMPLES]):
        one = {name: values[i].item() for name, values in found.queries.items()}
        one["evictable"] = sorted(found.order[i, : one["evictable"]].tolist())
        one |= {"tokens": list(tokens), "position": int(view.positions[i])}
        one["attention"] = view.attention()[i, : len(tokens)].tolist()
        one["valid"] = view.valid[i, : len(tokens)].tolist()
        out.append(one)
    return out


def query_columns(view: View, found: Guaranteed) -> dict[str, Any]:
    """A row per query: where it stands, what it chooses, and what is certified of that."""
    rows, chosen = np.arange(len(view.queries)), found.queries["chosen"]
    query, key = (
        [text[t] for text, t in zip(view.texts, places, strict=True)]
        for places in (view.positions, chosen)
    )
    return {
        "position": view.positions,
        "query": query,
        "key": key,
        "attention": view.attention()[rows, chosen],
        "keys": view.valid.sum(axis=1),
        **found.queries,
    }


def _sorted_gaps(agreed: HeldOutAgreement) -> dict[str, Any]:
    """The top-two gaps of W/‖W‖ on the fitted queries, sorted, and those of the SVM at norm 1.

    best: the certified bounds of the largest least gap that any matrix of norm 1 has on them.
    """
    if agreed.learned is None:
        return {}
    fit, found = agreed.learned
    chosen = fit.chosen()
    size, length = float(np.linalg.norm(fit.W)), float(np.linalg.norm(found.W))
    if not size > 0 or not length > 0:
        return {}
    logits, at = logits_by(fit, found.W), np.arange(len(chosen))
    rival = logits.copy()
    rival[at, chosen] = -np.inf
    best = found.certificate
    return {
        "head": [float(g) for g in np.sort(margins_of(fit).gap) / size],
        "svm": [float(g) for g in np.sort(logits[at, chosen] - rival.max(axis=1)) / length],
        "best": None if found.soft or not best.lower > 0 else [1 / best.upper, 1 / best.lower],
        "queries": len(chosen),
    }
