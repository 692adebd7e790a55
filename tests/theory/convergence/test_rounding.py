"""The count of float steps that a proof covers: not where floats lose a gap of scores."""

import numpy as np

import attsvm
from attsvm import Tokens

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
