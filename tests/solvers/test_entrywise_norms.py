"""The entrywise norms (ℓp, l1, max), judged by duality alone and by answers known beforehand."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.optimize import nnls

from attsvm import ConvergenceWarning, Problem, solve
from attsvm.norms import norm_of
from attsvm.solvers import linear_program
from tests.tolerances import GAP, ORACLE, ROUNDING

ASKED = 1e-9  # of the linear programs; the other norms are held to GAP, as `solve` promises
SMOOTH = (1.05, 1.1, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, 10.0, 20.0)
EVERY = (1.0, *SMOOTH, np.inf)
KINDS = ("plain", "zeros", "ties", "shifted ties", "only ties", "duplicates", "near", "sparse")
# n inputs, T tokens, dx, dz
SHAPES = ((1, 2, 3, 3), (1, 2, 1, 4), (3, 4, 5, 1), (2, 3, 4, 4), (8, 6, 3, 7), (6, 8, 10, 10))

every = pytest.mark.parametrize("p", EVERY)
programs = pytest.mark.parametrize("p", [1.0, np.inf])


def goal(p):
    """The gap promised for an exponent."""
    return ASKED if p in (1.0, np.inf) else GAP


def solver(p):
    """The inner solver of an exponent, 1 and ∞ included."""
    if p in (1.0, np.inf):
        return partial(linear_program.inner, norm=norm_of("l1" if p == 1.0 else "max"))
    return partial(solved, norm=f"l{p:.12g}")


def solved(D, Z, b, free, *, norm, tol, W0, lam0):
    """W and λ of `solve`, which needs no start; tol is never below what it promises."""
    rows = Problem.from_rows(
        D[~free], Z[~free], b=b[~free], ties=D[free], tie_queries=Z[free], c=b[free]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(rows, norm, tol=max(tol, GAP))
    lam = np.empty(len(b))
    lam[~free], lam[free] = best.multipliers, best.tie_multipliers
    return best.W, lam


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
            assert abs(gap) <= (GAP if kind == "near" else goal(p)), (shape, seed)
            assert misfit <= ROUNDING, (shape, seed)
    assert seen >= 6


@pytest.mark.parametrize("p", [1.05, 1.3, 1.75, 2.0, 3.0, 7.0, 20.0])
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (5, 2)])
def test_known_optimum(p, shape):
    for seed in range(4):
        rows, answer = known(p, shape, seed)
        D, Z, b, free, W0, lam0 = rows
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
        assert size(W, p) == pytest.approx(size(answer, p), rel=goal(p))
        gap, _ = judged(rows, W, lam, p)
        assert abs(gap) <= goal(p)
        # the answer itself, paired with λ, passes the judge: the instance is what it claims to be
        assert abs(judged(rows, answer, lam, p)[0]) <= goal(p)


@every
def test_one_row(p):
    """Closed form: the least norm with one row a ≥ b is b/‖a‖_q."""
    rng = np.random.default_rng(3)
    D, Z = sphere(rng, 1, 4), sphere(rng, 1, 3)
    W0 = np.outer(D[0], Z[0])
    one, free = np.ones(1), np.zeros(1, dtype=bool)
    W, lam = solver(p)(D, Z, one, free, tol=ASKED, W0=W0, lam0=one)
    assert size(W, p) == pytest.approx(1 / size(W0, dual(p)), rel=goal(p))
    assert lam.shape == (1,) and lam[0] > 0


@pytest.mark.parametrize("kind", ["plain", "zeros", "ties", "shifted ties"])
def test_two_is_frobenius(kind):
    D, Z, b, free, W0, lam0 = draw(kind, (6, 8, 10, 10), 5)
    W, _ = solver(2.0)(D, Z, b, free, tol=GAP, W0=W0, lam0=lam0)
    # ‖W − W*‖² ≤ upper² − lower²
    assert np.linalg.norm(W - W0) <= np.sqrt(2 * GAP)


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
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
        gap, misfit = judged(rows, W, lam, p)
        # beyond p = 100 the answer may be that of p = 100, off by at most N^(1/100)
        assert abs(gap) <= (0.05 if p > 100 else 1e-5)
        assert misfit <= ROUNDING


@programs
def test_poor_start(p):
    """The start is a hint: noise in it, or nothing at all, costs steps and no accuracy."""
    rng = np.random.default_rng(0)
    rows = draw("ties", (6, 8, 10, 10), 4)
    D, Z, b, free, W0, _ = rows
    noise = rng.standard_normal(W0.shape)
    for start, multipliers in ((noise, rng.random(len(b))), (W0, np.zeros(len(b)))):
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=start, lam0=multipliers)
        assert abs(judged(rows, W, lam, p)[0]) <= goal(p)


@programs
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
        assert abs(judged(rows, W, lam, p)[0]) <= goal(p), p


@pytest.mark.slow
def test_larger():
    rows = draw("plain", (50, 20, 32, 32), 0)
    D, Z, b, free, W0, lam0 = rows
    for p in EVERY:
        W, lam = solver(p)(D, Z, b, free, tol=ASKED, W0=W0, lam0=lam0)
        assert abs(judged(rows, W, lam, p)[0]) <= goal(p), p
