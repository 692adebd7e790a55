"""Measures, by name: what a sweep finds on each instance."""

from __future__ import annotations

from attsvm.sweep.measures.batch_ends import by_batches
from attsvm.sweep.measures.ends import last_selection
from attsvm.sweep.measures.first_proof import proved_from
from attsvm.sweep.measures.global_ends import selects_the_best
from attsvm.sweep.measures.kept_tokens import kept
from attsvm.sweep.measures.margin_shares import shares_by_norm
from attsvm.sweep.measures.measure import Measure
from attsvm.sweep.measures.saturation_time import steps_to_saturation
from attsvm.sweep.measures.separable import can_separate
from attsvm.sweep.measures.start_ends import proved_to_end

MEASURES: dict[str, Measure] = {
    "separable": can_separate,
    "ends": last_selection,
    "global-ends": selects_the_best,
    "margin-shares": shares_by_norm,
    "kept-tokens": kept,
    "batch-ends": by_batches,
    "saturation-time": steps_to_saturation,
    "first-proof": proved_from,
    "start-ends": proved_to_end,
}
