"""The interior points of the nuclear and the spectral norm, judged by duality alone."""

import numpy as np
import pytest
from scipy.optimize import nnls

from attsvm.norms import norm_of
from attsvm.solvers import unit_rows
from attsvm.solvers.cone import interior_point as cone
from tests.tolerances import GAP, ORACLE, ROUNDING

SOLVERS = {"nuclear": cone.NUCLEAR, "spectral": cone.SPECTRAL}
KINDS = ("plain", "zeros", "ties", "shifted ties", "only ties", "duplicates", "near", "opposed")
# n inputs, T tokens, dx, dz
SHAPES = (
    (1, 2, 3, 3),
    (1, 2, 1, 1),
    (2, 3, 4, 1),
    (2, 3, 1, 4),
    (5, 4, 3, 7),
    (5, 4, 8, 3),
    (6, 8, 10, 10),
)

both = pytest.mark.parametrize("name", SOLVERS)


def unit(D, Z, b, free):
    """Rows of length one whose least Frobenius norm is one, W0 and λ0; None when infeasible."""
    length = np.linalg.norm(D, axis=1) * np.linalg.norm(Z, axis=1)
    if length.min() < ROUNDING:
        return None
    D, b = D / length[:, None], b / length
    b = b / np.abs(b).max()
    A = np.einsum("kd,ke->kde", D, Z).reshape(len(b), -1)
    # Least distance: the residual of E u ≈ e_last over u ≥ 0 is the solution; a tie is two rows.
    E = np.vstack([np.vstack([A, -A[free]]).T, np.r_[b, -b[free]]])
    goal = np.zeros(E.shape[0])
    goal[-1] = 1.0
    u, miss = nnls(E, goal, maxiter=50 * E.shape[1])
    if miss**2 < ROUNDING:
        return None
    r = goal - E @ u
    W0, u = -r[:-1].reshape(D.shape[1], Z.shape[1]) / r[-1], u / r[-1]
    lam0 = u[: len(b)]
    lam0[free] -= u[len(b) :]
    size = np.linalg.norm(W0)
    return D, Z, b / size, free, W0 / size, lam0 / size


def sphere(rng, *shape):
    """Unit vectors along the last axis."""
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def draw(kind, shape, seed):
    """Rows of random token selection, with what `kind` adds to them."""
    n, T, dx, dz = shape
    rng = np.random.default_rng([seed, *shape])
    X, queries = sphere(rng, n, T, dx), sphere(rng, n, dz)
    if kind == "near":
        X[0, 1] = X[0, 0] + 1e-6 * rng.standard_normal(dx)
    D = (X[:, :1] - X[:, 1:]).reshape(-1, dx)
    Z = np.repeat(queries, T - 1, axis=0)
    b, free = np.ones(len(D)), np.zeros(len(D), dtype=bool)
    more = rng.standard_normal((2, dx)), rng.standard_normal((2, dz))
    if kind == "zeros":
        b[1::3] = 0.0
    elif kind in ("ties", "shifted ties", "only ties"):
        c = np.zeros(2) if kind == "ties" else np.array([-0.5, 0.3])
        if kind == "only ties":
            D, Z, b, free = D[:0], Z[:0], b[:0], free[:0]
        D, Z, b = (
            np.vstack([D, more[0], more[0][:1]]),
            np.vstack([Z, more[1], more[1][:1]]),
            np.r_[b, c, c[:1]],
        )
        free = np.r_[free, True, True, True]
    elif kind == "duplicates":
        D, Z, b, free = np.vstack([D, D]), np.vstack([Z, Z]), np.r_[b, b], np.r_[free, free]
    elif kind == "opposed":  # two zero margins that together are a tie: no strictly feasible W
        D, Z = np.vstack([D, more[0][:1], -more[0][:1]]), np.vstack([Z, more[1][:1], more[1][:1]])
        b, free = np.r_[b, 0.0, 0.0], np.r_[free, False, False]
    return unit(D, Z, b, free)


def bounds(name, problem, W, lam):
    """(lower, upper, greatest miss of the rows that scaling cannot repair), from the data."""
    D, Z, b, free = problem[:4]
    norm = norm_of(name)
    assert (lam[~free] >= 0.0).all()
    values = np.einsum("kd,de,ke->k", D, W, Z)
    wide, zero = ~free & (b > 0.0), ~free & (b == 0.0)
    share = (values[wide] / b[wide]).min(initial=np.inf)
    if b[free].any():
        share = min(share, 1.0)
    miss = max(np.abs(values - b)[free].max(initial=0.0), -values[zero].min(initial=0.0))
    return float(b @ lam / norm.dual(D.T @ (lam[:, None] * Z))), float(norm.value(W) / share), miss


