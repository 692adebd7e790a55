"""Two inputs of two tokens on which descent from a far start never selects the best tokens.

With two tokens the others trivially share one score. The key differences are Δ₁ = (1, 0) and
Δ₂ = (−2, 1): the prompt (1, 3) has both margins 1. At (r, h) input 1 pulls by about e^−r along Δ₁
and input 2, whose best token is behind by 2r − h, by about e^(h−2r) along Δ₂. So dh/dr is about
e^(h−r), and h grows by no more than about e^−R on the whole way from (R, 0) to infinity: the
direction tends to (1, 0), which leaves the best token of input 2 behind for ever.
"""

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, measures, solve, train

R = 6.0


def instance():
    """The tokens, their head, and the certified direction of the best tokens."""
    X = np.array([[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [[-2.0, 1.0, 1.0], [0.0, 0.0, 0.0]]])
    tokens = Tokens(X, keys=X * [1.0, 1.0, 0.0], labels=[1, 1])
    best = solve(Problem.of(tokens, Selection.best(tokens, [0.0, 0.0, 1.0])))
    np.testing.assert_allclose(best.W[:, 0], [1.0, 3.0, 0.0], atol=1e-9)
    return tokens, best


@pytest.mark.parametrize(
    ("optimizer", "lr", "steps"), [("ngd", 0.05, 20_000), ("gd", 0.5, 200_000)]
)
def test_a_far_start_keeps_its_direction(optimizer, lr, steps):
    tokens, best = instance()
    path = train(
        tokens, model="prompt", head=[0.0, 0.0, 1.0], optimizer=optimizer, lr=lr, steps=steps,
        init={"p": [R, 0.0, 0.0]},
    )  # fmt: skip
    p = path.weights["p"][-1, 0]
    assert p[0] > R + 3 and 0 < p[1] < 2 * np.exp(-R)
    assert path.selection[0].tolist() == [0, 1]
    assert p[0] / np.linalg.norm(p) > 1 - 1e-6
    assert measures.correlation(p[:, None], best) < 0.32  # that of (1, 0): 1/√10


def test_a_start_at_zero_finds_the_best_tokens():
    tokens, best = instance()
    path = train(
        tokens, model="prompt", head=[0.0, 0.0, 1.0], optimizer="ngd", lr=0.05, steps=20_000
    )
    assert path.selection[0].tolist() == [0, 0]
    assert measures.correlation(path.weights["p"][-1, 0][:, None], best) > 0.999
