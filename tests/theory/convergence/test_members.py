"""The inequalities of the theorems on members of their sets, by the reference of reference.py."""

from collections import Counter

import mpmath
import numpy as np
import pytest

from attsvm import Tokens, train
from attsvm.theory.convergence.prover import prover
from attsvm.theory.convergence.theorems import drift_of
from tests.theory.convergence.cases import LOSSES, instance, run, unit
from tests.theory.convergence.hunt import tried
from tests.theory.convergence.members import many_proofs, members, proofs_of
from tests.theory.convergence.reference import Case, definition, max_margin

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
    plain = proofs_of(run("sphere", 0, optimizer="gd", lr=50.0, steps=20000))
    stiff = proofs_of(run("sphere", 1, lr=0.2))
    met = {(p.optimizer, p.theorem, p.witness.get("mode")) for p in (*plain, *stiff)}
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
    exact = np.array(definition(case, W)[1], dtype=object)
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
    rows = r.judge.geometry(r.judge.selected(W)).rows
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


@pytest.mark.parametrize("gap", [0.3, 1e-6, 1e-13])
def test_float_steps_cover_the_rounding(gap):
    """A step of training is off the exact one by no more than the budget for one step, also where
    scores of about 100 differ by very little."""
    rng = np.random.default_rng(3)
    keys = unit(rng.standard_normal((3, 4, 4)))
    values = np.zeros((3, 4, 4))
    values[..., 0] = 100.0
    values[..., 1] = gap * rng.uniform(0, 0.9, (3, 4))
    values[:, 0, 1] = gap
    tokens = Tokens(values, keys=keys, queries=keys[:, 0], labels=np.ones(3))
    v = np.array([1.0, 1.0, 0.0, 0.0])
    judge = prover(tokens, head=v, loss="linear")
    case = Case.of(tokens, v, "linear")
    W = 60 * max_margin(case.at([0, 0, 0]).a).W.reshape(4, 4)
    proof = judge.prove(W)
    assert proof.proved and proof.float_steps > 1e5
    path = train(tokens, head=v, loss="linear", steps=1, init={"W": W[None]})
    with mpmath.workdps(200):
        g = np.array(definition(case, W, 200)[1], dtype=object)
        size = mpmath.sqrt(sum(x * x for x in g.ravel()))
        ahead = [
            mpmath.mpf(float(after)) - mpmath.mpf(float(w)) - mpmath.mpf(0.1) * x / size
            for after, w, x in zip(path.weights["W"][-1, 0].flat, W.flat, g.flat, strict=True)
        ]
        off = float(mpmath.sqrt(sum(x * x for x in ahead)))
    at = judge.geometry(proof.selection)
    budget = drift_of(tokens, at.frame, W / at.rows.unit, 0.1 / at.rows.unit)
    assert off <= budget * np.linalg.norm(W)


def test_no_false_proof_is_found():
    """A short hunt; `python -m tests.theory.convergence.hunt` is the long one."""
    tally: Counter[str] = Counter()
    for seed in range(21):
        family, wrong, counts = tried(seed)
        assert not wrong, (family, wrong)
        tally += counts
    assert tally["tube"] > 30 and tally["level"] > 3


@pytest.mark.slow
def test_no_false_proof_is_found_in_a_long_hunt():
    wrong = [line for seed in range(700) for line in tried(seed)[1]]
    assert not wrong, "\n".join(wrong)
