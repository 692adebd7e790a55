"""A norm and a solver that no registry lists go wherever a listed one goes."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attsvm
from attsvm import Answer, Certificate, Norm, Problem, Solver, Tokens, Unsupported
from attsvm.errors import BadTokens, ConvergenceWarning
from attsvm.norms import norm_of
from attsvm.norms.norm import check_inputs
from tests.tolerances import GAP_SPECTRUM, ROUNDING


class KyFan(Norm):
    """The two largest singular values: no method of its own, nothing but the contract."""

    name = "ky-fan-2"
    rotational = True

    def value(self, W):
        return np.linalg.svd(W, compute_uv=False)[..., :2].sum(axis=-1)

    def dual(self, G):
        s = np.linalg.svd(G, compute_uv=False)
        return np.maximum(s[..., 0], s.sum(axis=-1) / 2)

    def dual_maximizer(self, G):
        U, s, Vt = np.linalg.svd(G, full_matrices=False)
        one = U[..., :, :1] * Vt[..., :1, :] * (s[..., :1, None] > 0)
        top = s[..., 0] >= s.sum(axis=-1) / 2
        return np.where(top[..., None, None], one, U @ Vt / 2)

    def rounding(self, shape):
        return 1e-13


class Weighted(Norm):
    """(Σ s_i W_ij²)^½ with its normal, an own method and cvxpy's expression."""

    name = "weighted"
    unique = True

    def scale(self, W):
        return np.sqrt(1.0 + np.arange(np.shape(W)[-2]))[:, None]

    def value(self, W):
        return np.sqrt(np.square(W * self.scale(W)).sum(axis=(-2, -1)))

    def dual(self, G):
        return np.sqrt(np.square(G / self.scale(G)).sum(axis=(-2, -1)))

    def dual_maximizer(self, G):
        size = np.asarray(self.dual(G))[..., None, None]
        return np.divide(G / self.scale(G) ** 2, size, out=np.zeros(np.shape(G)), where=size > 0)

    def rounding(self, shape):
        return 1e-14

    def normal(self, u):
        return self.scale(u) ** 2 * u

    def cvxpy(self, cp, W):
        return cp.norm(cp.multiply(np.broadcast_to(self.scale(W), W.shape), W), "fro")

    def ball(self, upper, lower):
        return float(np.sqrt(max(upper**2 - lower**2, 0.0)))

    def dual_ball(self, ratio):
        return float(2 * np.sqrt(max(1 - ((1 + ratio) / 2) ** 2, 0.0)))


def tokens(*, seed=0, n=3, T=4, d=4, dq=3):
    draw = np.random.default_rng(seed)
    return Tokens(
        draw.standard_normal((n, T, d)),
        queries=draw.standard_normal((n, dq)),
        labels=np.where(np.arange(n) % 2, -1.0, 1.0),
    )


def problem(**sizes):
    return Problem.of(tokens(**sizes), [0] * sizes.get("n", 3))


def by_hand(problem, norm, *, tol):
    """A solver from outside: the listed one's pair, as a plain tuple."""
    best = attsvm.solve(problem, norm, tol=tol)
    return best.W, best.multipliers


OUTSIDE = (KyFan(), Weighted())
each = pytest.mark.parametrize("norm", OUTSIDE, ids=lambda norm: norm.name)


@each
def test_solved_and_certified_from_value_dual_and_sharp_alone(norm):
    rows = problem()
    best = attsvm.solve(rows, norm).require()
    assert best.gap <= GAP_SPECTRUM and best.norm is norm
    again = attsvm.certify(rows, norm, best.W, best.multipliers)
    assert again.status == "optimal" and again.verify().ok
    assert rows.margins(best.W).min() >= 1 - GAP_SPECTRUM
    assert_allclose(float(norm.value(best.W)), best.upper, rtol=ROUNDING)


