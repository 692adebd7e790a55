"""The entrywise norms (ℓp, l1, max), judged by duality alone and by answers known beforehand."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import nnls

from attsvm.norms import norm_of
from attsvm.solvers import linear_program, power
from tests.tolerances import GAP, ORACLE, ROUNDING

ASKED = 1e-9
SMOOTH = (1.05, 1.1, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, 10.0, 20.0)
EVERY = (1.0, *SMOOTH, np.inf)
KINDS = ("plain", "zeros", "ties", "shifted ties", "only ties", "duplicates", "near", "sparse")
# n inputs, T tokens, dx, dz
SHAPES = ((1, 2, 3, 3), (1, 2, 1, 4), (3, 4, 5, 1), (2, 3, 4, 4), (8, 6, 3, 7), (6, 8, 10, 10))

every = pytest.mark.parametrize("p", EVERY)


def solver(p):
    """The inner solver of an exponent, 1 and ∞ included."""
    if p in (1.0, np.inf):
        return partial(linear_program.inner, norm=norm_of("l1" if p == 1.0 else "max"))
    return partial(power.inner, p=p)


def size(x, p):
    """The entrywise norm, straight from its definition."""
    x = np.abs(x).ravel()
    return x.max() if np.isinf(p) else x.max() * ((x / x.max()) ** p).sum() ** (1 / p)


def dual(p):
    """The dual exponent."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def sphere(rng, *shape):
    """Unit vectors along the last axis."""
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def unit(D, Z, b, free):
    """Rows of length one whose least Frobenius norm is one, W0, λ0; None when infeasible."""
    keep = (np.linalg.norm(D, axis=1) > 0) & (np.linalg.norm(Z, axis=1) > 0)
    D, Z, b, free = D[keep], Z[keep], b[keep], free[keep]
    scale = np.linalg.norm(D, axis=1) * np.linalg.norm(Z, axis=1)
    if not b.any():
        return None
    D, b = D / scale[:, None], b / scale
    b = b / np.abs(b).max()
    A = np.einsum("kd,ke->kde", D, Z).reshape(len(b), -1)
    # Least distance: the residual of E u ≈ e_last over u ≥ 0 is the solution; a tie is two rows.
    E = np.vstack([np.vstack([A, -A[free]]).T, np.r_[b, -b[free]]])
    goal = np.zeros(len(E))
    goal[-1] = 1.0
    u, miss = nnls(E, goal, maxiter=50 * E.shape[1])
    if miss**2 < ROUNDING:
        return None
    r = goal - E @ u
    W0, u = -r[:-1].reshape(D.shape[1], Z.shape[1]) / r[-1], u / r[-1]
    lam0 = u[: len(b)].copy()
    lam0[free] -= u[len(b) :]
    norm = np.linalg.norm(W0)
    return D, Z, b / norm, free, W0 / norm, lam0 / norm


