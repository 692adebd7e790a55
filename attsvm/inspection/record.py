"""The record of a head: every measure and guarantee in one flat dict of plain numbers and words.

`FIELDS` says what each one is. nan stands for what does not apply: a head with rotary positions has
no single W, so that fits, economies and cosines are left out.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from attsvm._utils.memory import require
from attsvm._utils.parallel import one_thread
from attsvm._utils.progress import Progress
from attsvm.errors import TooLarge
from attsvm.inspection.details import head_details
from attsvm.inspection.guarantee.offered import guarantees
from attsvm.inspection.margins import choosing
from attsvm.inspection.measure.agreement import HeldOutAgreement, held_out, split
from attsvm.inspection.measure.economy import economy_of, null_economies
from attsvm.inspection.measure.kinds import kind_of
from attsvm.inspection.measure.local import local_of
from attsvm.inspection.measure.nulls import NULLS, decompose
from attsvm.inspection.measure.sharpness import sharpness_of
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.view import View

# How often the fitted keys, or matrices of the size of W, are held at once.
_TIMES = 6

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

# What each field of a record is.
FIELDS: dict[str, str] = {
    "layer": "the layer, from 0",
    "head": "the attention head, from 0",
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
    "economy": "the share of the Frobenius norm of W that suffices for its gaps on the fitted "
    "queries, certified from above",
    "economy_lower": "the same, certified from below",
    "economy_seen": "the same over the norm of the part of W that the queries see: an estimate",
    "economy_queries": "the queries it is for (it rises with them)",
    "economy_spectrum_low": "the least economy of matrices with the same spectrum",
    "economy_spectrum": "their median",
    "economy_spectrum_high": "their largest",
    "economy_rotated_low": "the least economy of matrices with the same spectrum and subspaces",
    "economy_rotated": "their median",
    "economy_rotated_high": "their largest",
    "nuclear_economy": "economy in the nuclear norm",
    "nuclear_economy_lower": "the same, certified from below",
    "nuclear_economy_spectrum": "the median of the nulls with random subspaces",
    "nuclear_economy_rotated": "the median of the rotated nulls",
    "optimality": "whether its choices are locally optimal: global, local, neither or undecided",
    "optimality_queries": "the queries this was asked of",
    "tight_margins": "margins certified to be equalities at the max-margin matrix of the choices",
    "loose_margins": "margins certified not to be",
    "undecided_margins": "margins of which this is not decided",
    "tight_lower": "the share of tight neighbours that score lower than the chosen token",
    "tied": "queries whose two top logits cannot be separated: nothing is guaranteed of them",
    "evictable": "the mean share of keys that may be dropped, all of them together, at 1 % error "
    "of the attention head's output, by the attention row (of some of them alone nothing is said)",
    "evictable_margins": "the same, certified by margins alone; then any part of them may be, too",
    "evictable_queries": "the share of queries that may drop a set of keys",
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


def head_record(view: View, plan: InspectionConfig | None = None) -> dict[str, Any]:
    """Every field of FIELDS for a head. Raises BadTokens where fewer than three queries choose.

    >>> from attsvm.inspection import capture, untrained_model
    >>> texts = ["a b c", "c d e", "e f a", "b d f", "d c b", "f a c"]
    >>> record = head_record(
    ...     capture(untrained_model(), texts, layer=0, head=1), InspectionConfig.quick()
    ... )
    >>> set(record) == set(FIELDS), record["keys"]
    (True, 5.0)
    """
    return measure(view, plan)[0]


@one_thread()
def measure(
    view: View, plan: InspectionConfig | None = None, *, tell: Progress | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record of a head, and what its page shows (`attsvm.inspection.details`).

    tell: called with the share of the work that is done and what comes next.
    """
    plan = plan or InspectionConfig()
    say = tell or (lambda share, said: None)
    start = time.process_time()
    view = choosing(view)
    _check_memory(view, plan)
    found: dict[str, Any] = dict.fromkeys(FIELDS, np.nan)
    parts = split(view, fit=plan.fit, test=plan.test, seed=plan.seed)
    say(0.0, "fits to its choices")
    sharp = sharpness_of(view)
    agreed = held_out(parts, seed=plan.seed, cross=plan.cross)
    found |= {
        "layer": view.layer,
        "head": view.head,
        "queries": len(view.queries),
        "fitted": agreed.fitted,
        "tested": agreed.tested,
        "keys": float(view.valid.sum(axis=1).mean()),
        "sharpness": sharp.mean,
        "saturated": sharp.saturated,
        "special_attention": sharp.special,
        "chance": sharp.chance,
        "ease": agreed.ease,
    }
    say(0.25, "fits without special keys")
    content, without = _content_fields(view, plan)
    found |= _agreement_fields(agreed, "") | content
    found["kind"] = kind_of(agreed, without)
    say(0.45, "economy beside nulls")
    found |= _economy_fields(parts.fit, plan)
    say(0.75, "tight margins")
    local = local_of(parts.fit, queries=plan.optimality)
    found |= {
        "optimality": local.kind,
        "optimality_queries": local.queries,
        "tight_margins": local.tight,
        "loose_margins": local.loose,
        "undecided_margins": local.undecided,
        "tight_lower": local.lower,
    }
    say(0.9, "guarantees and attacks")
    found |= guarantees(view, plan).fields
    details = head_details(view, agreed, plan)
    found["seconds"] = time.process_time() - start
    return found, details


