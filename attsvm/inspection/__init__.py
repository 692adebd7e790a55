"""Attention heads of trained transformers: what they attend to, and what is certified of it.

    found = attsvm.inspect(model, texts, tokenizer=tokenizer)     # every head, one row each
    found.to_frame(), found.counts(), found.head("L3H5").queries

    found = attsvm.inspection.pattern(model, "A text.", head="L3H5", tokenizer=tokenizer)
    found.attention, found.plot()

A model is one of transformers in memory, a folder made by `save_pretrained`, or a known name. A
View is one head on many queries: keys and queries as the head sees them, and its W in factors.
`FIELDS` says what each column is, and an InspectionConfig how many queries, nulls and attacks are
spent.
"""

from __future__ import annotations

from attsvm.inspection.capturing import capture
from attsvm.inspection.change import CHANGE_FIELDS, Change, compare
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.inspection import Inspection, inspect, inspect_views, pattern
from attsvm.inspection.measures import FIELDS
from attsvm.inspection.models import load
from attsvm.inspection.texts import read_passages, sample_texts
from attsvm.inspection.view import View

__all__ = [
    "CHANGE_FIELDS",
    "Change",
    "FIELDS",
    "Inspection",
    "InspectionConfig",
    "View",
    "capture",
    "compare",
    "inspect",
    "inspect_views",
    "load",
    "pattern",
    "read_passages",
    "sample_texts",
]
