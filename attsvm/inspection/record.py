"""The record of a head: every measure and guarantee in one flat dict of plain numbers and words.

`FIELDS` says what each one is. nan stands for what is not known: fits, kinds and norm ratios need
NEEDED queries, and eight-bit weights are of heads whose logits are linear in the features.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.memory import require
from attsvm._utils.parallel import one_thread
from attsvm.errors import TooLarge
from attsvm.inspection.agreement import (
    NEEDED,
    HeldOutAgreement,
    held_out,
    kind_of,
    sharpness_of,
    split,
)
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.fits import logits_by
from attsvm.inspection.guarantees import Guaranteed, guarantees
from attsvm.inspection.margins import choosing, margins_of
from attsvm.inspection.norm_ratio import NULLS, decompose, norm_ratio_of, null_ratios
from attsvm.inspection.view import View

# How often the fitted keys, or matrices of the size of W, are held at once.
_TIMES = 6
# Queries that are shown with their text.
SAMPLES = 6

_AGREEMENT = {
    "rule": "the one-line rule that most fitted queries follow",
    "rule_place": "what that rule names: a sink or a place (positional)",
    "rule_agreement": "the share of held-out choices that follow it",
    "mean_query_agreement": "that agree with the choice for the mean of the queries",
    "svm_agreement": "that agree with the max-margin matrix of the fitted choices",
    "mean_difference_agreement": "that agree with the mean difference of chosen and other keys",
    "cross_entropy_agreement": "that agree with a cross-entropy fit to the choices",
    "soft_cross_entropy_agreement": "that agree with one to the whole attention: a ceiling",
    "lift": "svm_agreement less rule_agreement",
    "separable": "whether some W makes all fitted choices (says little: most labels are separable)",
    "cosine": "between W and the max-margin matrix of the fitted choices",
    "kind": "sink, positional, content or diffuse",
}

_NULLS = {"spectrum": "spectrum", "rotated": "spectrum and subspaces"}

# What each field of a record is.
FIELDS: dict[str, str] = {
    "name": "the attention head: L3H5 is head 5 of layer 3, both from 0",
    "layer": "the layer, from 0",
    "head": "the attention head, from 0",
    "space": "where the max-margin problem is posed: features of the layer's input, or the queries "
    "and keys of the head itself, after rotary positions (head)",
    "queries": "queries with at least two keys",
    "fitted": "of these, fitted on",
    "tested": "of these, held out",
    "keys": "keys per query, on average",
    "norm": "the Frobenius norm of W",
    "nuclear_norm": "the nuclear norm of W",
    "sharpness": "the mean of the largest attention of a query",
    "saturated": "the share of queries with a key above 0.9 of the attention",
    "special_attention": "the mean attention on special tokens",
    "chance": "the mean of 1 / number of keys",
    **_AGREEMENT,
    "ease": "the best margin of the choices over that of permuted ones, at least (inf: no matrix "
    "makes the permuted choices)",
    "content_queries": "queries with at least two keys that are not special tokens",
    "content_sharpness": "the sharpness when special keys are removed",
    **{f"content_{name}": f"special keys removed: {what}" for name, what in _AGREEMENT.items()},
    "norm_ratio": "the share of the Frobenius norm of W that suffices for its gaps on the fitted "
    "queries, certified from above",
    "norm_ratio_lower": "the same, certified from below",
    "norm_ratio_seen": "the same over the norm of the part of W that the queries see: an estimate",
    "norm_ratio_queries": "the queries it is for (it rises with them)",
    **{
        f"norm_ratio_{null}{end}": f"{what} norm ratio of matrices with the same {same}"
        for null, same in _NULLS.items()
        for end, what in (("_low", "the least"), ("", "the median"), ("_high", "the largest"))
    },
    "nuclear_norm_ratio": "the norm ratio in the nuclear norm",
    "nuclear_norm_ratio_lower": "the same, certified from below",
    "nuclear_norm_ratio_spectrum": "the median of the nulls with random subspaces",
    "nuclear_norm_ratio_rotated": "the median of the rotated nulls",
    "tied": "queries whose two top logits cannot be separated: nothing is guaranteed of them",
    "evictable": "the mean share of keys that may be dropped, all of them together, at 1 % error "
    "of the attention head's output, by the attention row (of some of them alone nothing is said)",
    "evictable_margins": "the same, certified by margins alone; then any part of them may be, too",
    "evictable_queries": "the share of queries that may drop a set of keys",
    "layer_error": "how far the layer's output moves at most when the evictable keys of this head "
    "go, over its length: the largest over queries",
    "cache_evictable": "causal models: the share of the keys in the first half of a text that no "
    "later query needs at 1 % error, for all heads that share these keys together",
    "cache_layer_error": "how far the layer's output moves at most, over its length, when this "
    "head goes without these",
    "cache_texts": "the texts this is the mean of",
    "key_radius": "the median of how far all keys may move, over the size of keys",
    "key_radius_share": "the share of queries where that is above 0.01",
    "query_radius": "the median of how far the query may move, over its size",
    "query_radius_share": "the share of queries where that is above 0.01",
    "int8_safe": "the share of queries whose choice eight-bit weights are certified to keep",
    "int8_same": "the share whose choice they do keep",
    "attacks": "attacks on these guarantees",
    "violations": "attacks that succeeded: must be 0",
    "seconds": "processor seconds spent on this attention head",
}


class Measured(NamedTuple):
    """A head's record, what its page shows of it, and a table of its queries by column."""

    record: dict[str, Any]
    details: dict[str, Any]
    queries: dict[str, Any]