def draw(kind, shape, seed):
    """Rows of a random token selection, with what `kind` does to them; None when infeasible."""
    n, T, dx, dz = shape
    rng = np.random.default_rng([seed, *shape])
    X, queries = sphere(rng, n, T, dx), sphere(rng, n, dz)
    if kind == "near":
        X[:, 1] = X[:, 0] + 1e-6 * rng.standard_normal((n, dx))
    D = (X[:, :1] - X[:, 1:]).reshape(-1, dx)
    Z = np.repeat(queries, T - 1, axis=0)
    b, free = np.ones(len(D)), np.zeros(len(D), dtype=bool)
    some = rng.random(len(D)) < 0.2
    if kind == "zeros":
        b[some] = 0.0
    if kind in ("ties", "shifted ties"):
        free = some
        b[some] = rng.standard_normal(some.sum()) if kind == "shifted ties" else 0.0
    if kind == "only ties":
        D, Z = D[: dx * dz // 2 + 1], Z[: dx * dz // 2 + 1]
        b, free = rng.standard_normal(len(D)), np.ones(len(D), dtype=bool)
    if kind == "duplicates":
        some = rng.integers(0, len(D), len(D))
        free = np.arange(len(D)) % 7 == 6
        b[free] = 0.0
        D, Z, b, free = (np.concatenate([x, x[some]]) for x in (D, Z, b, free))
    if kind == "sparse":
        D = np.where(rng.random(D.shape) < 0.5, 0.0, D)
        Z = np.where(rng.random(Z.shape) < 0.5, 0.0, Z)
    return unit(D, Z, b, free)


def judged(rows, W, lam, p):
    """(gap, worst misfit of ties and zero rows) of a pair, by duality and nothing else.

    With a tie b ≠ 0 no scaling is allowed, and a margin that falls short is a misfit.
    """
    D, Z, b, free, _, _ = rows
    m = np.einsum("kd,de,ke->k", D, W, Z)
    assert (lam[~free] >= 0).all()
    lower = b @ lam / size(np.einsum("k,kd,ke->de", lam, D, Z), dual(p))
    misfit = np.where(free, np.abs(m - b), np.maximum(b - m, 0.0))
    upper = size(W, p)
    if not b[free].any():
        positive = ~free & (b > 0)
        upper /= (m[positive] / b[positive]).min()
        misfit[positive] = 0.0
    return upper / lower - 1, misfit.max()


def known(p, shape, seed):
    """Rows with a known optimum, and that optimum: its image under the duality map, split by SVD.

    M = Σ σ_k u_k v_kᵀ makes (u_k, v_k) the rows and σ_k the multipliers; a value u_kᵀ W v_k below
    zero becomes a tie. Rows with half of what W gives them are slack.
    """
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(shape)
    U, lam, Vt = np.linalg.svd(np.sign(W) * np.abs(W) ** (p - 1), full_matrices=False)
    D, Z = sphere(rng, 12, shape[0]), sphere(rng, 12, shape[1])
    D *= np.sign(np.einsum("kd,de,ke->k", D, W, Z))[:, None]
    D, Z = np.vstack([U.T, D]), np.vstack([Vt, Z])
    b = np.einsum("kd,de,ke->k", D, W, Z)
    free = b < 0
    assert lam.min() > 0 and not free[len(lam) :].any()
    b[len(lam) :] /= 2
    found = unit(D, Z, b, free)
    return found, W * (np.abs(found[2]).max() / np.abs(b).max())


@every
@pytest.mark.parametrize("kind", KINDS)
def test_gap(kind, p):
    seen = 0
    for shape in SHAPES:
        for seed in range(3):
            rows = draw(kind, shape, seed)
            if rows is None:
                continue
            seen += 1
            D, Z, b, free, W0, lam0 = rows
            W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
            gap, misfit = judged(rows, W, lam, p)
            # rows with b near 1e-6 carry rounding of 1e-16/1e-6, times the exponent
            assert abs(gap) <= (GAP if kind == "near" else ASKED), (shape, seed)
            assert misfit <= ROUNDING, (shape, seed)
    assert seen >= 6


@pytest.mark.parametrize("p", [1.05, 1.3, 1.75, 2.0, 3.0, 7.0, 20.0])
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (5, 2)])
def test_known_optimum(p, shape):
    for seed in range(4):
        rows, answer = known(p, shape, seed)
        D, Z, b, free, W0, lam0 = rows
        W, lam = power.inner(D, Z, b, free, p=p, tol=ASKED, W0=W0, lam0=lam0)
        assert size(W, p) == pytest.approx(size(answer, p), rel=ASKED)
        gap, _ = judged(rows, W, lam, p)
        assert abs(gap) <= ASKED
        # the answer itself, paired with λ, passes the judge: the instance is what it claims to be
        assert abs(judged(rows, answer, lam, p)[0]) <= ASKED


@every
def test_one_row(p):
    """Closed form: the least norm with one row a ≥ b is b/‖a‖_q."""
    rng = np.random.default_rng(3)
    D, Z = sphere(rng, 1, 4), sphere(rng, 1, 3)
    W0 = np.outer(D[0], Z[0])
    one, free = np.ones(1), np.zeros(1, dtype=bool)
    W, lam = solver(p)(D, Z, one, free, tol=ASKED, W0=W0, lam0=one)
    assert size(W, p) == pytest.approx(1 / size(W0, dual(p)), rel=ASKED)
    assert lam.shape == (1,) and lam[0] > 0


