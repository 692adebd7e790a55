"""What a head's page shows: sample texts with attention and guarantees, gaps, offsets.

samples   a few queries: tokens, position, attention, chosen key, evictable keys, radii
gaps      the head's top-two gaps, sorted, beside those of the max-margin matrix, at norm 1
offsets   by the distance of the key from the query: how often it is chosen, how far above
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.inspection.guarantee.offered import guarantees
from attsvm.inspection.margins import margins_of
from attsvm.inspection.measure.agreement import HeldOutAgreement
from attsvm.inspection.measure.rules import FARTHEST, offset_keys
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.view import View

# Queries that are shown with their text.
SAMPLES = 6


def head_details(view: View, agreed: HeldOutAgreement, plan: InspectionConfig) -> dict[str, Any]:
    """Plain lists and numbers for the page of one head, from its held-out agreement."""
    return {
        "layer": view.layer,
        "head": view.head,
        "samples": samples(view, plan),
        "gaps": sorted_gaps(agreed),
        "offsets": offsets(view),
    }


def samples(view: View, plan: InspectionConfig, *, count: int = SAMPLES) -> list[dict[str, Any]]:
    """For each of the first queries, its text as the head sees it and what is guaranteed."""
    view = view.subset(np.arange(min(count, len(view.queries))))
    attention = view.attention()
    found = guarantees(view, InspectionConfig(attacks=0, share=plan.share))
    out = []
    for i, tokens in enumerate(view.texts):
        size = len(tokens)
        dropped = int(found.queries["evictable"][i])
        out.append(
            {
                "tokens": list(tokens),
                "position": int(view.positions[i]),
                "attention": [float(p) for p in attention[i, :size]],
                "valid": [bool(v) for v in view.valid[i, :size]],
                "chosen": int(found.queries["chosen"][i]),
                "gap": float(found.queries["gap"][i]),
                "evictable": sorted(int(t) for t in found.order[i, :dropped]),
                "key_radius": float(found.queries["key_radius"][i]),
                "query_radius": float(found.queries["query_radius"][i]),
                "int8_safe": bool(found.queries["int8_safe"][i]),
            }
        )
    return out


def sorted_gaps(agreed: HeldOutAgreement) -> dict[str, Any]:
    """The top-two gaps of W/‖W‖ on the fitted queries, sorted, and those of the SVM at norm 1.

    best: the certified bounds of the largest least gap that any matrix of norm 1 has on them.
    """
    if agreed.learned is None:
        return {}
    fit, found = agreed.learned
    chosen = fit.chosen()
    size = float(np.linalg.norm(fit.W))
    best = found.certificate
    slopes = fit.queries @ found.W.T
    logits = np.matmul(fit.keys.astype(np.float64), slopes[:, :, None])[:, :, 0]
    at = np.arange(len(chosen))
    rival = np.where(fit.valid, logits, -np.inf)
    rival[at, chosen] = -np.inf
    length = float(np.linalg.norm(found.W))
    if not size > 0 or not length > 0:
        return {}
    return {
        "head": [float(g) for g in np.sort(margins_of(fit).gap) / size],
        "svm": [float(g) for g in np.sort(logits[at, chosen] - rival.max(axis=1)) / length],
        "best": None if found.soft or not best.lower > 0 else [1 / best.upper, 1 / best.lower],
        "queries": len(chosen),
    }


def offsets(view: View, *, farthest: int = FARTHEST) -> dict[str, Any]:
    """By offset of the key from the query: queries that have one, how often it is chosen, its mean
    attention, and the median of its logit less the largest other one."""
    logits, attention, chosen = view.logits(), view.attention(), view.chosen()
    found: dict[str, list[Any]] = {
        name: [] for name in ("offset", "queries", "chosen", "attention", "margin")
    }
    for k in range(-farthest, farthest + 1):
        keys = offset_keys(view, k)
        rows = np.flatnonzero(keys >= 0)
        if not len(rows):
            continue
        at = keys[rows]
        other = logits[rows].copy()
        other[np.arange(len(rows)), at] = -np.inf
        found["offset"].append(k)
        found["queries"].append(len(rows))
        found["chosen"].append(float((chosen[rows] == at).mean()))
        found["attention"].append(float(attention[rows, at].mean()))
        found["margin"].append(float(np.median(logits[rows, at] - other.max(axis=1))))
    return found
