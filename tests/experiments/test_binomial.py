"""Intervals and tests of shares against scipy.stats, printed tables and direct summation."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from attsvm.experiments.binomial import beyond_chance, chance, most_spread, spread


@pytest.mark.parametrize("pair", [((3, 4), (1, 4)), ((7, 12), (2, 9)), ((0, 5), (5, 5))])
def test_chances_are_sums_of_exact_probabilities(pair):
    (k, n), (j, m) = pair
    total = k + j
    weight = {
        i: Fraction(comb(n, i) * comb(m, total - i), comb(n + m, total))
        for i in range(max(0, total - m), min(n, total) + 1)
    }
    wanted = sum(w for w in weight.values() if w <= weight[k])
    assert_allclose(chance(*pair), float(wanted), rtol=1e-12)


def test_holm_stops_at_the_first_that_is_not_met():
    assert beyond_chance([0.04, 0.01, 0.03], 0.05).tolist() == [False, True, False]
    assert beyond_chance([0.01, 0.012, 0.02], 0.05).tolist() == [True, True, True]
    assert beyond_chance([], 0.05).tolist() == []


def test_the_spread_of_equal_shares_has_its_law():
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(400):
        p = rng.uniform(0.2, 0.8, 20)
        pairs = [((rng.binomial(100, q), 100), (rng.binomial(500, q), 500)) for q in p]
        total, count = spread(pairs)
        above += total > most_spread(count, 0.05)
    assert 8 <= above <= 36  # 20 expected, with an error of 4.4
    assert_allclose(most_spread(20, 0.05), stats.chi2.ppf(0.95, 20))


def test_pairs_without_enough_of_both_are_left_out():
    assert spread([((100, 100), (499, 500)), ((50, 100), (250, 500))]) == (0.0, 1)
    assert most_spread(0, 0.05) == 0.0
