"""The inequalities of the theorems on members of their sets, by the reference of reference.py."""

import mpmath
import numpy as np
import pytest

from tests.convergence.instances import LOSSES, instance, run, unit
from tests.convergence.members import many_proofs, members, proofs_of
from tests.convergence.reference import Case, definition, max_margin

ASKED = [
    ("sphere", {}),
    ("correlated", {"loss": "exponential"}),
    ("prompt", {"loss": "linear"}),
    ("masked", {}),
    ("keys", {"loss": "exponential"}),
    ("gaussian", {"lr": 0.02}),
]


@pytest.mark.parametrize(("kind", "options"), ASKED, ids=lambda x: str(x))
def test_members_keep_every_inequality(kind, options):
    found = proofs_of(run(kind, 3 if kind in ("correlated", "gaussian") else 1, **options))
    assert found
    for proof in found:
        assert proof.verify(), proof.verify().reason
        judged = members(proof, 200)
        assert not judged.broken, {name: judged.room[name] for name in judged.broken}


def test_both_modes_and_all_theorems_are_met():
    plain = proofs_of(run("sphere", 0, rule="gd", lr=50.0, steps=20000))
    stiff = proofs_of(run("sphere", 1, lr=0.2))
    met = {(p.rule, p.theorem, p.witness.get("mode")) for p in (*plain, *stiff)}
    assert met == {
        ("ngd", "tube", "B"),
        ("ngd", "cone", None),
        ("gd", "tube", "A"),
        ("gd", "cone", None),
        ("gd", "level", None),
    }
    for proof in (*plain, *stiff):
        judged = members(proof, 200)
        assert not judged.broken, (proof, {name: judged.room[name] for name in judged.broken})


@pytest.mark.slow
def test_members_of_fifty_proofs():
    for j, (name, proof) in enumerate(many_proofs(50)):
        judged = members(proof, 1000, seed=j)
        assert not judged.broken, (name, {k: judged.room[k] for k in judged.broken})


@pytest.mark.parametrize("loss", LOSSES)
def test_reference_is_the_definition(loss):
    """Rows and pulls give the gradient that softmax, head and loss have by definition."""
    tokens, v = instance("masked", 2, (3, 4, 3))
    case = Case.of(tokens, v, loss)
    W = 3 * np.random.default_rng(0).standard_normal((3, 3))
    there = np.where(tokens.present(), 0.0, -np.inf)
    alpha = (np.einsum("ntd,de,ne->nt", case.K, W, case.Z) + there).argmax(axis=1)
    chosen = case.at(alpha)
    exact = np.array(definition(case, W), dtype=object)
    mine = chosen.gradient(W.ravel()[None])[0].reshape(3, 3)
    assert np.allclose(mine, exact.astype(float), rtol=1e-12, atol=1e-15)
    m = chosen.margins(W.ravel()[None])
    assert np.allclose(chosen.off(m), chosen.q(m) - chosen.limit, rtol=1e-9, atol=1e-14)


def test_reference_solution_is_least():
    """Margins at least 1, multipliers positive, and the norm that the multipliers prove."""
    tokens, v = instance("sphere", 0)
    a = Case.of(tokens, v, "logistic").at(np.arange(6) % 8).a
    found = max_margin(a)
    assert (a @ found.W).min() > 1 - 1e-12
    assert (found.lam > 0).all()
    assert abs(found.lam.sum() - found.N**2) < 1e-11 * found.N**2


@pytest.mark.parametrize("loss", LOSSES)
def test_pulls_lie_where_they_are_said_to(loss):
    """|q − q̂| ≤ error(e) and q is between its bounds, whenever every e^−margin is at most e."""
    r = run("keys", 5, steps=400, loss=loss)
    W = np.ascontiguousarray(r.W[-1])
    rows = r.judge.ground(r.judge.selected(W)).rows
    chosen = Case.of(r.tokens, r.v, loss).at(r.judge.selected(W))
    rng = np.random.default_rng(1)
    for _ in range(40):
        top = rng.exponential(3.0) + rng.exponential(2.0, rows.count)
        m = top + rng.choice([0.0, 1.0, 20.0], rows.count) * rng.uniform(0, 1, rows.count)
        e = np.exp(-top)[None]
        error, (low, high) = rows.pull.error(e)[0], rows.pull.between(e)
        q, off = chosen.q(m), chosen.off(m)
        assert (np.abs(off) <= error * (1 + 1e-12)).all()
        assert (low[0] <= q + 1e-13).all() and (q <= high[0] + 1e-13).all()
        later = rows.pull.error(np.exp(-top - 1.5)[None])[0]
        assert (later <= error * np.exp(-1.5) * (1 + 1e-9)).all()


def test_float_steps_cover_the_rounding():
    """A step in floats is off the exact one by no more than the budget for one step."""
    from attsvm.convergence.rounding import drift_of

    r = run("sphere", 1, steps=1500, shape=(3, 4, 4))
    for W in (r.W[-1], 10 * r.W[-1]):
        W = np.ascontiguousarray(W)
        at = r.judge.ground(r.judge.selected(W))
        case = Case.of(r.tokens, r.v, "logistic")
        chosen = case.at(r.judge.selected(W))
        base = chosen.margins(W.ravel()[None]).min(axis=1)
        mine = unit(chosen.gradient(W.ravel()[None], base)[0])
        with mpmath.workdps(400):
            exact = np.array(definition(case, W, 400), dtype=object).ravel()
            size = mpmath.sqrt(sum(x * x for x in exact))
            unitary = np.array([float(x / size) for x in exact])
        off = 0.1 * np.linalg.norm(mine - unitary) + 2.0**-53 * np.linalg.norm(W)
        scaled = W / at.rows.unit
        budget = drift_of(r.tokens, at.frame, scaled, 0.1 / at.rows.unit)
        assert off <= budget * np.linalg.norm(W)
