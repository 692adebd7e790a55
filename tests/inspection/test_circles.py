"""Choices that no W makes, seen without a solve."""

from dataclasses import replace

import numpy as np

import attsvm
from attsvm.inspection.measure import fits
from tests.inspection.built import view_of


def test_choices_that_go_in_a_circle_are_seen_without_a_solve():
    """a over b, b over c, c over a for one query: no W; of different queries, or in order, one."""
    rng = np.random.default_rng(0)
    a, b, c, other = rng.normal(size=(4, 5))
    keys = np.array([[a, b, other], [b, c, other], [c, a, other]])
    same, unlike = np.tile(rng.normal(size=5), (3, 1)), rng.normal(size=(3, 5))
    first, ordered = np.array([0, 0, 0]), np.array([0, 0, 1])
    view = view_of(keys, same, np.eye(5))
    for queries, chosen, round_ in (
        (same, first, True),
        (unlike, first, False),
        (same, ordered, False),
    ):
        part = replace(view, queries=queries)
        assert fits.circular(part, chosen) is round_
        rows = attsvm.Problem.of(fits.tokens_of(part, chosen), chosen)
        assert (attsvm.solve(rows).status == "infeasible") is round_
    assert fits.svm_fit(view, first).soft
    hard = fits.svm_fit(view, ordered)
    assert not hard.soft
