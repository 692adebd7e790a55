"""Attention heads of trained transformers: what they attend to, and what is certified of it.

    model = attsvm.inspection.load("minilm")
    texts = attsvm.inspection.sample_texts(model.texts)
    view = attsvm.inspection.capture(model, texts, layer=5, head=3, length=32)

A View is one head on many queries: keys and queries as the head sees them, and its W in factors.

    found = attsvm.inspection.inspect("minilm", texts)          # every head, one row each
    found.to_frame(), found.counts(), found.as_json()

`FIELDS` says what each column is, and an InspectionConfig how many queries, nulls and
attacks are spent.
"""

from __future__ import annotations

from attsvm.inspection.capturing import Draw, capture, capture_layers
from attsvm.inspection.change import CHANGE_FIELDS, Change, compare, compare_views
from attsvm.inspection.guarantee.offered import guarantees
from attsvm.inspection.inspection import Inspection, inspect, inspect_views
from attsvm.inspection.model import TrainedModel, load
from attsvm.inspection.passages import read_passages, sample_texts
from attsvm.inspection.plan import InspectionConfig
from attsvm.inspection.record import FIELDS, head_record
from attsvm.inspection.untrained import untrained_model
from attsvm.inspection.view import Turns, View

__all__ = [
    "CHANGE_FIELDS",
    "Change",
    "Draw",
    "FIELDS",
    "Inspection",
    "InspectionConfig",
    "TrainedModel",
    "Turns",
    "View",
    "capture",
    "capture_layers",
    "compare",
    "compare_views",
    "guarantees",
    "head_record",
    "inspect",
    "inspect_views",
    "load",
    "read_passages",
    "sample_texts",
    "untrained_model",
]
