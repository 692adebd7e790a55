"""Pictures of what the library finds, one kind per file; the only place that loads matplotlib.

`style` is what they agree on: sizes, colours, fonts, and the settings in `styled()`. Every other
file draws from results alone: `training` runs, compared or in stages, `results` what else `plot()`
draws, `networks` real networks, `margin` one input in the plane, `studies` the tables of
experiments.
"""

from __future__ import annotations

from attsvm.plotting.margin import draw

__all__ = ["draw"]
