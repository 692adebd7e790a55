"""Sweeps: one measurement on many instances, on any engine, that survives being killed."""

from __future__ import annotations

from attsvm.experiments.sweep.group import Drawn, Group
from attsvm.experiments.sweep.runs import State, Swept, run_sweep, take_shards
from attsvm.experiments.sweep.shipped import SHIPPED, shipped_spec
from attsvm.experiments.sweep.spec import Spec, read_spec, spec_of
from attsvm.experiments.sweep.table import Table, load_table, write_table

__all__ = [
    "SHIPPED", "Drawn", "Group", "Spec", "State", "Swept", "Table", "load_table", "read_spec",
    "run_sweep", "shipped_spec", "spec_of", "take_shards", "write_table",
]  # fmt: skip