def solved(name, problem, tol=GAP):
    """(lower, upper) of the solver's answer, with ties and zero rows met."""
    D, Z, b, free, W0, lam0 = problem
    W, lam = cone.interior_point(D, Z, b, free, cone=SOLVERS[name], tol=tol, W0=W0, lam0=lam0)
    assert W.shape == W0.shape
    lower, upper, miss = bounds(name, problem, W, lam)
    assert miss < ROUNDING
    return lower, upper


@both
@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_closed(name, kind):
    problems = [draw(kind, shape, seed) for shape in SHAPES for seed in range(4)]
    found = [solved(name, problem) for problem in problems if problem is not None]
    assert len(found) > len(problems) // 2
    for lower, upper in found:
        assert lower <= upper * (1.0 + ROUNDING)
        assert upper <= lower * (1.0 + GAP) * (1.0 + ROUNDING)


@both
def test_gap_is_closed_on_many_rows(name):
    lower, upper = solved(name, draw("plain", (20, 10, 16, 16), 0))
    assert upper <= lower * (1.0 + GAP)


@both
def test_paired_rows_have_their_known_norm(name):
    # u_kᵀ W v_k ≥ b_k with orthonormal u, v: W = Σ b_k u_k v_kᵀ is optimal in every such norm
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((d, d)))[0][:, :4].T for d in (6, 5))
    b = np.array([0.7, 0.5, 0.1, 0.5])
    problem = (U, V, b, np.zeros(4, dtype=bool), U.T @ (b[:, None] * V), b)
    lower, upper = solved(name, problem)
    known = b.sum() if name == "nuclear" else b.max()
    assert known == pytest.approx(lower, rel=GAP)
    assert known == pytest.approx(upper, rel=GAP)


@both
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_tie_is_solved_by_its_own_row(name, sign):
    rng = np.random.default_rng(1)
    D, Z = sphere(rng, 1, 4), sphere(rng, 1, 3)
    b = np.array([sign])
    lower, upper = solved(name, (D, Z, b, np.array([True]), sign * D.T @ Z, b))
    assert (lower, upper) == pytest.approx((1.0, 1.0), rel=GAP)


@both
@pytest.mark.parametrize("shape", [(2, 4, 5, 1), (3, 3, 1, 5)])
def test_width_one_is_the_euclidean_norm(name, shape):
    problem = next(p for p in (draw("plain", shape, s) for s in range(50)) if p is not None)
    assert solved(name, problem) == pytest.approx((1.0, 1.0), rel=GAP)


@both
@pytest.mark.parametrize("kind", ["plain", "zeros", "shifted ties"])
def test_norm_agrees_with_conic_solver(name, kind):
    cp = pytest.importorskip("cvxpy")
    problem = draw(kind, (5, 4, 6, 5), 2)
    D, Z, b, free = problem[:4]
    W = cp.Variable((6, 5))
    values = cp.sum(cp.multiply(D @ W, Z), axis=1)
    optimizers = [values[~free] >= b[~free]]
    if free.any():
        optimizers.append(values[free] == b[free])
    size = cp.normNuc(W) if name == "nuclear" else cp.sigma_max(W)
    known = cp.Problem(cp.Minimize(size), optimizers).solve(solver=cp.CLARABEL)
    lower, upper = solved(name, problem)
    assert (lower, upper) == pytest.approx((known, known), rel=ORACLE)
    # The Frobenius optimum (norm one) is not already the answer.
    assert norm_of(name).value(problem[4]) > upper * 1.01


@both
def test_the_start_may_be_without_multipliers(name):
    problem = draw("plain", (6, 8, 10, 10), 0)
    lower, upper = solved(name, (*problem[:5], np.zeros_like(problem[5])))
    assert upper <= lower * (1.0 + GAP)


@both
def test_unreachable_tolerance_ends_with_the_best_pair(name):
    lower, upper = solved(name, draw("shifted ties", (5, 4, 6, 5), 0), tol=-1.0)
    assert upper == pytest.approx(lower, rel=GAP)


@both
def test_infeasible_rows_end_without_an_error(name):
    D, Z = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[1.0], [1.0]])
    W0, free = np.array([[1.0], [0.0]]), np.zeros(2, dtype=bool)
    W, lam = cone.interior_point(
        D, Z, np.ones(2), free, cone=SOLVERS[name], tol=GAP, W0=W0, lam0=np.ones(2)
    )
    assert np.isfinite(W).all()
    assert np.isfinite(lam).all()


