"""Saved proofs: they come back whole, and broken files get one sentence."""

import numpy as np
import pytest

import attsvm
from attsvm import ConvergenceProof, Tokens, proof_of_convergence
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import BadTokens

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


class Tensor:
    """What a tensor with a gradient offers: no array before it is detached."""

    def __init__(self, array, free=False):
        self.array, self.free = array, free

    def detach(self):
        return Tensor(self.array, free=True)

    def cpu(self):
        return self

    def numpy(self):
        if not self.free:
            raise RuntimeError("call detach first")
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


def test_tensors_with_a_gradient_are_taken():
    W = 60.0 * BEST.W
    proof = proof_of_convergence(TOKENS, Tensor(W), head=Tensor(A["v"]))
    assert proof.proved and np.array_equal(proof.W, W)
    held = attsvm.basin(TOKENS, proof.selection, head=Tensor(A["v"]))
    assert held.holds(Tensor(1e6 * W))
