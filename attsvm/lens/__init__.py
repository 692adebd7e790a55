"""Heads of trained transformers on the same rails: what they attend to, and how surely.

    model = attsvm.lens.load("minilm")
    texts = attsvm.lens.sample_texts(model.texts)
    view = attsvm.lens.capture(model, texts, layer=5, head=3, length=32)

A View is one head on many queries: keys and queries as the head sees them, and its W in factors.
"""

from __future__ import annotations

from attsvm.lens.capturing import Draw, capture, capture_layers
from attsvm.lens.model import TrainedModel, load
from attsvm.lens.passages import read_passages, sample_texts
from attsvm.lens.untrained import untrained_model
from attsvm.lens.view import Turns, View

__all__ = [
    "Draw",
    "TrainedModel",
    "Turns",
    "View",
    "capture",
    "capture_layers",
    "load",
    "read_passages",
    "sample_texts",
    "untrained_model",
]
