"""Paths where branches of local minimisers cross: plateaus, jumps, and selections in between.

Two selections of one input, in closed form: token a is reached by a short prompt (key (40, 0),
score 0.9), the best token b only by a longer one in the opposite direction (key (−2, 0), score 1).
Two worse tokens with keys (0, 5) and (0, −3) tilt the prompts.
"""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from attsvm import Problem, Selection, Tokens, Unsupported, solve
from attsvm.datasets import EXAMPLES
from attsvm.norms import norm_of
from attsvm.theory.regularization_path.ball import BallTask
from attsvm.theory.regularization_path.descent import descend
from attsvm.theory.regularization_path.excess import Excess
from attsvm.theory.regularization_path.multistart import least_selections, sure_excess
from attsvm.theory.regularization_path.paths import regpath
from attsvm.theory.regularization_path.penalty import penalty_path
from attsvm.training.heads import head_of
from attsvm.training.heads.nonlinear import Quadratic
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate

KEYS = np.array([[40.0, 0.0], [-2.0, 0.0], [0.0, 5.0], [0.0, -3.0]])
SCORES = np.array([0.9, 1.0, 0.0, 0.0])
NEAR, BEST = 0, 1


def crossing():
    """The tokens and the head of the two selections."""
    return Tokens(SCORES[None, :, None], keys=KEYS[None], labels=[1.0]), [1.0]


def task_of(tokens, v):
    best, loss = Selection.best(tokens, v).indices, loss_of("logistic")
    return BallTask(
        Batch.of(tokens), model_of("prompt"), norm_of("frobenius"), loss, head_of(v, tokens.d), 1,
        Excess.over(tokens, best, v, loss), tokens=tokens,
    )  # fmt: skip


def plain_loss(p):
    """The loss of the two selections in plain floats."""
    s = KEYS @ p
    s = np.exp(s - s.max())
    return np.logaddexp(0.0, -(s @ SCORES) / s.sum())


def losses_at(tokens, v, p):
    """Losses at prompts (B, d)."""
    batch = Batch.of([tokens] * len(p))
    return evaluate(model_of("prompt"), {"p": p}, batch, head_of(v, tokens.d),
                    loss_of("logistic")).loss  # fmt: skip


def test_a_point_on_a_plateau_is_the_stationary_one():
    """At radius 1 the near token wins, and the loss is that of it to e^−40: flat in floats."""
    tokens, v = crossing()
    task = task_of(tokens, v)
    start = np.array([[1.0], [0.3]])
    flat = descend(task, start, 1.0, task.geometry)
    assert task.residual(flat)[0] > 1e-3  # the plateau is real: a descent of the loss ends anywhere
    end = task.least(start, 1.0)
    assert task.residual(end)[0] < 1e-12

    def slope(t):
        """dL/dt, up to ℓ', at the angle t on the circle."""
        p = (mpmath.cos(t), mpmath.sin(t))
        turn = (-mpmath.sin(t), mpmath.cos(t))
        w = [mpmath.exp(a * p[0] + b * p[1]) for a, b in KEYS.tolist()]
        dw = [x * (a * turn[0] + b * turn[1]) for x, (a, b) in zip(w, KEYS.tolist(), strict=True)]
        return mpmath.fdot(dw, SCORES.tolist()) * sum(w) - mpmath.fdot(w, SCORES.tolist()) * sum(dw)

    with mpmath.workdps(80):
        angle = float(mpmath.findroot(slope, mpmath.log(mpmath.mpf("0.6")) / 8))
    assert abs(angle) > 0.01
    assert np.arctan2(end[1, 0], end[0, 0]) == pytest.approx(angle, abs=1e-9)
    path = regpath(tokens, model="prompt", head=v, radii=[0.5, 1.0, 3.0], starts=2)
    assert_allclose(path.weights["p"][1], end[:, 0], atol=1e-9)
    assert path.residual.max() < 1e-12
    assert path.weights["p"][1, 0] > 0 > path.weights["p"][2, 0]


@pytest.mark.parametrize("seed", range(4))
def test_balls_of_planar_prompts_against_all_angles(seed):
    """Three inputs in the plane: no angle, and no smaller radius, has a lower loss."""
    a = EXAMPLES["sphere"](3, 5, 2, seed=seed)
    tokens = Tokens(a["X"], labels=a["y"])
    radii = np.geomspace(0.3, 300.0, 9)
    path = regpath(tokens, model="prompt", head=a["v"], radii=radii, starts=1)
    angles = np.linspace(0, 2 * np.pi, 20000, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    least = np.minimum.accumulate([losses_at(tokens, a["v"], R * circle).min() for R in radii])
    assert (path.loss <= least + 1e-12).all()
    edge = path.size > 0.999 * radii
    assert (path.residual[edge] < 1e-10).all()


def penalised(p, penalty):
    return plain_loss(p) + penalty * (p @ p) / 2


def branches(penalty):
    """The penalised minimisers near the axis on both sides, in plain floats."""
    found = []
    for sign in (1.0, -1.0):
        grid = [np.array([sign * r, t * r]) for r in np.geomspace(0.01, 8.0, 120)
                for t in np.linspace(-0.5, 0.5, 21)]  # fmt: skip
        start = min(grid, key=lambda p: penalised(p, penalty))
        options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 4000}
        found.append(
            minimize(penalised, start, args=(penalty,), method="Nelder-Mead", options=options)
        )
    return found


