"""Names of attention heads: L3H5 is head 5 of layer 3, both counted from 0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attsvm.errors import Unsupported

_NAME = re.compile(r"[Ll](\d+)(?:[Hh](\d+))?|(\d+)\.(\d+)")


def head_name(layer: int, head: int) -> str:
    """The name of a head.

    >>> head_name(3, 5)
    'L3H5'
    """
    return f"L{layer}H{head}"


def parse_heads(heads: str | Sequence[str] | None, counts: Sequence[int]) -> list[tuple[int, int]]:
    """Layer and head of each name, in order; every head where none is named.

    heads: names such as L3H5, or L3 for all heads of a layer, apart by commas or in a list.
    counts: how many heads each layer has.

    >>> parse_heads("L1,L0H1", (2, 2))
    [(0, 1), (1, 0), (1, 1)]
    """
    if heads is None:
        return [(layer, head) for layer, count in enumerate(counts) for head in range(count)]
    words = heads.replace(",", " ").split() if isinstance(heads, str) else list(heads)
    found: set[tuple[int, int]] = set()
    for word in words or [heads]:
        match = _NAME.fullmatch(word) if isinstance(word, str) else None
        if match is None:
            raise Unsupported(
                f"heads is {heads!r}: give names such as L3H5, or L3 for all heads of layer 3"
            )
        layer = int(match[1] or match[3] or 0)
        head = match[2] or match[4]
        most = counts[layer] if layer < len(counts) else 0
        if layer >= len(counts) or (head is not None and int(head) >= most):
            raise Unsupported(
                f"there is no attention head {word}: layers run from L0 to L{len(counts) - 1}, "
                f"heads from H0 to H{(most or max(counts)) - 1}"
            )
        found.update((layer, k) for k in (range(most) if head is None else [int(head)]))
    return sorted(found)