def test_the_general_method_agrees_with_one_that_knows_the_norm():
    rows, norm = problem(), Weighted()
    # (Σ s W²)^½ is the Frobenius norm of √s W, which meets the rows Δ/√s
    known = attsvm.solve(
        Problem.from_rows(
            rows.differences() / norm.scale(rows.differences().T)[:, 0],
            rows.queries[rows.query],
        )
    )
    assert_allclose(attsvm.solve(rows, norm).upper, known.upper, rtol=GAP_SPECTRUM)
    assert_allclose(attsvm.solve(rows, norm, C=0.3).upper,
                    attsvm.solve(Problem.from_rows(
                        rows.differences() / norm.scale(rows.differences().T)[:, 0],
                        rows.queries[rows.query]), C=0.3).upper, rtol=GAP_SPECTRUM)  # fmt: skip


def test_a_norm_with_a_prox_is_solved_at_many_rows():
    class Mapped(Weighted):
        name = "weighted-prox"

        def prox(self, V, t):
            return V / (1 + t * self.scale(V) ** 2)  # of half the square: slope 1 at norm 1

    draw, scale = np.random.default_rng(0), np.sqrt(1.0 + np.arange(8))
    X, z = draw.standard_normal((45, 16, 8)), draw.standard_normal((45, 5))
    W = draw.standard_normal((8, 5))
    best = np.einsum("ntd,de,ne->nt", X, W, z).argmax(axis=1).tolist()
    rows, turned = (Problem.of(Tokens(K, queries=z), best) for K in (X, X / scale))
    ours = attsvm.solve(rows, Mapped(), tol=1e-4).require()
    plain = attsvm.solve(turned)  # ‖S W‖_F over W is ‖V‖_F over V = S W
    assert ours.lower <= plain.upper and plain.lower <= ours.upper
    soft, flat = attsvm.solve(rows, Mapped(), C=1.0, tol=1e-4), attsvm.solve(turned, C=1.0)
    assert soft.require().lower <= flat.upper and flat.lower <= soft.upper


@each
def test_saved_by_name_and_given_again(norm, tmp_path):
    best = attsvm.solve(problem(), norm)
    best.save(tmp_path / "best.npz")
    back = Certificate.load(tmp_path / "best.npz", norm=norm)
    assert (back.lower, back.upper, back.norm.name) == (best.lower, best.upper, norm.name)
    assert back.verify().ok
    with pytest.raises(BadTokens, match=rf"unknown norm '{norm.name}'.*norm=…"):
        Certificate.load(tmp_path / "best.npz")
    with pytest.raises(BadTokens, match=rf"in norm '{norm.name}', not 'nuclear'"):
        Certificate.load(tmp_path / "best.npz", norm=norm_of("nuclear"))
    with pytest.raises(Unsupported, match="cannot be checked in exact arithmetic"):
        back.verify(exact=True)


def test_regularization_path_needs_the_normal():
    data, head = tokens(), [1.0, 0.3, 0.1, -0.4]
    path = attsvm.regpath(data, norm=Weighted(), head=head, radii=[50.0, 500.0], starts=1, scouts=4)
    assert path.norm.name == "weighted" and path.residual.max() < 1e-6
    assert path.share[-1] > 0.98
    with pytest.raises(Unsupported, match="norms that have a `normal`"):
        attsvm.regpath(data, norm=KyFan(), head=head)


def test_a_solver_is_a_name_a_record_or_a_function():
    rows = problem()
    listed = attsvm.solve(rows)
    assert attsvm.solve(rows, solver=by_hand).lower == pytest.approx(listed.lower)

    def whole(problem, norm, *, tol, budget):
        found = attsvm.solve(problem, norm, C=None if budget == np.inf else budget)
        return Answer(found.W, found.multipliers, found.tie_multipliers)

    record = Solver("whole", lambda norm: norm.euclidean, whole, soft=True)
    assert attsvm.solve(rows, solver=record, C=0.2).status == "optimal"
    assert attsvm.solve(rows, solver=whole, C=0.2).status == "optimal"
    with pytest.raises(Unsupported, match="'whole' does not take norm l1"):
        attsvm.solve(rows, "l1", solver=record)
    with pytest.raises(Unsupported, match="'by_hand, given' takes no budget C"):
        attsvm.solve(rows, solver=by_hand, C=0.2)
    with pytest.raises(Unsupported, match="a solver is a name, a Solver or a function"):
        attsvm.solve(rows, solver=3)
    with pytest.raises(Unsupported, match="it must return an Answer"):
        attsvm.solve(rows, solver=lambda problem, norm, tol: None)


