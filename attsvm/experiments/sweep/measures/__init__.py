"""Measures, by name: what a sweep finds on each instance."""

from __future__ import annotations

from attsvm.experiments.sweep.measures.batch_ends import by_batches
from attsvm.experiments.sweep.measures.ends import last_selection
from attsvm.experiments.sweep.measures.first_proof import proved_from
from attsvm.experiments.sweep.measures.global_ends import selects_the_best
from attsvm.experiments.sweep.measures.kept_tokens import kept
from attsvm.experiments.sweep.measures.margin_shares import shares_by_norm
from attsvm.experiments.sweep.measures.measure import Measure
from attsvm.experiments.sweep.measures.saturation_time import steps_to_saturation
from attsvm.experiments.sweep.measures.separable import can_separate
from attsvm.experiments.sweep.measures.start_ends import proved_to_end

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
