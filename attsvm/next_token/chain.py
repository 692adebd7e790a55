"""Chains of an order: its covering edges as paths from above to below."""

from __future__ import annotations

import numpy as np

from attsvm.next_token.order import Order


def longest_chain(order: Order) -> int:
    """The number of steps a > b > … of the longest chain; tied tokens are one step."""
    hi, lo = order.covers
    depth = np.ones(len(order.tokens), np.int64)
    for t in np.argsort(order.component[hi], kind="stable"):  # from the top: no edge goes back
        depth[lo[t]] = max(depth[lo[t]], depth[hi[t]] + 1)
    return int(depth.max(initial=0))


def chains(order: Order) -> list[list[list[int]]]:
    """Chains from above to below in which every covering edge stands once.

    A chain is a list of steps and a step the list of tokens tied there, by token number. Ties
    above and below nothing are chains of one step.
    """
    below: dict[int, list[int]] = {int(i): [] for i in order.first}
    for i, j in zip(*(ends.tolist() for ends in order.covers), strict=True):
        below[i].append(j)
    alone = set(below) - {int(i) for i in np.concatenate(order.covers)}
    found = []
    for top in below:  # by component: from the top
        while below[top] or top in alone:
            alone.discard(top)
            chain = [top]
            while below[chain[-1]]:
                chain.append(below[chain[-1]].pop(0))
            found.append(chain)
    at = order.component
    tied = {i: order.tokens[at == at[i]].tolist() for i in below}
    return [[tied[i] for i in chain] for chain in found]
