"""spaced: instances of v1, Figures 5, 6 and 10, with the starts of the released code."""

from __future__ import annotations

from collections.abc import Sequence

from attsvm.experiments.sweep.families.family import pair, sized
from attsvm.experiments.sweep.group import Drawn


def apart(
    seeds: Sequence[int], size: str = "5x5", d: int = 10, gap: float = 0.1, width: int = 0,
    model: str = "weight", start: int = 0,
) -> Drawn:  # fmt: skip
    """Unit vectors whose best score is ahead by `gap`; with starts, for `init = "drawn"`.

    size: inputs x tokens. width: columns of the factors, d for 0.
    """
    from attsvm.experiments.studies.shared import spaced_instances

    shape = sized(*pair(size), d)
    made = spaced_instances.spaced(
        shape, list(seeds), gap=gap, start=start, width=width or None
    )  # fmt: skip
    starts = made.factors if model == "factored" else made.weight
    return Drawn(made.stack, made.heads, starts=starts)
