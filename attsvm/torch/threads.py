"""A kernel over large arrays by as many threads as torch has been given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch

from attsvm.torch.one_pass import Singles, step

# Entries below which more threads do not pay.
FEWEST = 1 << 18


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="attsvm")


def in_parts(u: Singles, g: Singles, w: Singles, *, lr: float, shrink: float, p: float) -> None:
    """`one_pass.step` on flat arrays, in as many parts as there are threads and it pays."""
    count = min(torch.get_num_threads(), u.size // FEWEST)
    if count < 2:
        step(u, g, w, lr=lr, shrink=shrink, p=p)
        return
    edges = [u.size * k // count for k in range(count + 1)]
    tasks = [
        _pool(count).submit(step, u[a:b], g[a:b], w[a:b], lr=lr, shrink=shrink, p=p)
        for a, b in pairwise(edges)
    ]
    for task in tasks:
        task.result()