@one_thread()
def measure(
    view: View,
    config: InspectionConfig | None = None,
    *,
    cache: dict[str, Any] | None = None,
) -> Measured:
    """Every field of FIELDS for a head, sample texts, its gaps, and its queries.

    cache: the fields on the cache of keys. Raises BadTokens where no query has two keys.
    """
    config = config or InspectionConfig()
    start = time.process_time()
    view = choosing(view)
    _check_memory(view, config)
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
    details = {"name": view.name, "samples": _samples(view, certain), "gaps": gaps}
    found["seconds"] = time.process_time() - start
    return Measured(found, details, _query_columns(view, certain))


def _check_memory(view: View, config: InspectionConfig) -> None:
    """Raises TooLarge unless the fitted keys fit, in double precision and a few times over."""
    _, T, d = view.keys.shape
    numbers = min(config.fit, len(view.queries)) * T * d + d * view.queries.shape[1]
    what = f"measuring an attention head on {config.fit} fitted queries over {T} keys"
    require(_TIMES * 8.0 * numbers, what, use="fewer queries to fit on, or shorter texts")


def _agreement_fields(agreed: HeldOutAgreement, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: getattr(agreed, name) for name in _AGREEMENT}


def _content_fields(
    view: View, config: InspectionConfig
) -> tuple[dict[str, Any], HeldOutAgreement | None]:
    """The fields with special keys removed; no agreement where too few keys are left."""
    rows = np.flatnonzero((view.valid & ~view.special).sum(axis=1) >= 2)
    if len(rows) < NEEDED:
        return {"content_queries": len(rows)}, None
    content = view.subset(rows).content()
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
    part = view.subset(np.arange(min(SAMPLES, len(view.queries))))
    out = []
    for i, (tokens, attention) in enumerate(zip(part.texts, part.attention(), strict=True)):
        dropped = int(found.queries["evictable"][i])
        radii = ("key_radius", "query_radius", "int8_safe")
        out.append(
            {
                "tokens": list(tokens),
                "position": int(view.positions[i]),
                "attention": [float(p) for p in attention[: len(tokens)]],
                "valid": [bool(v) for v in view.valid[i, : len(tokens)]],
                "chosen": int(found.queries["chosen"][i]),
                "evictable": sorted(int(t) for t in found.order[i, :dropped]),
                **{name: float(found.queries[name][i]) for name in radii},
            }
        )
    return out


def _query_columns(view: View, found: Guaranteed) -> dict[str, Any]:
    """A row per query: where it stands, what it chooses, and what is certified of that."""
    rows, chosen = np.arange(len(view.queries)), found.queries["chosen"]

    def words(places: Any) -> list[str]:
        return [text[t] for text, t in zip(view.texts, places, strict=True)]

    return {
        "position": view.positions,
        "query": words(view.positions),
        "chosen": chosen,
        "key": words(chosen),
        "attention": view.attention()[rows, chosen],
        "margin": found.queries["gap"],
        "keys": view.valid.sum(axis=1),
        **{
            name: found.queries[name]
            for name in ("key_radius", "query_radius", "evictable", "evictable_margins")
        },
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
