"""Views made up from random numbers, ragged and with special tokens."""

from typing import Any

import numpy as np

from attsvm.inspection import Turns, View

SPECIAL = 2  # ids below this are special


def random_view(seed: int = 0, *, n: int = 6, T: int = 5, bias: bool = True, **other: Any) -> View:
    """A View of a random head; text i has between 2 and T tokens, the first one special."""
    rng = np.random.default_rng(seed)
    d, h = 4, 2
    lengths = rng.integers(2, T + 1, n)
    valid = np.arange(T) < lengths[:, None]
    keys = rng.standard_normal((n, T, d))
    keys = np.where(valid[:, :, None], keys, keys[:, :1])
    positions = rng.integers(0, lengths)
    queries = keys[np.arange(n), positions]
    if bias:
        queries = np.hstack([queries, np.ones((n, 1))])
    ids = np.where(valid, rng.integers(SPECIAL, 9, (n, T)), 0)
    ids[:, 0] = 1
    parts: dict[str, Any] = {
        "layer": 1,
        "head": 0,
        "keys": keys,
        "queries": queries,
        "key_factor": rng.standard_normal((h, d)),
        "query_factor": rng.standard_normal((h, queries.shape[1])),
        "value_factor": rng.standard_normal((h, d)),
        "value_shift": rng.standard_normal(h),
        "valid": valid,
        "ids": ids,
        "special": valid & (ids < SPECIAL),
        "positions": positions,
        "texts": tuple(tuple(f"w{ids[i, t]}" for t in range(lengths[i])) for i in range(n)),
    }
    return View(**(parts | other))


def random_turns(seed: int = 0, *, n: int = 6, T: int = 5, h: int = 2) -> Turns:
    """Angles of rotary positions, drawn at random."""
    half = np.random.default_rng(seed).uniform(0, 6, (n, T, h // 2))
    angles = np.concatenate([half, half], axis=2)
    return Turns(np.cos(angles), np.sin(angles))
