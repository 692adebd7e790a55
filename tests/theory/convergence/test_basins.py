"""Certified basins: starts inside are held, by runs that know nothing of them."""

import numpy as np
import pytest

import attsvm
from attsvm import Tokens, basin, train
from attsvm.errors import AttsvmError, NotConverged, Unsupported
from tests.zoo import example


def instance(seed, shape=(3, 4, 4)):
    return example("sphere", *shape, seed=seed)


def shaken(held, angle, R, rng):
    """A matrix of norm R at this angle from W^mm, in a random direction."""
    ray = held.direction / np.linalg.norm(held.direction)
    off = rng.standard_normal(ray.shape)
    off -= (off * ray).sum() * ray
    return R * (np.cos(angle) * ray + np.sin(angle) * off / np.linalg.norm(off))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_starts_in_a_cone_are_held(seed):
    tokens, v = instance(seed)
    best = attsvm.Selection.best(tokens, v).indices
    held = basin(tokens, best, head=v, lr=0.1)
    rng = np.random.default_rng(seed)
    some = np.isfinite(held.norms).nonzero()[0]
    assert len(some)
    starts = []
    for k in (some[0], some[len(some) // 2], some[-1]):
        for R in (1.001 * held.norms[k], 3 * held.norms[k]):
            W = shaken(held, 0.999 * held.angles[k], R, rng)
            assert held.holds(W) and held.least_norm(0.999 * held.angles[k]) <= held.norms[k]
            starts.append(W)
    path = train([tokens] * len(starts), head=v, steps=3000, lr=0.1, init={"W": np.stack(starts)})
    assert (path.selection == best).all() and (path.changed == 0).all()


def test_what_is_held_depends_on_the_step_and_not_on_the_scale():
    tokens, v = instance(1)
    best = attsvm.Selection.best(tokens, v).indices
    short, long = (basin(tokens, best, head=v, lr=lr) for lr in (0.01, 1.0))
    assert (short.norms <= long.norms * 1.01).all()
    grown = Tokens(tokens.X * 2.0**40, queries=tokens.queries, labels=tokens.labels)
    same = basin(grown, best, head=v * 2.0**-40, lr=0.01 * 2.0**-40)
    some = np.isfinite(short.norms)
    assert np.array_equal(some, np.isfinite(same.norms))
    assert np.allclose(same.norms[some] * 2.0**40, short.norms[some], rtol=1e-2)


def test_what_is_not_held_is_not_said_to_be():
    tokens, v = instance(0)
    best = attsvm.Selection.best(tokens, v).indices
    held = basin(tokens, best, head=v)
    assert not held.holds(np.zeros((4, 4))) and not held.holds(-1e6 * held.direction)
    assert not held.holds(np.full((4, 4), np.nan)) and held.holds(1e6 * held.direction)
    assert "Basin(" in repr(held)
    with pytest.raises(Unsupported, match="shape"):
        held.holds(np.zeros(4))


def test_a_selection_that_is_not_locally_optimal_has_no_basin():
    tokens, v = instance(0)
    worst = (tokens.labels[:, None] * (tokens.X @ v)).argmin(axis=1)
    with pytest.raises(NotConverged, match="scores more"):
        basin(tokens, worst, head=v)
    with pytest.raises(AttsvmError, match="positive step"):
        basin(tokens, worst, head=v, lr=-1.0)
