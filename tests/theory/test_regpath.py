"""Regularization paths against certified directions, brute force and high precision."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from attsvm import (
    BadTokens,
    Problem,
    Selection,
    Tokens,
    Unsupported,
    relaxed,
    solve,
)
from attsvm.datasets import EXAMPLES
from attsvm.norms import norm_of
from attsvm.theory.measures import correlation
from attsvm.theory.regularization_path.ball import BallTask, descend, stationarity
from attsvm.theory.regularization_path.excess import Excess, log_loss
from attsvm.theory.regularization_path.paths import (
    least_selections,
    regpath,
    sure_excess,
)
from attsvm.training.heads import Quadratic, head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate
from tests.zoo import example


def task_of(tokens, v, model="weight", norm="frobenius", loss="logistic"):
    best = Selection.best(tokens, v).indices
    optimizer = loss_of(loss)
    return BallTask(
        Batch.of(tokens), model_of(model), norm_of(norm), optimizer, head_of(v, tokens.d),
        min(tokens.keys.shape[2], tokens.queries.shape[1]), Excess.over(tokens, best, v, optimizer),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("norm", "seed"), [("frobenius", 0), ("frobenius", 1), ("l1.75", 1), ("nuclear", 0)]
)
def test_the_path_ends_at_the_certified_direction(norm, seed):
    tokens, v = example("sphere", seed=seed)
    model = "factored" if norm == "nuclear" else "weight"
    path = regpath(tokens, model=model, norm=norm, head=v, starts=2)
    least = path.target.require().upper
    assert_allclose(path.radii[[0, -1]], [least, 1e4 * least])
    assert path.share[-1] >= 0.999
    if norm != "nuclear":
        assert path.correlation[-1] >= 0.999
        assert path.residual.max() < 1e-10
    assert path.residual.max() < 1e-4
    assert_allclose(path.size, path.radii, rtol=1e-6)
    # Neither the certified direction nor a smaller ball does better.
    task, unit = task_of(tokens, v), path.target.W / least
    certified = [task.log_excess(R * unit) for R in path.radii]
    assert (path.log_excess <= np.array(certified) + 1e-9).all()
    assert (np.diff(path.log_excess) < 0).all()
    assert path.loss[-1] == pytest.approx(path.infimum, abs=1e-15)
    assert path.matrices().shape == (13, 1, 10, 10)


def test_without_the_certified_start_the_ball_is_still_minimised():
    """Small balls of a planar prompt: every start against a fine grid of the disk."""
    tokens, v = example("multi-input-planar")
    radii = [0.5, 2.0, 6.0]
    path = regpath(tokens, model="prompt", head=v, radii=radii, starts=3)
    task = task_of(tokens, v, "prompt")
    free = [k for k in range(tokens.keys.shape[2]) if np.abs(tokens.keys[:, :, k]).max() > 0]
    assert len(free) == 2
    for k, R in enumerate(radii):
        grid = []
        for share, count in ((0.25, 90), (0.5, 90), (0.75, 90), (1.0, 720)):
            for angle in np.linspace(0, 2 * np.pi, count):
                p = np.zeros((tokens.keys.shape[2], 1))
                p[free, 0] = R * share * np.cos(angle), R * share * np.sin(angle)
                grid.append(task.log_excess(p))
        assert path.log_excess[k] <= min(grid) + 1e-12
        assert path.log_excess[k] >= min(grid) - 1e-3


def test_an_interior_minimum_is_found():
    """Two inputs that pull a one-dimensional prompt apart: the loss is least at a finite p."""
    X = np.array([[[1.0, 10.0], [0.0, 0.0]], [[-1.0, 6.0], [0.0, 0.0]]])
    tokens = Tokens(X, keys=X[:, :, :1], labels=[1.0, 1.0])
    v = [0.0, 1.0]
    task = task_of(tokens, v, "prompt")
    line = np.linspace(-5, 5, 20001)
    losses = [task.at(np.array([[p]]))[0].loss[0] for p in line]
    best = line[int(np.argmin(losses))]
    path = regpath(tokens, model="prompt", head=v, radii=[0.1, 5.0, 50.0])
    assert path.target is None and np.isnan(path.correlation).all()
    assert -5 < best < -0.1 and path.weights["p"][0, 0] == pytest.approx(-0.1)
    assert_allclose(path.weights["p"][1:, 0], best, atol=1e-3)
    assert (path.size[1:] < 5).all()


def test_joint_paths_depend_on_the_growth_of_the_second_radius():
    tokens, _ = example("joint-relaxed")
    keep = Selection.of(tokens, [1, 1, 1])
    limits = {
        "mm": solve(Problem.of(tokens, keep)),
        "relaxed": solve(relaxed(tokens, keep)),
    }
    assert_allclose(limits["mm"].W.ravel(), [1.25, 0.25], atol=1e-6)
    for second, near, value in (
        (np.sqrt, "mm", 0.9995),
        (lambda R: R, "relaxed", 0.9997),
        (lambda R: R * R, "relaxed", 1.0),
    ):
        path = regpath(
            tokens, model="joint-prompt", keep=keep, second=second, radii=[5, 20, 100], starts=1
        )
        cosines = {key: correlation(path.matrices()[:, 0], best) for key, best in limits.items()}
        assert cosines[near][1] == pytest.approx(value, abs=6e-5)
        assert cosines[near][2] >= 0.999
        other = "mm" if near == "relaxed" else "relaxed"
        assert cosines[other][2] < 0.99
        assert path.residual.max() < 1e-10
        assert_allclose(path.weights["v"][-1] / second(100), [0, 1], atol=1e-3)


def test_joint_weight_path_in_another_norm():
    tokens, _ = example("joint-tight")
    tokens = Tokens(tokens.X, queries=np.ones((3, 1)), labels=tokens.labels)
    keep = Selection.of(tokens, [1, 1, 1])
    path = regpath(
        tokens, model="joint-weight", norm="l3", keep=keep, second=lambda R: R, radii=[10, 1000],
        starts=1,
    )  # fmt: skip
    assert path.correlation[-1] >= 0.999 and path.share[-1] >= 0.99
    v = solve(Problem.of_labels(tokens, keep), "l3").W.ravel()
    assert correlation(path.weights["v"][-1], v) >= 0.999


def test_penalties_are_met_and_lead_to_the_same_direction():
    tokens, v = example("multi-input")
    penalties = [1e-2, 1e-10, 1e-300]
    path = regpath(tokens, penalties=penalties, model="prompt", head=v, starts=1)
    assert_allclose(path.log_penalty, np.log(penalties), rtol=1e-6)
    assert path.correlation[-1] > 0.9999
    # The first one directly: stationary for L + λ‖p‖²/2 in plain arithmetic.
    task = task_of(tokens, v, "prompt")
    p = path.weights["p"][0][:, None]
    _, G, scale = task.at(p)
    assert_allclose(G * np.exp(scale), -1e-2 * p, atol=1e-8)


def test_a_nonlinear_head_has_no_floor_and_no_target():
    tokens, v = example("single-input-global")
    head = Quadratic(np.array([v]), 0.3)
    path = regpath(tokens, model="prompt", head=head, radii=[1, 3, 9], starts=3)
    assert np.isnan(path.infimum) and np.isnan(path.log_excess).all() and path.target is None
    assert (np.diff(path.loss) <= 0).all()
    assert path.residual[0] < 1e-6


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_excess_in_high_precision(loss):
    """A direction of margin 60: the excess is about e^−60, far below the last digit of the loss."""
    tokens, v = example("sphere", 3, 4, 5, seed=2)
    best = solve(Problem.of(tokens, Selection.best(tokens, v)))
    W = 60 * best.W
    task = task_of(tokens, v, loss=loss)
    with mpmath.workdps(80):
        total = mpmath.mpf(0)
        value = {
            "logistic": lambda x: mpmath.log1p(mpmath.exp(-x)),
            "exponential": lambda x: mpmath.exp(-x),
            "linear": lambda x: -x,
        }[loss]
        for i in range(3):
            z = mpmath.matrix(W.tolist()) * mpmath.matrix(tokens.queries[i].tolist())
            X = mpmath.matrix(tokens.X[i].tolist())
            scores = [tokens.labels[i] * mpmath.fdot(X[t, :], v.tolist()) for t in range(4)]
            exps = [mpmath.exp(mpmath.fdot(X[t, :], z)) for t in range(4)]
            f = mpmath.fdot(exps, scores) / sum(exps)
            total += (value(f) - value(max(scores))) / 3
        expected = float(mpmath.log(total))
    assert expected < -50
    assert task.log_excess(W) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("scale", [1.0, 200.0])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_objective_has_its_slope(loss, scale):
    tokens, v = example("sphere", 3, 4, 5, seed=1)
    task = task_of(tokens, v, loss=loss)
    W = scale * solve(Problem.of(tokens, Selection.best(tokens, v))).W
    _, slope = task(W)
    step = np.random.default_rng(0).standard_normal(W.shape)
    h = 1e-5
    numeric = (task(W + h * step)[0] - task(W - h * step)[0]) / (2 * h)
    assert np.vdot(slope, step) == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("norm", ["frobenius", "l1.75", "l3"])
def test_descend_finds_the_sharp_point_of_a_linear_function(norm):
    geometry = norm_of(norm)
    G = np.random.default_rng(3).standard_normal((4, 3))
    start = np.random.default_rng(4).standard_normal((4, 3))
    end = descend(lambda x: (float(np.vdot(G, x)), G), start, 7.0, geometry)
    assert_allclose(end, -7 * geometry.dual_maximizer(G), atol=1e-4)
    assert stationarity(geometry, end, G)[0] < 1e-9
    assert stationarity(geometry, -end, G)[0] == pytest.approx(2.0)


def test_factors_leave_a_saddle():
    """From a rank-one start descent keeps rank one; the path's minimiser is stationary in W."""
    tokens, v = example("sphere", seed=12)
    task = task_of(tokens, v, "factored", "nuclear")
    flat = np.zeros((20, 10))
    flat[:, 0] = task.random(np.random.default_rng(0))[:, 0]
    R = 30.0
    stuck = descend(task, flat, task.radius(R), task.geometry)
    assert np.linalg.matrix_rank(task.matrix(stuck)) == 1 and task.residual(stuck)[0] > 0.01
    end = task.least(flat, R)
    assert task.residual(end)[0] < 1e-4
    assert task(end)[0] < task(stuck)[0] - 0.01


