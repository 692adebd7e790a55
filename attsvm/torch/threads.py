"""A kernel over large arrays by as many threads as torch has been given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from attsvm.torch.one_pass import Singles

# Entries below which more threads do not pay.
FEWEST = 1 << 18


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="attsvm")


def in_parts(kernel: Callable[..., Any], arrays: Sequence[Singles], **given: float) -> list[Any]:
    """kernel(*arrays, **given) on parts of flat arrays, as many as there are threads and it pays.

    What it returns for each part. Parts begin at multiples of 64 bytes from the start.
    """
    size = arrays[0].size
    count = min(torch.get_num_threads(), size // FEWEST)
    if count < 2:
        return [kernel(*arrays, **given)]
    edges = [size * k // count // 16 * 16 for k in range(count)] + [size]
    tasks = [
        _pool(count).submit(kernel, *(x[a:b] for x in arrays), **given) for a, b in pairwise(edges)
    ]
    return [task.result() for task in tasks]
