"""Saved proofs: they come back whole, and broken files get one sentence."""

from __future__ import annotations

import numpy as np
import pytest

import attsvm
from attsvm import ConvergenceProof, Tokens, proof_of_convergence
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import BadTokens
from tests.problem.test_weights import FakeTensor

A = sphere_arrays(3, 4, 4, seed=1)
TOKENS = Tokens(A["X"], queries=A["z"], labels=A["y"], mask=[[1, 1, 1, 1], [1, 1, 1, 0], [1] * 4])
BEST = attsvm.solve(attsvm.Problem.of(TOKENS, attsvm.Selection.best(TOKENS, A["v"])))


def made(scale=60.0, **options):
    return proof_of_convergence(TOKENS, scale * BEST.W, head=A["v"], **options)


def changed(path, **arrays):
    """The file with some arrays replaced; None takes one away."""
    held = {**dict(np.load(path)), **arrays}
    np.savez(path, **{name: value for name, value in held.items() if value is not None})


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "gd", "lr": 3.0}, {"scale": 1e-3}, {"lr": 1e9}]
)
def test_a_proof_comes_back_as_it_was(tmp_path, options):
    proof, file = made(**options), tmp_path / "p.npz"
    proof.save(file)
    again = ConvergenceProof.load(file)
    assert again.message == proof.message and again.to_dict() == proof.to_dict()
    assert bool(again.verify()) == proof.proved
    assert np.array_equal(again.W, proof.W) and np.array_equal(again.tokens.mask, TOKENS.mask)
    if proof.proved:
        assert again.require() is again
        assert np.array_equal(again.bound([0, 5, 10]), proof.bound([0, 5, 10]), equal_nan=True)
    else:
        assert again.blocked.reason and "not proved" in repr(again)
        with pytest.raises(attsvm.NotConverged, match="not proved"):
            again.require()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"attsvm_proof": None}, "not a saved proof"),
        ({"attsvm_proof": np.int64(7)}, "format 7"),
        ({"W": None}, "no array W"),
        ({"W": np.ones((2, 2))}, "W has shape"),
        ({"W": np.full((4, 4), np.nan)}, "W is not finite"),
        ({"head": np.array(["x"] * 4)}, "head has type"),
        ({"theorem": np.str_("trust me")}, "unknown theorem"),
        ({"selection": np.array([0, 9, 0])}, "not there"),
        ({"X": np.full((3, 4, 4), np.inf)}, "finite"),
        ({"labels": np.array([1.0, 2.0, 1.0])}, "labels"),
    ],
)
def test_a_broken_file_gets_one_sentence(tmp_path, arrays, said):
    file = tmp_path / "p.npz"
    made().save(file)
    changed(file, **arrays)
    with pytest.raises(BadTokens, match=said) as raised:
        ConvergenceProof.load(file)
    assert "\n" not in str(raised.value)


def test_a_file_is_not_replaced_unasked(tmp_path):
    file = tmp_path / "p.npz"
    made().save(file)
    before = file.read_bytes()
    with pytest.raises(BadTokens, match="exists"):
        made(scale=80.0).save(file)
    assert file.read_bytes() == before
    made(scale=80.0).save(file, force=True)
    assert file.read_bytes() != before


def test_tensors_with_a_gradient_are_taken():
    W = 60.0 * BEST.W
    proof = proof_of_convergence(TOKENS, FakeTensor(W), head=FakeTensor(A["v"]))
    assert proof.proved and np.array_equal(proof.W, W)
    held = attsvm.basin(TOKENS, proof.selection, head=FakeTensor(A["v"]))
    assert held.holds(FakeTensor(1e6 * W))


W = np.array([[57.0], [23.0]])


def pair(second: float) -> Tokens:
    """Two rivals at right angles; the second one's gap of scores is 2 − second."""
    X = [[[1.0, 1.0], [0.0, 1.0], [0.0, second]]]
    return Tokens(X, keys=[[[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]], labels=[1])


def test_a_gap_that_floats_lose_covers_no_float_step():
    """A gap of 2⁻⁵⁰ from terms of size 1 is a tie to a run in floats, which leaves the tube."""
    tokens, v = pair(2 - 2.0**-50), np.ones(2)
    proof = attsvm.proof_of_convergence(tokens, W, head=v, lr=0.1)
    assert proof.theorem == "tube" and proof.verify()
    run = attsvm.train(tokens, head=v, optimizer="ngd", lr=0.1, steps=5000, init={"W": W})
    last = run.matrices()[-1, 0]
    strayed = 1 - last.sum() / (np.sqrt(2) * np.linalg.norm(last))
    assert strayed > 10 * proof.bound(5000)  # the exact iteration does not
    assert proof.float_steps == 0


def test_a_plain_gap_covers_many():
    middle = np.full((2, 1), 40.0)
    proof = attsvm.proof_of_convergence(pair(1.5), middle, head=np.ones(2), lr=0.1)
    assert proof.float_steps > 100_000
