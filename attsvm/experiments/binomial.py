"""Shares of independent trials: exact intervals, and whether two shares differ beyond chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Bools


def interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """The interval of Clopper and Pearson: it holds the true share with at least this probability.

    >>> low, high = interval(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    from scipy.stats import binomtest

    found = binomtest(successes, trials).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def chance(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The probability of two counts (successes, trials) at least as unlikely as these, where both
    have one share: Fisher's exact test, two-sided.

    >>> round(chance((3, 4), (1, 4)), 4)
    0.4857
    """
    from scipy.stats import fisher_exact

    return float(fisher_exact(np.array([[k, n - k] for k, n in (first, second)])).pvalue)


def beyond_chance(chances: Sequence[float], level: float) -> Bools:
    """Which of several differences are beyond chance, by Holm's rule: where none of them is real,
    any at all is found with at most the probability `level`.

    >>> beyond_chance([0.001, 0.2, 0.012], 0.05).tolist()
    [True, False, True]
    """
    p = np.asarray(chances, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    met = p[order] <= level / np.arange(len(p), 0, -1)
    out = np.zeros(len(p), dtype=bool)
    out[order[: len(p) if met.all() else int(met.argmin())]] = True
    return out


def spread(pairs: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> tuple[float, int]:
    """(Σ z², count) of pairs of counts, z the difference of two shares in standard errors.

    Only pairs of which each side would have at least five successes and five failures at the common
    share: the others have no such law.
    """
    total, count = 0.0, 0
    for (k, n), (j, m) in pairs:
        share = (k + j) / (n + m)
        if min(n, m) * min(share, 1.0 - share) >= 5.0:
            total += (k / n - j / m) ** 2 / (share * (1.0 - share) * (1.0 / n + 1.0 / m))
            count += 1
    return total, count


def most_spread(count: int, level: float) -> float:
    """What Σ z² of so many pairs without a difference exceeds with this probability."""
    from scipy.special import chdtri

    return float(chdtri(count, level)) if count else 0.0