@both
def test_newton_direction_solves_its_equations(name):
    D, Z, b, free, W0, lam0 = draw("ties", (5, 4, 6, 4), 3)
    rows = unit_rows.UnitRows(D, Z, b, free)
    state = SOLVERS[name].start(rows, W0, lam0)
    rng = np.random.default_rng(0)
    target, rhs = cone.symmetric(rng.standard_normal((10, 10))), rng.standard_normal(len(b))
    rhs[-1] = rhs[-3]  # the last tie repeats the one two before it
    move = SOLVERS[name].factor(rows, state)(target, rhs)
    close = {"rtol": 0.0, "atol": 100.0 * ROUNDING}
    np.testing.assert_allclose(state.T @ state.inverse, np.eye(10), **close)
    np.testing.assert_allclose(state.inverse @ move.P @ state.inverse.T, move.scaled_P, **close)
    np.testing.assert_allclose(state.T.T @ move.Q @ state.T, move.scaled_Q, **close)
    np.testing.assert_allclose(move.scaled_P + move.scaled_Q, target, **close)
    np.testing.assert_allclose(rows.values(move.P[:6, 6:]) + state.ratio * move.lam, rhs, **close)
    np.testing.assert_allclose(move.Q[:6, 6:], -0.5 * rows.adjoint(move.lam), **close)
    if name == "nuclear":
        np.testing.assert_allclose(np.diag(move.Q), 0.0, **close)
    else:
        assert np.trace(move.Q) == pytest.approx(0.0, abs=close["atol"])
        fixed = move.P - cone.off_diagonal(move.P[:6, 6:])
        np.testing.assert_allclose(fixed, move.P[0, 0] * np.eye(10), **close)


def test_spectral_step_removes_the_drift_of_the_dual_matrix():
    D, Z, b, free, W0, lam0 = draw("ties", (5, 4, 6, 4), 3)
    rows = unit_rows.UnitRows(D, Z, b, free)
    clean = cone.SPECTRAL.start(rows, W0, lam0)
    off = cone.off_diagonal(1e-3 * np.random.default_rng(0).standard_normal((6, 4)))
    Q = clean.Q + off + 1e-3 * np.eye(10)
    state = cone.place(clean.P, Q, lam=clean.lam, slack=clean.slack, free=free)
    move = cone.SPECTRAL.factor(rows, state)(np.eye(10), np.zeros(len(b)))
    after = (state.Q + move.Q)[:6, 6:]
    wanted = -0.5 * rows.adjoint(state.lam + move.lam)
    np.testing.assert_allclose(after, wanted, rtol=0.0, atol=100.0 * ROUNDING)
    assert np.trace(state.Q + move.Q) == pytest.approx(1.0, abs=100.0 * ROUNDING)


def test_singular_systems_are_solved_in_their_range():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 3))
    S = A @ A.T
    with pytest.raises(np.linalg.LinAlgError):  # so the ridge has to grow
        np.linalg.cholesky(S + 1e-15 * np.diag(S.diagonal()))
    rhs = S @ rng.standard_normal(80)
    x = unit_rows.schur_solver(S.copy(), lambda x: S @ x)(rhs)
    np.testing.assert_allclose(S @ x, rhs, rtol=0.0, atol=ROUNDING * np.linalg.norm(rhs))
    with pytest.raises(np.linalg.LinAlgError):
        unit_rows.schur_solver(np.array([[1.0, 2.0], [2.0, 1.0]]), lambda x: x)


def test_settling_restores_missed_rows_by_the_least_change():
    D, Z, b, free, W0, _ = draw("shifted ties", (5, 4, 6, 5), 0)
    rows = unit_rows.UnitRows(D, Z, b, free)
    tight = free | (rows.values(W0) < b + ROUNDING)
    push = 1e-9 * rows.adjoint(np.where(tight, -1.0, 0.0))
    settled = unit_rows.settle(rows, W0 + push)
    short = b - rows.values(settled)
    assert (rows.b - rows.values(W0 + push)).max() > 1e-10
    assert short.max() < ROUNDING
    assert np.abs(short[free]).max() < ROUNDING
    assert np.linalg.norm(settled - W0 - push) <= np.linalg.norm(push) * (1.0 + GAP) + ROUNDING
    far = W0 + 1e6 * push
    assert unit_rows.settle(rows, far) is far
