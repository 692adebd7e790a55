"""Certificates: what they claim is true, and what is false is not certified."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadTokens,
    ConvergenceWarning,
    Infeasible,
    NotConverged,
    Problem,
    Tokens,
    certify,
    solve,
)
from attsvm.certificate.bounds import independence
from attsvm.norms import norm_of
from tests.tolerances import EXACTLY, FORGED, ROUNDING, SLOPE, STEP
from tests.zoo import KINDS, LEAST, NORMS, UNIQUE, agrees, infeasible, known

every = pytest.mark.parametrize("norm", NORMS)
kinds = pytest.mark.parametrize("kind", KINDS)


def of(zoo, **change):
    """The certificate of the zoo's own answer, with some of it changed."""
    pair = {"W": zoo.W, "lam": zoo.multipliers, "mu": zoo.tie_multipliers} | change
    return certify(zoo.problem, zoo.norm, *pair.values())


@every
@kinds
def test_the_known_answer_is_certified_to_rounding(norm, kind):
    zoo = known(norm, kind)
    best = of(zoo)
    assert best.status == "optimal" and best.proof is None
    assert best.lower < zoo.least * (1 + ROUNDING) and best.upper > zoo.least * (1 - ROUNDING)
    # the gap carries the rounding of its own computation
    assert np.finfo(float).eps < best.gap < EXACTLY
    assert best.lower < best.upper
    dual = norm_of(norm).dual(zoo.problem.adjoint(best.multipliers, best.tie_multipliers))
    assert_allclose(dual, 1.0, rtol=ROUNDING)
    worth = zoo.problem.b @ best.multipliers + zoo.problem.c @ best.tie_multipliers
    assert_allclose(worth, best.lower, rtol=EXACTLY)


@every
@kinds
def test_wrong_answers_stay_true_bounds(norm, kind):
    zoo, rng = known(norm, kind), np.random.default_rng(1)
    for size in (1e-6, 1e-3, 0.3, 3.0):
        noise = rng.standard_normal(zoo.W.shape) * size
        lam = zoo.multipliers + size * rng.random(zoo.problem.m)
        mu = zoo.tie_multipliers + size * rng.standard_normal(zoo.problem.ties)
        bent = of(zoo, W=zoo.W + noise, lam=lam, mu=mu)
        assert agrees(bent, zoo.least)
        assert bent.gap > of(zoo).gap
    turned = of(zoo, W=-zoo.W)
    # ties at c ≠ 0 bar scaling, so missed margins are corrected and even −W leads to a feasible W
    assert agrees(turned, zoo.least) if kind == "levels" else turned.upper == np.inf


def test_negative_and_missing_multipliers_count_as_zero():
    zoo = known("frobenius", "plain")
    loose = np.flatnonzero(~zoo.tight)
    for bad in (-5.0, np.nan):
        lam = zoo.multipliers.copy()
        lam[loose] = bad
        best = of(zoo, lam=lam)
        assert best.lower == of(zoo).lower and (best.multipliers >= 0).all()
    flipped = of(zoo, lam=-zoo.multipliers)
    assert flipped.lower == 0.0 and flipped.gap == np.inf and flipped.status == "stalled"
    with pytest.raises(BadTokens, match="multipliers for"):
        of(zoo, lam=zoo.multipliers[1:])
    for W in (None, np.full(zoo.W.shape, np.nan), np.ones((2, 2))):
        assert of(zoo, W=W).upper == np.inf and of(zoo, W=W).W is None


@every
@kinds
@pytest.mark.parametrize("exact", [False, True])
def test_a_forged_certificate_is_refused(norm, kind, exact):
    best = of(known(norm, kind))
    assert best.verify(exact=exact).ok, best.verify(exact=exact).reason
    raised = replace(best, lower=best.lower * (1 + FORGED))
    assert not raised.verify(exact=exact).ok and "lower" in raised.verify(exact=exact).reason
    cut = replace(best, upper=best.upper * (1 - FORGED))
    assert not cut.verify(exact=exact).ok and "upper" in cut.verify(exact=exact).reason
    lam = best.multipliers.copy()
    lam[lam.argmax()] *= 3
    bent = best.W * (1 + 0.1 * np.random.default_rng(0).standard_normal(best.W.shape))
    lie = {"status": "infeasible", "W": None, "upper": np.inf, "proof": "numerical"}
    for forged in ({"multipliers": lam}, {"W": bent}, {"W": -best.W}, lie):
        assert not replace(best, **forged).verify(exact=exact).ok


@pytest.mark.parametrize("case", infeasible())
def test_require_raises_with_the_proof_in_words(case):
    end = solve(infeasible()[case])
    # Rounding has broken the dependence of these two: floats of norm 1e14 and more might do.
    broken = case in ("queries", "simplex")
    said = "no W of norm below .* not decided" if broken else "exact Farkas certificate"
    with pytest.raises(Infeasible, match=said):
        end.require()
    assert end.gap == np.inf and end.rank is None and end.margins.size == 0
    assert end.proof == ("numerical" if broken else "exact")
    assert 1 / FORGED <= end.lower < np.inf if broken else end.lower == np.inf


