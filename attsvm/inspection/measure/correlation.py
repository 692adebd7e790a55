"""Rank correlation of two columns over heads."""

from __future__ import annotations

from typing import Any

import numpy as np


def rank_correlation(one: Any, other: Any) -> float:
    """Spearman's correlation of two columns; heads where one is not known are left out.

    nan with fewer than three heads, or where a column has one value only.

    >>> rank_correlation([0.1, 0.2, 0.9], [1.0, 5.0, 7.0])
    1.0
    """
    from scipy.stats import rankdata

    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    if known.sum() < 3:
        return np.nan
    x, y = rankdata(a[known]), rankdata(b[known])
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else np.nan
