"""States of runs: each word is said where its meaning holds, and nowhere else."""

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

import attsvm
from attsvm.datasets.instances import sphere_arrays
from attsvm.plotting.run import _STATE
from attsvm.theory.outcome import Outcome, State, _state

UNDECIDED, SATURATED, LOCAL, CONVERGES, UNKNOWN = get_args(State)


def instance(shape, seed):
    a = sphere_arrays(*shape, seed=seed)
    return attsvm.Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]


def ended(shape, seed, steps, lr=0.2):
    tokens, v = instance(shape, seed)
    path = attsvm.train(tokens, head=v, steps=steps, lr=lr)
    return attsvm.outcome(path, tokens, v), path


def test_the_words():
    assert get_args(State) == (
        "undecided",
        "saturated",
        "at a locally optimal selection",
        "converges",
        "unknown",
    )
    assert set(_STATE) == set(get_args(State))


def test_a_locally_optimal_selection_may_still_be_left():
    """Certified, sure to 0.999 in every input, and left forty steps later."""
    early, path = ended((5, 6, 3), 4, 302)
    late, _ = ended((5, 6, 3), 4, 400)
    assert early.state == late.state == LOCAL and early.top_attention > 0.999
    assert early.optimality.locally is True and early.optimality.certificate.verify().ok
    assert early.selection.tolist() != late.selection.tolist() and late.changed > path.steps[-1]


def test_a_saturated_run_is_at_a_selection_that_is_not_locally_optimal():
    found, path = ended((5, 6, 3), 33, 4020)
    assert found.state == SATURATED and path.top_attention[-1].min() > 0.999
    (bad, *_) = found.optimality.witnesses
    tokens, v = instance((5, 6, 3), 33)
    kept = found.selection[bad.input]
    scores = tokens.labels[bad.input] * tokens.X[bad.input] @ v
    assert scores[bad.token] > scores[kept]  # a better token …
    i, t = bad.input, bad.token
    W = found.certificate.W
    lead = (tokens.X[i, kept] - tokens.X[i, t]) @ W @ tokens.queries[i]
    assert abs(lead - 1) < 1e-6  # … whose margin is met with equality


def test_an_undecided_run_spreads_its_attention():
    found, path = ended((4, 5, 4), 0, 3)
    assert found.state == UNDECIDED and path.top_attention[-1].min() < 0.999


def test_without_a_head_nothing_is_known():
    tokens, v = instance((5, 6, 3), 4)
    path = attsvm.train(tokens, head=v, steps=302, lr=0.2)
    assert attsvm.outcome(path, tokens).state == UNKNOWN


@pytest.mark.parametrize("top_attention", [0.3, 0.9999, 1.0])
@pytest.mark.parametrize("locally", [True, False, None])
def test_only_a_proof_makes_a_run_that_converges(top_attention, locally):
    verdict = SimpleNamespace(locally=locally, kind="undecided" if locally is None else "local")
    proved, failed = (SimpleNamespace(proved=p, message="…") for p in (True, False))
    assert _state(top_attention, verdict, proved) == CONVERGES
    for proof in (failed, None):
        said = _state(top_attention, verdict, proof)
        wanted = {True: LOCAL, False: SATURATED, None: UNKNOWN}[locally]
        assert said == (UNDECIDED if top_attention < 0.999 else wanted)


def test_the_proof_is_the_last_field():
    assert list(Outcome.__dataclass_fields__)[-1] == "proof"
    found, _ = ended((4, 5, 4), 0, 3)
    assert not found.proof.proved and found.proof.message and np.isfinite(found.loss)