def _check_memory(view: View, plan: InspectionConfig) -> None:
    """Raises TooLarge unless the fitted keys fit, in double precision and a few times over."""
    _, T, d = view.keys.shape
    numbers = min(plan.fit, len(view.queries)) * T * d + d * view.queries.shape[1]
    what = f"measuring an attention head on {plan.fit} fitted queries over {T} keys"
    require(_TIMES * 8.0 * numbers, what, use="a plan that fits fewer queries, or shorter texts")


def _agreement_fields(agreed: HeldOutAgreement, prefix: str) -> dict[str, Any]:
    values = {
        "rule": agreed.rule.name,
        "rule_place": agreed.rule.place,
        "rule_agreement": agreed.rule.agreement,
        "mean_query_agreement": agreed.mean_query,
        "svm_agreement": agreed.svm,
        "mean_difference_agreement": agreed.mean_difference,
        "cross_entropy_agreement": agreed.cross_entropy,
        "soft_cross_entropy_agreement": agreed.soft_cross_entropy,
        "lift": agreed.lift,
        "separable": None if np.isnan(agreed.svm) else not agreed.soft,
        "cosine": agreed.cosine,
        "kind": kind_of(agreed),
    }
    return {prefix + name: value for name, value in values.items()}


def _content_fields(
    view: View, plan: InspectionConfig
) -> tuple[dict[str, Any], HeldOutAgreement | None]:
    """The fields with special keys removed; no agreement where too few keys are left."""
    words = {f"content_{name}": None for name in ("rule", "rule_place", "separable", "kind")}
    rows = np.flatnonzero((view.valid & ~view.special).sum(axis=1) >= 2)
    if len(rows) < 3:
        return {"content_queries": len(rows), **words}, None
    content = view.subset(rows).content()
    parts = split(content, fit=plan.fit, test=plan.test, seed=plan.seed)
    agreed = held_out(parts, seed=plan.seed, cross=plan.cross, eased=False)
    fields = {
        "content_queries": len(rows),
        "content_sharpness": sharpness_of(content).mean,
        **_agreement_fields(agreed, "content_"),
    }
    return fields, agreed


def _economy_fields(view: View, plan: InspectionConfig) -> dict[str, Any]:
    """Economy, certified, beside that of both nulls; nothing for rotary positions."""
    if view.turns is not None:
        return {}
    S = decompose(view)[1]
    own = economy_of(view)
    found = {
        "norm": float(np.sqrt((S**2).sum())),
        "nuclear_norm": float(S.sum()),
        "economy": own.upper,
        "economy_lower": own.lower,
        "economy_seen": own.seen,
        "economy_queries": own.queries,
    }
    for name, values in null_economies(view, draws=plan.draws, seed=plan.seed).items():
        low, middle, high = _band(values)
        found |= {f"economy_{name}_low": low, f"economy_{name}": middle}
        found[f"economy_{name}_high"] = high
    if plan.nuclear_draws < 0:
        return found
    try:
        own = economy_of(view, "nuclear")
        draws = null_economies(view, "nuclear", draws=plan.nuclear_draws, seed=plan.seed)
    except TooLarge:  # only the Frobenius norm is reported
        return found
    found |= {"nuclear_economy": own.upper, "nuclear_economy_lower": own.lower}
    return found | {f"nuclear_economy_{name}": _band(draws[name])[1] for name in NULLS}


def _band(values: Any) -> tuple[float, float, float]:
    if not len(values) or np.isnan(values).all():
        return np.nan, np.nan, np.nan
    return float(np.nanmin(values)), float(np.nanmedian(values)), float(np.nanmax(values))
