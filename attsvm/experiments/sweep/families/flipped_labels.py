"""flipped-labels: one relevant token among noise, some labels flipped."""

from __future__ import annotations

from collections.abc import Sequence

from attsvm.errors import BadTokens
from attsvm.experiments.sweep.families.family import sized
from attsvm.experiments.sweep.group import Drawn


def among_noise(
    seeds: Sequence[int], n: int = 10, T: int = 5, d: int = 60, signal: float = 1.0,
    flip: float = 0.0,
) -> Drawn:  # fmt: skip
    """Relevant tokens of this strength among noise tokens, each label flipped with this chance."""
    from attsvm.experiments.studies.shared.flipped_labels import flipped

    shape = sized(n, T, d)
    if d < 2 or not 0 <= flip <= 1 or not signal > 0:
        raise BadTokens(
            f"flipped-labels needs d ≥ 2, signal > 0 and 0 ≤ flip ≤ 1; here d = {d}, "
            f"signal = {signal}, flip = {flip}"
        )
    made = flipped(shape, list(seeds), signal=signal, flip=flip)
    return Drawn(made.stack, made.heads, about={"relevant": made.relevant, "flips": made.flips})