def test_log_loss_past_underflow():
    loss = loss_of("logistic")
    assert log_loss(loss, np.array([1.0, 2.0])) == pytest.approx(
        np.log(loss.value(np.array([1.0, 2.0])).mean())
    )
    assert log_loss(loss, np.array([2000.0, 2000.0])) == pytest.approx(-2000.0)


def test_what_cannot_be_done_is_refused():
    tokens, v = example("sphere", 2, 3, 3, seed=0)
    for options in (
        {"norm": "nuclear", "head": v},
        {"norm": "max", "head": v},
        {"model": "factored", "norm": "l3", "head": v},
        {"model": "prompt", "head": v},
        {"model": "joint-weight", "head": v, "second": np.sqrt},
        {"model": "joint-weight"},
        {"head": v, "second": np.sqrt},
        {"head": v, "radii": [1.0], "penalties": [1.0]},
    ):
        with pytest.raises(Unsupported):
            regpath(tokens, **options)
    for options in (
        {"radii": [2.0, 1.0], "head": v},
        {"radii": [-1.0], "head": v},
        {"model": "joint-weight", "second": np.sqrt},
    ):
        with pytest.raises(BadTokens):
            regpath(tokens, **options)
    with pytest.raises(BadTokens, match="decreasing"):
        regpath(tokens, penalties=[1e-4, 1e-2], head=v)