def test_nothing_that_a_solver_says_is_believed():
    def boast(problem, norm, *, tol):
        return np.ones(problem.shape), np.ones(problem.m)

    with pytest.warns(ConvergenceWarning):
        end = attsvm.solve(problem(), solver=boast)
    assert end.status == "stalled"


BROKEN = {
    "value(tW) = |t| value(W)": {"value": lambda self, W: np.square(W).sum(axis=(-2, -1))},
    "value(W + V) ≤ value(W) + value(V)": {
        "value": lambda self, W: np.sqrt(np.abs(W)).sum(axis=(-2, -1)) ** 2,
    },
    "value(W) is positive and finite for W ≠ 0": {"value": lambda self, W: 0 * W[..., 0, 0]},
    "⟨G, W⟩ ≤ dual(G) value(W)": {"dual": lambda self, G: Weighted.dual(self, G) / 2},
    "value(dual_maximizer(G)) = 1": {
        "dual_maximizer": lambda self, G: 2 * Weighted.dual_maximizer(self, G)
    },
    "⟨G, dual_maximizer(G)⟩ = dual(G)": {
        "dual_maximizer": lambda self, G: -Weighted.dual_maximizer(self, G)
    },
    "value(E) ≤ spread ‖E‖_F": {"spread": lambda self, shape: (0.1, 1.0)},
    "rounding covers what is seen": {
        "value": lambda self, W: Weighted.value(self, W).astype(np.float32).astype(float),
    },
    "as rotational says": {"rotational": True},
    "as euclidean says": {"euclidean": True},
    "as entrywise says": {"entrywise": True},
    "dual(normal(u)) = 1": {"normal": lambda self, u: u},
    "at X = prox(V, t)": {"prox": lambda self, V, t: V / 2},
}  # fmt: skip


@pytest.mark.parametrize("condition", BROKEN)
def test_a_violated_condition_is_named_with_its_input(condition):
    norm = type("Broken", (Weighted,), {"name": "broken", **BROKEN[condition]})()
    with pytest.raises(Unsupported) as said:
        attsvm.solve(problem(), norm)
    words = re.search(r"violates '(.+?)': (\S+) against (\S+), "
                      r"on matrix (\d) of shape \((\d), (\d)\), "
                      r"seed (\d)", str(said.value))  # fmt: skip
    assert words and condition in words[1]
    d, dq, seed = (int(words[k]) for k in (5, 6, 7))
    assert check_inputs((d, dq), seed)[int(words[4])].shape == (d, dq)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "nuclear"}, "has the name 'nuclear' of another norm"),
        ({"name": ""}, "needs a name"),
        ({"name": "bad", "value": lambda self, W: 1 / 0}, "fails on matrices of shape"),
        ({"name": "bad", "value": lambda self, W: np.abs(W)}, "one number per matrix"),
        ({"name": "bad", "prox": lambda self, V, t: V[0]}, "prox of a matrix of shape"),
        ({"name": "bad", "rounding": lambda self, shape: 0.0}, "rounding is a small positive"),
    ],
)
def test_what_breaks_the_contract_is_said(changes, sentence):
    norm = type("Broken", (Weighted,), changes)()
    with pytest.raises(Unsupported, match=re.escape(sentence)):
        norm_of(norm)


def test_a_norm_of_one_shape_says_so():
    class Fixed(Weighted):
        name = "fixed"
        shape = (4, 3)

    assert attsvm.solve(problem(), Fixed()).status == "optimal"
    with pytest.raises(BadTokens, match=r"norm fixed is for W of shape \(4, 3\)"):
        attsvm.solve(problem(dq=2), Fixed())
