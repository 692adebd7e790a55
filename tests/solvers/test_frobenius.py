"""The small Frobenius solver where W is large and a margin is a small share of its terms."""

import numpy as np

from attsvm import Problem, solve


def problems():
    """Systems of nearly dependent rows: least norms up to 1e4."""
    for seed in range(16):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(6, 14))
        rows = rng.standard_normal((m, m))
        mixed = rows[:-1].T @ rng.dirichlet(np.ones(m - 1))
        rows[-1] = -mixed + 1e-4 * rng.standard_normal(m)
        yield Problem.from_rows(rows, b=rng.random(m) + 0.5)


def test_a_large_norm_is_still_certified():
    norms = []
    for problem in problems():
        best = solve(problem)
        assert best.status == "optimal", best
        assert best.verify(exact=True).ok
        norms.append(best.upper)
    assert max(norms) > 1000
