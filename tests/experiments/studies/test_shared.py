"""What claims share: sign tests, published loops, fits."""

import numpy as np
import pytest

from attsvm import Sentences, proof_of_convergence, train
from attsvm.datasets.sentences import closed, paper_example, realizable, unconfused
from attsvm.experiments.group import selected_by
from attsvm.experiments.studies.a.published_examples import limit_lead
from attsvm.experiments.studies.b.several_tokens import instance, off_sum, problems, stacked
from attsvm.experiments.studies.beyond.proofs import StartPlane, limit_room
from attsvm.experiments.studies.d.stages import mixed
from attsvm.experiments.studies.shared.published import factored_run, plain_run, published_stack
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.studies.shared.sentence_runs import inside
from attsvm.experiments.study import mostly
from attsvm.next_token.order import orders
from attsvm.solvers import solve as front
from attsvm.theory.optima import local_optima


@pytest.mark.parametrize(
    ("wins", "total", "met"),
    [(7, 7, True), (6, 7, None), (3, 7, False), (2, 4, False), (0, 0, None), (13, 20, False)],
)
def test_half_of_the_runs_is_no_majority(wins, total, met):
    assert mostly("wins", [True] * wins + [False] * (total - wins)).met is met


def test_published_loops_begin_as_exact_runs_do():
    tokens, heads = published_stack([1, 2])
    marks = np.array([0, 1, 30])
    path = train(tokens, head=heads, lr=0.1, steps=30)
    plain = plain_run(tokens, heads, np.zeros((2, 10, 10)), lr=0.1, marks=marks, eps=0.0)
    assert np.allclose(plain[-1], path.weights["W"][-1], atol=1e-10)
    path = train(tokens, model="factored", head=heads, lr=0.1, steps=30, init="uniform", seed=0)
    first = path.weights["K"][0], path.weights["Q"][0]
    K, Q = factored_run(tokens, heads, first, lr=0.1, marks=marks, ridge=0.0)
    assert np.allclose(K[-1], path.weights["K"][-1], atol=1e-9)
    assert np.allclose(Q[-1], path.weights["Q"][-1], atol=1e-9)
    held, _ = factored_run(tokens, heads, first, lr=0.1, marks=marks, ridge=1e3)
    assert np.linalg.norm(held[-1]) < np.linalg.norm(held[0])


def test_published_loop_reads_a_relu_head_as_exact_runs_do():
    made = [instance("relu-v", 4, seed) for seed in range(2)]
    tokens, head = [one for one, _ in made], stacked("relu-v", [V for _, V in made])
    path = train(tokens, head=head, lr=0.1, steps=20)
    plain = plain_run(tokens, head, np.zeros((2, 4, 4)), lr=0.1, marks=np.array([20]), eps=0.0)
    assert np.allclose(plain[-1], path.weights["W"][-1], atol=1e-10)


def test_both_fits_are_one_where_the_ratios_are_the_runs_own():
    tokens, _ = instance("quadratic", 4, 0)
    W = 3 * np.random.default_rng(0).standard_normal((4, 4))
    s = attention(tokens, W)
    kept = np.array([[True, True, False, False]] * 3)
    found = {k: front.solve(p).W for k, p in problems(tokens, kept, s).items()}
    # The finite part is the projection of W on the span of the ties.
    assert abs(np.vdot(W, found["finite"]) - np.vdot(found["finite"], found["finite"])) < 1e-9
    least, best = off_sum(W, found["finite"], found["direction"])
    assert abs(least - best) < 1e-12
    elsewhere = off_sum(W, 2 * found["finite"], found["direction"])
    assert elsewhere[0] > elsewhere[1] + 1e-6
    along = np.vdot(W, found["direction"]) / np.linalg.norm(found["direction"])
    assert elsewhere[1] <= 1 - along / np.linalg.norm(W) + 1e-12


@pytest.mark.parametrize("loss", ["linear", "logistic"])
def test_limit_of_the_lead_balances_both_pulls(loss):
    slope = {"linear": lambda u: 1.0, "logistic": lambda u: 1 / (1 + np.exp(u))}[loss]
    for gain in (2.0, 7.0):
        lead = limit_lead(loss, gain)
        assert np.isclose(gain * slope(gain) * np.exp(-lead), slope(1.0))
        assert lead > 0 if loss == "linear" else lead < 0


@pytest.mark.parametrize(
    ("make", "met"), [(closed, True), (unconfused, False), (realizable, False)]
)
def test_sets_of_paper_d_are_closed_and_unconfused(make, met):
    data = Sentences.of(make(12, 4, 12, 0), vocabulary=12)
    assert inside(data, orders(data)) == met


def test_inputs_of_theorem_3_in_the_papers_example():
    data = Sentences.of(paper_example(), vocabulary=("S", "V", "O", "P"))
    words, chosen = mixed(orders(data))
    assert words.tolist() == [[0, 3], [1, 3]]  # S P and V P: O is above P before P
    assert chosen.tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["plane", "slice"])
def test_a_solution_has_room_and_what_has_room_is_proved_far_out(kind):
    here = StartPlane.of(kind, 3, shape=(3, 4, 4), angles=12)
    for alpha, found in local_optima(here.tokens, here.v).local:
        u = found.certificate.W / np.linalg.norm(found.certificate.W)
        assert limit_room(here, u, found, lr=0.1) > 0, alpha
        side = np.linalg.norm(u) * np.random.default_rng(1).standard_normal(u.shape)
        for turn in np.geomspace(1e-3, 3, 12):
            W = u + turn * side
            if not np.array_equal(selected_by(here.tokens, W), alpha):
                break
            if limit_room(here, W / np.linalg.norm(W), found, lr=0.1) > 0.01:
                far = 1e6 * W / np.linalg.norm(W)
                assert proof_of_convergence(here.tokens, far, head=here.v, lr=0.1).proved