@pytest.mark.parametrize("kind", ["plain", "zeros", "ties", "shifted ties"])
def test_two_is_frobenius(kind):
    rows = draw(kind, (6, 8, 10, 10), 5)
    D, Z, b, free, W0, lam0 = rows
    # ‖W − W*‖² ≤ upper² − lower²
    near = np.sqrt(2 * ASKED)
    for start, multipliers in ((W0, lam0), (np.ones_like(W0), np.zeros_like(lam0))):
        W, _ = power.inner(D, Z, b, free, p=2.0, tol=ASKED, W0=start, lam0=multipliers)
        assert np.linalg.norm(W - W0) <= near


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0, np.inf])
@pytest.mark.parametrize("kind", ["plain", "zeros", "ties", "shifted ties"])
def test_against_cvxpy(kind, p):
    cvxpy = pytest.importorskip("cvxpy")
    D, Z, b, free, W0, lam0 = draw(kind, (4, 4, 5, 4), 1)
    W, _ = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
    A = linear_program.stacked(D, Z)
    x = cvxpy.Variable(A.shape[1])
    limits = [A[~free] @ x >= b[~free]]
    if free.any():
        limits.append(A[free] @ x == b[free])
    oracle = cvxpy.Problem(cvxpy.Minimize(cvxpy.pnorm(x, p)), limits)
    oracle.solve(solver=cvxpy.CLARABEL)
    assert size(W, p) == pytest.approx(oracle.value, rel=ORACLE)


@pytest.mark.parametrize("p", [1.0001, 1.01, 100.0, 1e3, 1e6])
def test_extreme_exponents_end(p):
    """Far exponents end with the best pair found, and its gap is small."""
    for kind in ("plain", "ties", "near"):
        rows = draw(kind, (6, 8, 10, 10), 2)
        D, Z, b, free, W0, lam0 = rows
        W, lam = power.inner(D, Z, b, free, p=p, tol=ASKED, W0=W0, lam0=lam0)
        gap, misfit = judged(rows, W, lam, p)
        # beyond p = 100 the answer may be that of p = 100, off by at most N^(1/100)
        assert abs(gap) <= (0.05 if p > 100 else 1e-5)
        assert misfit <= ROUNDING


@every
def test_poor_start(p):
    """The start is a hint: noise in it, or nothing at all, costs steps and no accuracy."""
    rng = np.random.default_rng(0)
    rows = draw("ties", (6, 8, 10, 10), 4)
    D, Z, b, free, W0, _ = rows
    noise = rng.standard_normal(W0.shape)
    for start, multipliers in ((noise, rng.random(len(b))), (W0, np.zeros(len(b)))):
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=start, lam0=multipliers)
        assert abs(judged(rows, W, lam, p)[0]) <= ASKED


@every
def test_infeasible_rows_end(p):
    """Two opposite rows admit no W: a pair of the right shapes comes back, and no exception."""
    D, Z = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones((2, 1))
    b, free = np.ones(2), np.zeros(2, dtype=bool)
    W0, lam0 = np.array([[1.0], [0.0]]), np.ones(2)
    W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
    assert W.shape == (2, 1) and lam.shape == (2,)
    assert np.isfinite(W).all() and np.isfinite(lam).all()


def test_more_rows_than_entries():
    """The dual programs and the tall normal matrix answer what the other forms do."""
    rng = np.random.default_rng(8)
    X, direction = sphere(rng, 15, 12, 4), rng.standard_normal(4)
    order = np.argsort(-(X @ direction), axis=1)
    X = np.take_along_axis(X, order[:, :, None], axis=1)
    D = (X[:, :1] - X[:, 1:]).reshape(-1, 4)
    rows = unit(D, np.ones((len(D), 1)), np.ones(len(D)), np.zeros(len(D), dtype=bool))
    D, Z, b, free, W0, lam0 = rows
    assert len(b) > 10 * W0.size
    for p in EVERY:
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
        assert abs(judged(rows, W, lam, p)[0]) <= ASKED, p


