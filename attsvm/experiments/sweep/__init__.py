"""Sweeps: one measurement on many instances, on any engine, that survives being killed."""

from __future__ import annotations

from attsvm.experiments.sweep.group import Drawn, Group
from attsvm.experiments.sweep.runs import SweepState, Swept, run_sweep, take_shards
from attsvm.experiments.sweep.shipped import SHIPPED, shipped_spec
from attsvm.experiments.sweep.spec import Spec, read_spec, spec_of
from attsvm.experiments.sweep.table import SweepTable, load_table, write_table

__all__ = [
    "SHIPPED", "Drawn", "Group", "Spec", "SweepState", "SweepTable", "Swept",
    "load_table", "read_spec",
    "run_sweep", "shipped_spec", "spec_of", "take_shards", "write_table",
]  # fmt: skip