def test_penalties_on_both_sides_of_a_jump():
    """Next to the λ at which two branches are equally good, each side has its own minimiser."""
    low, high = 1e-4, 1e-1
    for _ in range(25):
        middle = np.sqrt(low * high)
        near, far = branches(middle)
        low, high = (middle, high) if far.fun < near.fun else (low, middle)
    tokens, v = crossing()
    penalties = np.array([1e-1, 1.02 * high, 0.98 * low, 1e-8])
    path = penalty_path(tokens, penalties, model="prompt", head=v, starts=1)
    p = path.weights["p"]
    assert (np.sign(p[:, 0]) == [1, 1, -1, -1]).all()
    assert path.size[2] > 3 * path.size[1]  # the jump
    for k in range(3):
        best = min(branches(penalties[k]), key=lambda end: end.fun)
        assert penalised(p[k], penalties[k]) <= best.fun + 1e-14
        assert_allclose(p[k], best.x, atol=1e-4 * path.size[k])
    assert_allclose(path.log_penalty, np.log(penalties), atol=1e-8)
    assert path.residual.max() < 1e-12
    # The ball whose radius lies in the jump has a minimiser, which is stationary for none of them.
    ball = regpath(tokens, model="prompt", head=v, radii=[np.sqrt(path.size[1] * path.size[2])])
    own = np.exp(ball.log_penalty[0])
    both = branches(own)
    assert min(end.fun for end in both) < penalised(ball.weights["p"][0], own) - 1e-6


def test_penalised_paths_of_other_models():
    """Weights in another norm, and factors: the penalty is met by the slope."""
    a = EXAMPLES["sphere"](4, 4, 5, seed=1)
    tokens = Tokens(a["X"], queries=a["z"], labels=a["y"])
    penalties = [1e-3, 1e-12, 1e-100]
    for options, accuracy in (
        ({"norm": "l1.75"}, 1e-6),
        ({"norm": "frobenius"}, 1e-8),
        ({"model": "factored"}, 1e-3),
    ):
        path = penalty_path(tokens, penalties, head=a["v"], starts=1, **options)
        assert_allclose(path.log_penalty, np.log(penalties), atol=accuracy)
        assert path.residual.max() < 1e-4
        assert path.share[-1] > 0.95


def test_a_penalty_without_a_floor_is_refused():
    tokens, _ = crossing()
    head = Quadratic(np.array([[1.0]]), 0.3)
    with pytest.raises(Unsupported, match="infimum"):
        penalty_path(tokens, [1e-2], model="prompt", head=head, loss="linear")


def test_least_selections_are_the_least_of_all():
    scores = np.random.default_rng(0).standard_normal((4, 3))
    scores[1, 2] = -np.inf
    loss = loss_of("exponential")
    every = np.stack(np.meshgrid(*[range(3)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    every = every[every[:, 1] != 2]
    costs = np.exp(-scores[np.arange(4), every]).sum(axis=1)
    order = np.argsort(costs)
    assert (least_selections(scores, loss, 11) == every[order[:11]]).all()
    assert len(least_selections(scores, loss, 1000)) == len(every)


def test_below_the_sure_excess_the_best_tokens_lead():
    """On both sides: points below it lead with the best tokens, points above it need not."""
    a = EXAMPLES["sphere"](3, 4, 6, seed=3)
    tokens, v = Tokens(a["X"], labels=a["y"]), a["v"]
    task = task_of(tokens, v)
    best, sure = Selection.best(tokens, v).indices, sure_excess(tokens.scores(v), task.loss)
    W = solve(Problem.of(tokens, Selection.best(tokens, v))).W
    draw = np.random.default_rng(0)
    seen = {True: [], False: []}
    for size in np.geomspace(0.1, 30.0, 400):
        x = size * (W + 0.5 * draw.standard_normal(W.shape) * np.linalg.norm(W) / np.sqrt(W.size))
        leads = bool((task.at(x)[0].top[0] == best).all())
        seen[task.log_excess(x) < sure].append(leads)
    assert len(seen[True]) > 20 and all(seen[True])
    assert not all(seen[False])