@every
def test_weigh_sees_each_fault(p):
    """A pair's own error grows with a wrong direction, a broken tie and a wrong multiplier."""
    D, Z, b, free, W0, lam0 = draw("ties", (6, 8, 10, 10), 0)
    A = linear_program.stacked(D, Z)
    W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
    judge = partial(power.weigh, A, b, free, p=p)
    assert judge(w=W.ravel(), lam=lam).error <= ASKED
    assert judge(w=3 * W.ravel(), lam=7 * lam).error <= ASKED
    assert judge(w=W.ravel() + 1e-3 * A[free][0], lam=lam).error > 1e-6
    turned = lam.copy()
    turned[np.argmax(lam)] *= 1.3
    assert judge(w=W.ravel(), lam=turned).error > 1e-6
    assert judge(w=-W.ravel(), lam=lam).error == np.inf


@pytest.mark.slow
def test_larger():
    rows = draw("plain", (50, 20, 32, 32), 0)
    D, Z, b, free, W0, lam0 = rows
    for p in EVERY:
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
        assert abs(judged(rows, W, lam, p)[0]) <= ASKED, p


@pytest.mark.parametrize("k,N", [(5, 9), (30, 6), (40, 21)])
def test_normal_matrix(k, N):
    rng = np.random.default_rng(k)
    A, D = rng.standard_normal((k, N)), rng.random(N)
    sigma = 10.0 ** rng.uniform(-8, 4, k)
    sigma[:2] = 0.0  # ties
    H = A @ np.diag(D) @ A.T + np.diag(sigma)
    x = rng.standard_normal(k)
    for build in (power._wide, power._tall):
        r = H @ x
        assert np.abs(H @ build(A, D, sigma)(r) - r).max() <= 1e-7 * np.abs(r).max()
    r = H @ x
    assert np.abs(H @ power.factor(A, D, sigma=sigma)(r) - r).max() <= 1e-11 * np.abs(r).max()


def test_duplicate_ties_are_solved():
    """Equal rows with σ = 0 make the matrix singular; a consistent right-hand side is still met."""
    rng = np.random.default_rng(1)
    A = np.repeat(rng.standard_normal((3, 8)), 2, axis=0)
    r = A @ rng.standard_normal(8)
    x = power.factor(A, np.ones(8), sigma=np.zeros(6))(r)
    assert np.abs(A @ (A.T @ x) - r).max() <= 1e-11


def test_length_and_map():
    rng = np.random.default_rng(2)
    v = rng.standard_normal(20)
    for p in (1.01, 1.5, 2.0, 3.0, 100.0):
        q = power.conjugate(p)
        w = power.duality_map(v, p)
        assert power.length(w, q) == pytest.approx(power.length(v, p), rel=ROUNDING)
        assert w @ v == pytest.approx(power.length(v, p) ** 2, rel=ROUNDING)
    # powers of these over- or underflow; their length does not
    assert power.length(np.full(4, 1e200), 2.0) == pytest.approx(2e200, rel=ROUNDING)
    assert power.length(np.full(4, 1e-200), 2.0) == pytest.approx(2e-200, rel=ROUNDING)
    assert power.length(np.zeros(3), 3.0) == 0.0


def test_start_is_centred():
    slack, lam = np.array([0.0, 0.4, 0.0, 0.0]), np.array([0.7, 0.0, 0.0, -2.0])
    margin = np.array([True, True, True, False])
    x, s = power.centred(slack, lam, margin, share=1e-3)
    assert x[margin] * s[margin] == pytest.approx(np.full(3, 1e-3), rel=ROUNDING)
    assert x[3] == -2.0 and x[0] > 0.6 and s[1] > 0.3
    assert power.longest(x, -2 * x, margin) == pytest.approx(0.5)
