"""Every guarantee of a head's choices at once, with the attacks that check it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.inspection.guarantee.attacks import drop_keys, move_keys, move_query, round_weights
from attsvm.inspection.guarantee.eviction import eviction_of
from attsvm.inspection.guarantee.stability import stability_of
from attsvm.inspection.guarantee.weights import quantized_of
from attsvm.inspection.margins import margins_of
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.view import View

# A radius above this share of the size of what moves counts as stable.
STABLE = 0.01


class Guaranteed(NamedTuple):
    """The fields on guarantees, and per query (n,): radii, evictable counts, int8."""

    fields: dict[str, Any]
    queries: dict[str, Any]
    order: Ints


def guarantees(view: View, plan: InspectionConfig | None = None) -> Guaranteed:
    """What is guaranteed of each query's choice, with the attacks that check it.

    >>> from attsvm.inspection import capture, untrained_model
    >>> view = capture(untrained_model(), ["a b c", "c d e", "e f a"], layer=0, head=1)
    >>> found = guarantees(view)
    >>> found.fields["attacks"] > 0, found.fields["violations"]
    (True, 0)
    """
    plan = plan or InspectionConfig()
    margins = margins_of(view)
    radii = stability_of(view, margins)
    drop = eviction_of(view, margins, share=plan.share)
    coarse = quantized_of(view, margins)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_keys = np.where(radii.keys > 0, radii.keys / radii.key_size, 0.0)
        by_query = np.where(radii.query > 0, radii.query / radii.query_size, 0.0)
    rows = np.arange(min(plan.attacks, len(view.queries)))
    tried = broken = 0
    if len(rows):
        part = view.subset(rows)
        made = [
            drop_keys(part, drop.known[rows], drop.order[rows], share=plan.share),
            drop_keys(part, drop.bound[rows], drop.order[rows], share=plan.share),
            move_keys(part, radii.keys[rows], seed=plan.seed),
            move_query(part, radii.query[rows], seed=plan.seed),
        ]
        made.append(round_weights(part, coarse.view.subset(rows), coarse.safe[rows]))
        tried, broken = sum(one.tried for one in made), sum(one.broken for one in made)
    fields = {
        "tied": int(margins.tied.sum()),
        "evictable": float((drop.known / drop.keys).mean()),
        "evictable_margins": float((drop.bound / drop.keys).mean()),
        "evictable_queries": float((drop.known > 0).mean()),
        "key_radius": float(np.median(by_keys)),
        "key_radius_share": float((by_keys > STABLE).mean()),
        "query_radius": float(np.median(by_query)),
        "query_radius_share": float((by_query > STABLE).mean()),
        "int8_safe": float(coarse.safe.mean()),
        "int8_same": float((coarse.view.chosen() == margins.chosen).mean()),
        "attacks": tried,
        "violations": broken,
    }
    queries = {
        "chosen": margins.chosen,
        "gap": margins.gap,
        "key_radius": by_keys,
        "query_radius": by_query,
        "evictable": drop.known,
        "evictable_margins": drop.bound,
        "int8_safe": coarse.safe,
    }
    return Guaranteed(fields, queries, drop.order)