KEYS = np.array([[40.0, 0.0], [-2.0, 0.0], [0.0, 5.0], [0.0, -3.0]])
SCORES = np.array([0.9, 1.0, 0.0, 0.0])
NEAR, BEST = 0, 1


def crossing():
    """The tokens and the head of the two selections."""
    return Tokens(SCORES[None, :, None], keys=KEYS[None], labels=[1.0]), [1.0]


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
    task = replace(task_of(tokens, v, "prompt"), tokens=tokens)
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
    path = regpath(tokens, penalties=penalties, model="prompt", head=v, starts=1)
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
    tokens, v = example("sphere", 4, 4, 5, seed=1)
    penalties = [1e-3, 1e-12, 1e-100]
    for options, accuracy in (
        ({"norm": "l1.75"}, 1e-6),
        ({"norm": "frobenius"}, 1e-8),
        ({"model": "factored"}, 1e-3),
    ):
        path = regpath(tokens, penalties=penalties, head=v, starts=1, **options)
        assert_allclose(path.log_penalty, np.log(penalties), atol=accuracy)
        assert path.residual.max() < 1e-4
        assert path.share[-1] > 0.95


def test_a_penalty_without_a_floor_is_refused():
    tokens, _ = crossing()
    head = Quadratic(np.array([[1.0]]), 0.3)
    with pytest.raises(Unsupported, match="infimum"):
        regpath(tokens, penalties=[1e-2], model="prompt", head=head, loss="linear")


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
    task = replace(task_of(tokens, v, "prompt"), tokens=tokens)
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
