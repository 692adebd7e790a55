"""Mirror descent on attention: each exponent leads to the solution in its own norm."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm.experiments.studies.shared.published import published_stack
from tests.training.papers import ITERATIONS, JOINT_SELECTIONS, joint_mirror, mirror_runs


def test_the_single_instance_ends_as_published():
    runs = mirror_runs(published_stack([1]), "zero")
    for p in ITERATIONS:
        assert runs.alpha[p].tolist() == [[3, 2, 6, 2, 6, 2]]
        assert runs.divergence[p, p][0] < 0.006
    assert runs.agree.all()
    assert all(runs.own_smallest(p, runs.agree) == 1 for p in ITERATIONS)


def test_each_exponent_is_nearest_to_its_own_solution():
    runs = mirror_runs(published_stack(range(1, 11)), "normal:1")
    assert runs.agree.mean() >= 0.4
    for p in ITERATIONS:
        assert runs.own_smallest(p, runs.agree) == 1
        assert runs.own_smallest(p, np.full(10, True)) >= 0.9
        assert np.median(runs.divergence[p, p]) < 0.01


@pytest.mark.parametrize("p", ITERATIONS)
def test_joint_training_selects_as_published(p):
    assert joint_mirror(p, min(ITERATIONS[p], 4000)) == JOINT_SELECTIONS[p]