def test_stalled_warns_and_require_raises():
    zoo = known("nuclear")
    with pytest.warns(ConvergenceWarning, match="asked for"):
        end = solve(zoo.problem, "nuclear", tol=1e-16)
    assert end.status == "stalled" and agrees(end, zoo.least)
    with pytest.raises(NotConverged, match="asked for"):
        end.require()
    best = of(zoo)
    assert best.require() is best


def test_a_large_bound_alone_is_not_a_proof():
    # nearly opposite rows: λ = (1, 1) leaves 1e-8, so the norm is at least 2e8, and a W exists
    problem = Problem.from_rows([[1.0, 1e-8], [-1.0, 0.0]])
    end = certify(problem, "frobenius", None, [1.0, 1.0])
    assert end.status == "stalled" and end.upper == np.inf and end.proof is None
    assert 2e8 * (1 - FORGED) <= end.lower <= 2e8
    with pytest.raises(NotConverged, match="at least"):
        end.require()
    best = certify(problem, "frobenius", [-1.0, 2e8], [1.0, 1.0], tol=FORGED)
    assert best.status == "optimal"


@pytest.mark.parametrize("norm", UNIQUE)
def test_multipliers_are_the_growth_of_the_least_norm(norm):
    zoo = known(norm, "levels", seed=1)
    best, p = of(zoo), zoo.problem
    for k in (0, 2):
        b = p.b + STEP * (np.arange(p.m) == k)
        grown = solve(replace(p, b=b), norm).upper
        assert abs((grown - LEAST) / STEP - best.multipliers[k]) <= SLOPE * LEAST
    c = p.c + STEP * (np.arange(p.ties) == 0)
    grown = solve(replace(p, c=c), norm).upper
    assert abs((grown - LEAST) / STEP - best.tie_multipliers[0]) <= SLOPE * LEAST
    assert np.abs(best.multipliers).max() > 3 * SLOPE * LEAST  # the slopes are not all small


def test_rank_and_texts():
    zoo = known("nuclear", d=5, dq=4)
    best = of(zoo)
    assert best.rank == 3 <= best.rank_bound == 3
    assert "optimal: nuclear norm in [2.5" in repr(best)


@every
@pytest.mark.parametrize("kind", ["sets", "zeros", "levels"])
@pytest.mark.parametrize("size", [1e-9, 1e-5])
def test_ties_and_zero_rows_are_restored(norm, kind, size):
    zoo = known(norm, kind)
    p = zoo.problem
    noise = size * np.random.default_rng(2).standard_normal(zoo.W.shape)
    best = of(zoo, W=zoo.W + noise)
    assert np.abs(p.tie_values(zoo.W + noise) - p.c).max(initial=0.0) > ROUNDING or kind == "zeros"
    assert np.abs(p.tie_values(best.W) - p.c).max(initial=0.0) <= ROUNDING
    assert p.margins(best.W)[p.b == 0].min(initial=0.0) >= -ROUNDING
    # by a change of the size of the noise, which the upper bound pays for
    assert zoo.least * (1 - ROUNDING) <= best.upper <= zoo.least * (1 + 1e3 * size)
    assert best.verify(exact=True).upper <= best.upper


@pytest.mark.parametrize("several", [False, True])
def test_tokens_that_coincide_are_named(several):
    """Token 7 of input 1 is token 3, which is kept, alone or beside token 0."""
    X = np.random.default_rng(0).standard_normal((2, 8, 20))
    X[1, 7] = X[1, 3]
    kept = np.zeros((2, 8), bool)
    kept[0, 2] = kept[1, 3] = True
    kept[1, 0] = several
    best = solve(Problem.of(Tokens(X), kept))
    assert best.status == "infeasible" and best.proof == "exact"
    with pytest.raises(Infeasible, match=r"^the keys of tokens 3 and 7 of input 1 are equal \("):
        best.require()
    X[1, 7] += 1e-3
    assert solve(Problem.of(Tokens(X), kept)).status == "optimal"


def least_singular(A, Z) -> float:
    """σ_min of the rows A_k z_kᵀ to 40 digits."""
    with mpmath.workdps(40):
        rows = mpmath.matrix([[mpmath.mpf(a) * mpmath.mpf(z) for a in x for z in y]
                              for x, y in zip(A, Z, strict=True)])  # fmt: skip
        return float(min(mpmath.svd_r(rows, compute_uv=False)))


@pytest.mark.parametrize("apart", [0.0, 2.0**-55, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_below_the_singular_value(apart, seed):
    draw = np.random.default_rng(seed)
    D, Z = draw.standard_normal((4, 5)), draw.standard_normal((4, 3))
    D[3], Z[3] = D[0] + apart * draw.standard_normal(5), Z[0]
    A = D / (np.linalg.norm(D, axis=1) * np.linalg.norm(Z, axis=1))[:, None]
    found, true = independence(A, Z).sigma, least_singular(A, Z)
    assert found <= true
    # And it proves something where floats can: down to a few thousand roundings.
    assert found >= 0.5 * true if true > 1e-11 else found <= true
