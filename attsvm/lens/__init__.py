"""Heads of trained transformers on the same rails: what they attend to, and how surely.

A View is one head on many queries: keys and queries as the head sees them, and its W in factors.
"""

from __future__ import annotations

from attsvm.lens.view import Turns, View

__all__ = ["Turns", "View"]
