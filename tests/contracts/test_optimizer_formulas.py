"""Each optimizer against its formula written plainly, and where plain floats would fail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm.training.optimizers import Gradient, optimizer_of
from attsvm.training.optimizers.spectral import approximate
from tests.tolerances import ROUNDING
from tests.zoo import orthonormal

SHAPE = (2, 4, 3)
LR = np.array([0.1, 0.03])


def of(G, log_scale=0.0):
    return Gradient({"W": G}, {"W": np.full(len(G), log_scale)})


def draws(count, *, seed=0, shape=SHAPE):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for _ in range(count)]


def run(optimizer, W, gradients, *, lr=LR, loss=1.0):
    """Where the optimizer leads from W along gradients, each of log scale 0 unless a Gradient."""
    params, state = {"W": W}, optimizer.init({"W": W})
    for t, g in enumerate(gradients):
        g = g if isinstance(g, Gradient) else of(g)
        params, state = optimizer.update(params, g, state, lr, np.full(len(W), loss), t)
    return params["W"]


def frobenius(W):
    return np.sqrt((W**2).sum(axis=(1, 2), keepdims=True))


STEP = LR[:, None, None]
W0 = draws(1, seed=9)[0]


def test_plain_formulas():
    G = draws(1)[0]
    assert_allclose(
        run(optimizer_of("gd"), W0, [of(G, 2.0)]), W0 - STEP * np.exp(2) * G, rtol=ROUNDING
    )
    assert_allclose(run(optimizer_of("ngd"), W0, [G]), W0 - STEP * G / frobenius(G), rtol=ROUNDING)
    assert_array_equal(run(optimizer_of("sign"), W0, [G]), W0 - STEP * np.sign(G))
    assert_array_equal(run(optimizer_of("gd"), W0, [of(G, -900.0)]), W0)


def test_a_step_beyond_floats_is_not_cut():
    G = draws(1)[0]
    G[:, 0, 0] = 0.0
    for W in (
        run(optimizer_of("gd"), W0, [of(G, 800.0)]),
        run(optimizer_of("polyak"), W0, [of(G, -900.0)], loss=1.0),
    ):
        assert_array_equal(W[:, 0, 0], W0[:, 0, 0])
        assert_array_equal(W.reshape(2, -1)[:, 1:], -np.inf * np.sign(G.reshape(2, -1)[:, 1:]))
    W = run(optimizer_of("mirror:1.05"), np.zeros(SHAPE), [of(G, 50.0)])
    assert_array_equal(W, np.where(G == 0, 0.0, -np.inf * np.where(G == 0, 1.0, G)))
    stopped = run(optimizer_of("gd"), W0, [of(G, 800.0)], lr=np.zeros(2))
    assert not np.isfinite(stopped).all()


@pytest.mark.parametrize("p", [1.5, 1.75, 2.0, 3.0, 4.0])
def test_mirror_is_the_papers_update(p):
    gradients, q = draws(20), p / (p - 1)
    for name in ("mirror", "nmirror"):
        W = W0
        for G in gradients:
            if name == "nmirror":
                G = G / (np.abs(G) ** q).sum(axis=(1, 2), keepdims=True) ** (1 / q)
            u = np.sign(W) * np.abs(W) ** (p - 1) - STEP * G
            W = np.sign(u) * np.abs(u) ** (1 / (p - 1))
        assert_allclose(run(optimizer_of(f"{name}:{p}"), W0, gradients), W, rtol=1e3 * ROUNDING)


def test_mirror_does_not_stick_where_the_weight_underflows():
    # |u| = 0.2: the weight 0.2^1000 is zero in floats, u is not
    optimizer, G = optimizer_of("mirror:1.001"), -np.ones((1, 1, 1))
    lr = np.full(1, 0.2)
    assert run(optimizer, np.zeros((1, 1, 1)), [G], lr=lr) == 0
    assert_allclose(run(optimizer, np.zeros((1, 1, 1)), [G] * 5, lr=lr), 1.0, rtol=1e3 * ROUNDING)


def test_mirror_takes_up_weights_changed_from_outside():
    optimizer, (G, H) = optimizer_of("mirror:3"), draws(2)
    loss = np.ones(2)
    params, state = optimizer.update({"W": W0}, of(G), optimizer.init({"W": W0}), LR, loss, 0)
    moved = params["W"].copy()
    moved[0, 0] = 7.0
    end, _ = optimizer.update({"W": moved}, of(H), state, LR, loss, 1)
    assert_allclose(end["W"], run(optimizer, moved, [H]), rtol=1e2 * ROUNDING)


def plain_adam(W, gradients, *, beta1, beta2, eps):
    """The update of torch.optim.Adam with lr LR, as its documentation writes it."""
    m, v = np.zeros_like(W), np.zeros_like(W)
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        W = W - STEP * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return W


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.95), (0.0, 0.9), (0.0, 0.0), (0.5, 0.25)])
@pytest.mark.parametrize("eps", [0.0, 1e-8, 0.1])
def test_adam_is_its_formula(betas, eps):
    gradients = [10.0 ** (k % 7 - 3) * G for k, G in enumerate(draws(100))]
    options = {"beta1": betas[0], "beta2": betas[1], "eps": eps}
    W = run(optimizer_of("adam", **options), W0, gradients)
    plain = plain_adam(W0, gradients, **options)
    assert_allclose(W, plain, rtol=10 * ROUNDING, atol=10 * ROUNDING)


def test_momentum_that_cancels_is_forgotten():
    # m = ½G, then ½·½G − ¼G = 0 exactly: the third gradient decides, however small
    G, H = draws(2)
    gradients = [of(G), of(-0.5 * G), of(H, -900.0)]
    assert_array_equal(
        run(optimizer_of("signum", momentum=0.5), W0, gradients),
        run(optimizer_of("sign"), W0, [G, H]),
    )


def test_muon_is_its_formula():
    W, m = W0, np.zeros(SHAPE)
    for G in draws(30):
        m = 0.95 * m + 0.05 * G
        U, _, Vt = np.linalg.svd(m, full_matrices=False)
        W = W - STEP * (U @ Vt)
    assert_allclose(run(optimizer_of("muon"), W0, draws(30)), W, rtol=1e2 * ROUNDING)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_spectral_steps_of_planted_singular_values(shape, rank):
    rng = np.random.default_rng(3)
    U, V = (orthonormal(rng, size, rank) for size in shape)
    s = np.array([1.0, 0.7, 0.2, 0.1])[:rank]
    G, lr = ((U * s) @ V.T)[None], np.full(1, 0.5)
    W = run(optimizer_of("spectral"), np.zeros((1, *shape)), [G], lr=lr)[0]
    assert_allclose(W, -0.5 * U @ V.T, atol=1e2 * ROUNDING)
    # Newton–Schulz keeps the singular vectors and brings the values near 1
    for D in (
        -2
        * run(optimizer_of("spectral", newton_schulz=True), np.zeros((1, *shape)), [G], lr=lr)[0],
        approximate(1e-200 * G, np.full(1, -900.0))[0],
    ):
        core = U.T @ D @ V
        assert_allclose(D, U @ core @ V.T, atol=1e2 * ROUNDING)
        assert_allclose(core, np.diag(np.diag(core)), atol=1e2 * ROUNDING)
        assert (np.diag(core) > 0.65).all() and (np.diag(core) < 1.25).all()
    assert optimizer_of("spectral", newton_schulz=True).norm is None


@pytest.mark.parametrize("log_scale", [-600.0, 0.0, 300.0])
def test_polyak_on_a_quadratic(log_scale):
    # L = c ½(‖W − A‖² + ‖v − a‖²), g = c (x − x*): the step is η/2 (x − x*) in both blocks at once
    rng = np.random.default_rng(1)
    best = {"W": rng.standard_normal((2, 4, 3)), "v": rng.standard_normal((2, 5))}
    params = {x: rng.standard_normal(a.shape) for x, a in best.items()}
    optimizer, lr = optimizer_of("polyak"), np.array([1.0, 2.0])
    state, start = optimizer.init(params), params
    for t in range(3):
        apart = {x: params[x] - best[x] for x in best}
        loss = sum((d**2).reshape(2, -1).sum(axis=1) for d in apart.values()) / 2
        # the two blocks are handed over in different scaled forms of the same gradient
        scaled = Gradient(
            {"W": apart["W"], "v": apart["v"] * np.exp(-5.0)},
            {"W": np.full(2, log_scale), "v": np.full(2, log_scale + 5.0)},
        )
        params, state = optimizer.update(params, scaled, state, lr, np.exp(log_scale) * loss, t)
        for x in best:
            gap = best[x] - params[x]
            assert_allclose(gap[0], (best[x] - start[x])[0] / 2 ** (t + 1), atol=ROUNDING)
            assert_allclose(gap[1], 0.0, atol=ROUNDING)


def test_adam_entry_by_entry():
    first, then = np.ones((1, 1, 3)), np.ones((1, 1, 3))
    first[..., 1:] = 0.0
    then[..., 2] = 0.0
    lr = np.full(1, 0.1)
    # the second entry's first gradient is e^800 times smaller than the first entry's memory
    W = run(optimizer_of("adam"), np.zeros((1, 1, 3)), [of(first), of(then, -800.0)], lr=lr)
    ratio = 0.1 / np.sqrt(0.001) * np.sqrt(1 - 0.999**2) / (1 - 0.9**2)
    assert_allclose(W[0, 0, 1], -0.1 * ratio, rtol=ROUNDING)
    assert W[0, 0, 2] == 0
