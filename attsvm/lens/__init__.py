"""Heads of trained transformers on the same rails: what they attend to, and how surely.

    model = attsvm.lens.load("minilm")
    view = attsvm.lens.capture(model, texts, layer=5, head=3)

A View is one head on many queries: keys and queries as the head sees them, and its W in factors.
"""

from __future__ import annotations

from attsvm.lens.capturing import Draw, capture, capture_layers
from attsvm.lens.model import Model, load
from attsvm.lens.view import Turns, View

__all__ = ["Draw", "Model", "Turns", "View", "capture", "capture_layers", "load"]
