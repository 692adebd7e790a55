"""Pictures of what the library finds; the only place that loads matplotlib."""

from __future__ import annotations

from attsvm.figures.tour import draw

__all__ = ["draw"]
