"""Pictures of what the library finds, one kind per file; the only place that loads matplotlib.

`style` is what they agree on: sizes, colours, fonts, and the settings in `styled()`. Every other
file draws one kind of picture from results alone: `run` a training run, `stages` several runs side
by side, `hasse` the orders of next-token data, `tour` one selection in every norm.
"""

from __future__ import annotations

from attsvm.plotting.tour import draw

__all__ = ["draw"]
