"""Proofs along runs: the first record that has one, what ends a run, and what has no theorem."""

import numpy as np
import pytest

import attsvm
from attsvm import train
from attsvm.errors import Unsupported
from attsvm.theory.convergence.prover import proved_since, prover_of, until_proved
from attsvm.training.models import MODELS
from tests.theory.convergence.reference import Case
from tests.zoo import example

TOKENS, HEADS = zip(*(example("sphere", 4, 5, 6, seed=seed) for seed in range(4)), strict=True)
HEADS = np.stack(HEADS)
CONFIG = {"optimizer": "ngd", "lr": 0.1, "loss": "logistic", "schedule": "constant", "decay": 0.0}


@pytest.fixture(scope="module")
def path():
    return train(TOKENS, head=HEADS, steps=6000, seed=3, init="normal:1")


def proof_of_end(path, tokens, head, b=0):
    form = path.form(None)
    return prover_of(path.config, form, tokens, head, int(path.steps[-1])).prove(
        form.matrix(path.at(-1))[b]
    )


def test_a_run_is_proved_from_a_record_on_and_stays(path):
    proved = 0
    for b, tokens in enumerate(TOKENS):
        since = proved_since(path, tokens, HEADS, instance=b)
        end = proof_of_end(path, tokens, HEADS[b], b)
        assert (since is None) == (not end.proved)
        if since is None:
            continue
        proved += 1
        assert since.step == path.steps[since.record] and since.proof.verify()
        assert since.step >= path.changed[b].max()
        later = path.matrices()[since.record :, b]
        best = attsvm.solve(attsvm.Problem.of(tokens, path.selection[b])).W
        apart = 1 - np.einsum("rij,ij->r", later, best) / (
            np.linalg.norm(later, axis=(1, 2)) * np.linalg.norm(best)
        )
        assert (apart <= since.proof.bound_at(later)).all()
        assert (apart <= since.proof.bound(path.steps[since.record :] - since.step)).all()
        chosen = Case.of(tokens, HEADS[b], "logistic").at(path.selection[b])
        W = since.proof.W.reshape(1, -1)
        for _ in range(300):
            g = chosen.gradient(W, chosen.margins(W).min(axis=1))
            W = W + 0.1 * g / np.linalg.norm(g)
        assert (chosen.margins(W) > 0).all()
    assert proved >= 3


def test_a_stack_ends_when_every_run_is_proved():
    stop = until_proved(TOKENS[:3], HEADS[:3], CONFIG, model=MODELS["weight"])
    made = train(TOKENS[:3], head=HEADS[:3], steps=20000, seed=3, init="normal:1", stop=stop)
    assert made.steps[-1] < 20000
    for tokens, W, v in zip(TOKENS[:3], made.at(-1)["W"], HEADS[:3], strict=True):
        proof = attsvm.proof_of_convergence(tokens, W, head=v)
        assert proof.proved and proof.verify()
    assert all(
        attsvm.outcome(made, TOKENS[b], HEADS, instance=b).state == "converges" for b in range(3)
    )


def test_a_falling_schedule_is_covered_without_a_rate_in_steps():
    made = train(TOKENS[0], head=HEADS[0], steps=4000, lr=5.0, schedule="sqrt")
    proof = proof_of_end(made, TOKENS[0], HEADS[0])
    assert proof.proved and proof.lr == pytest.approx(5.0 / np.sqrt(4001))
    assert proof.constants["growth"] == 0 and np.isnan(proof.bound(10)) and proof.verify()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimizer": "adam", "lr": 0.01}, "no theorem"),
        ({"optimizer": "spectral"}, "no theorem"),
        ({"model": "factored"}, "model 'factored'"),
        ({"decay": 0.01}, "weight decay"),
        ({"schedule": lambda t: 1.0}, "custom schedule"),
        ({"loss": "squared"}, "squared"),
    ],
)
def test_runs_without_a_theorem_say_so_and_have_an_outcome(options, said):
    made = train(TOKENS[0], head=HEADS[0], steps=50, **options)
    if "loss" in options:
        proof = proof_of_end(made, TOKENS[0], HEADS[0])
        assert not proof.proved and said in proof.message
        return
    with pytest.raises(Unsupported, match=said):
        proof_of_end(made, TOKENS[0], HEADS[0])
    assert attsvm.outcome(made, TOKENS[0], HEADS[0]).proof is None
