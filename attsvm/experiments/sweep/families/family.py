"""Family: a function that draws the instances of some seeds.

family(seeds, **parameters) -> Drawn: the instance of a seed depends on the seed and on the
parameters alone, never on the seeds beside it. Every parameter has a name of its own in a spec.
"""

from __future__ import annotations

from collections.abc import Callable

from attsvm.errors import BadTokens
from attsvm.experiments.sweep.group import Drawn

Family = Callable[..., Drawn]


def sized(n: int, T: int, d: int) -> tuple[int, int, int]:
    """(n, T, d); raises BadTokens unless they are sizes of inputs with something to select."""
    for name, value, least in (("n", n, 1), ("T", T, 2), ("d", d, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadTokens(f"{name} is {value!r}: it is a whole number from {least} on")
    return n, T, d


def pair(size: str) -> tuple[int, int]:
    """(n, T) of a text such as 5x10."""
    first, _, second = str(size).partition("x")
    if not (first.isdigit() and second.isdigit()):
        raise BadTokens(f"size is {size!r}: it is inputs x tokens, such as 5x10")
    return int(first), int(second)
