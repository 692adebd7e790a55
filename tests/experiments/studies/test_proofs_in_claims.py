"""What claims on proofs stand on: descent by its definition, rooms of directions, and chances."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from attsvm import proof_of_convergence, train
from attsvm.experiments.studies.beyond.basins_by_proof import CLAIM
from attsvm.experiments.studies.beyond.proved_runs import as_few
from attsvm.experiments.studies.shared.longer_walks import walk_on
from attsvm.experiments.studies.shared.random_instances import self_attending
from attsvm.experiments.studies.shared.start_planes import PlanePoint, limit_room
from attsvm.theory.optima import local_optima
from tests.tolerances import REPLAYED


@pytest.mark.parametrize(("optimizer", "lr"), [("ngd", 0.1), ("gd", 5.0), ("nmirror:1.75", 0.1)])
def test_a_walk_by_definition_is_that_of_training(optimizer, lr):
    pairs = [self_attending((3, 4, 4), seed) for seed in range(3)]
    tokens, heads = [t for t, _ in pairs], np.stack([v for _, v in pairs])
    start = 5 * np.random.default_rng(0).standard_normal((3, 4, 4))
    path = train(tokens, head=heads, optimizer=optimizer, lr=lr, steps=60, init={"W": start})
    walk = walk_on(tokens, heads, start, np.full(3, lr), steps=60, plain=optimizer == "gd",
                   p=float(optimizer.partition(":")[2] or 2))  # fmt: skip
    assert walk.W[-1] == pytest.approx(path.weights["W"][-1], rel=REPLAYED, abs=REPLAYED)
    assert np.array_equal(walk.least > 0, (path.changed <= 0).all(axis=1))


@pytest.mark.parametrize("kind", ["plane", "slice"])
def test_a_solution_has_room_and_what_has_room_is_proved_far_out(kind):
    here = PlanePoint.of(CLAIM.quick, kind, 3)
    for alpha, found in local_optima(here.tokens, here.v).local:
        u = found.certificate.W / np.linalg.norm(found.certificate.W)
        assert limit_room(here, u, found) > 0, alpha
        side = np.linalg.norm(u) * np.random.default_rng(1).standard_normal(u.shape)
        for turn in np.geomspace(1e-3, 3, 12):
            W = u + turn * side
            if not np.array_equal(here.judge.selected(W), alpha):
                break
            if limit_room(here, W / np.linalg.norm(W), found) > 0.01:
                far = 1e6 * W / np.linalg.norm(W)
                assert proof_of_convergence(here.tokens, far, head=here.v, lr=here.lr).proved


@pytest.mark.parametrize("given", [(10, 10, 100, 100), (3, 10, 45, 100), (0, 5, 12, 12)])
def test_a_chance_is_hypergeometric(given):
    few, of, earlier, of_earlier = given
    law = hypergeom(of + of_earlier, few + earlier, of)
    assert as_few(*given) == pytest.approx(law.cdf(few), rel=1e-9)
