"""The outcome of anything: paths, matrices, prompts, factors, tensors, stacks; and what is refused.

Loss, gradient, attention and correlation are computed again from the formulas, in many digits
where attention is saturated.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import mpmath
import numpy as np
import pytest

import attsvm
from attsvm import BadTokens, ConvergenceWarning, Tokens, Unsupported
from attsvm.datasets.instances import sphere_arrays
from attsvm.solvers import solve as front
from attsvm.theory.outcome import State, state_of
from attsvm.training.heads import Quadratic
from attsvm.training.losses import LOSSES
from tests.problem.test_weights import FakeTensor
from tests.theory.convergence.reference import Case, definition
from tests.zoo import example

UNDECIDED, SATURATED, LOCAL, CONVERGES, UNKNOWN = get_args(State)
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 1]], bool)
a = sphere_arrays(3, 4, 4, seed=1)
TOKENS, V = Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]


def direction(tokens, v):
    """A matrix that selects the best tokens, and these."""
    keep = attsvm.Selection.best(tokens, v)
    return attsvm.solve(attsvm.Problem.of(tokens, keep)).W, keep.indices


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [1e-70, 1e-3, 1.0, 30.0, 1e3])
def test_numbers_of_a_bare_matrix(size, masked):
    tokens = Tokens(a["X"], queries=a["z"], labels=a["y"], mask=MASK if masked else None)
    W = size * np.random.default_rng(2).standard_normal((4, 4))
    found = attsvm.outcome(W, tokens, V)
    digits = 60 if size < 100 else 3000
    loss, G, least = definition(Case.of(tokens, V, "logistic"), W, digits)
    with mpmath.workdps(digits):
        gradient = float(mpmath.log10(mpmath.mnorm(mpmath.matrix(G), "f")))
    assert found.loss == pytest.approx(float(loss), rel=1e-13)
    assert found.log10_gradient == pytest.approx(gradient, abs=1e-9 * max(1, abs(gradient)))
    assert found.top_attention == pytest.approx(float(least), rel=1e-12)
    assert found.changed is None and np.isnan(found.log_time)
    assert (found.state == "undecided") == (least < 0.999)


def test_a_matrix_is_judged_as_its_path_is():
    path = attsvm.train(TOKENS, head=V, steps=3000, lr=0.5)
    end = path.matrices()[-1, 0]
    one, other = attsvm.outcome(path, TOKENS, V), attsvm.outcome(end, TOKENS, V, optimizer="ngd")
    told = attsvm.outcome(end, TOKENS, V, optimizer="ngd", lr=0.5)
    assert one.state == told.state == "converges" and told.proof.verify()
    assert other.state == LOCAL and other.proof is None  # of an unknown step nothing is proved
    assert attsvm.outcome(end, TOKENS, V, optimizer="adam", lr=0.5).proof is None
    for name in ("top_attention", "loss", "log10_gradient", "correlation", "margin_share"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12), name
    assert np.array_equal(one.selection, other.selection) and np.array_equal(one.W, other.W)
    assert one.limit == other.limit and one.optimality.kind == other.optimality.kind
    assert one.changed == int(path.changed.max()) and other.changed is None


def test_the_state_follows_size_and_selection():
    W, best = direction(TOKENS, V)
    for scale, state in ((1e-6, "undecided"), (1e2, LOCAL), (1e6, LOCAL), (1e60, LOCAL)):
        found = attsvm.outcome(scale * W, TOKENS, V)
        assert found.state == state and found.selection.tolist() == best.tolist()
        assert found.correlation == pytest.approx(1) and found.margin_share > 1 - 1e-6
        assert found.optimality.kind == "global" and found.certificate.status == "optimal"
    low = (TOKENS.labels[:, None] * (TOKENS.X @ V)).argmin(axis=1)
    other = attsvm.solve(attsvm.Problem.of(TOKENS, low)).W
    worst = attsvm.outcome(1e6 * other, TOKENS, V)  # every tight neighbour scores higher
    assert worst.state == "saturated" and worst.selection.tolist() == low.tolist()
    zero = attsvm.outcome(0 * W, TOKENS, V)
    assert zero.state == "undecided" and np.isnan(zero.correlation) and zero.top_attention == 0.25


def test_every_form_says_the_same():
    rng = np.random.default_rng(4)
    K, Q = rng.standard_normal((4, 6)), rng.standard_normal((4, 6))
    W = K @ Q.T
    whole = attsvm.outcome(W, TOKENS, V)
    for given in (W.tolist(), FakeTensor(W), {"W": W}, np.asfortranarray(W), W.astype(np.float32)):
        found = attsvm.outcome(given, TOKENS, FakeTensor(V))
        assert found.loss == pytest.approx(whole.loss, rel=1e-5) and found.state == whole.state
        assert found.certificate.norm.name == "frobenius" and found.limit.status == "unknown"
    for given in ((K, Q), {"K": K, "Q": Q}, (FakeTensor(K), FakeTensor(Q))):
        found = attsvm.outcome(given, TOKENS, V)
        assert found.loss == pytest.approx(whole.loss, rel=1e-13)
        assert found.certificate.norm.name == "nuclear" and found.limit.model == "factored"
        assert np.allclose(found.W, W, rtol=1e-13)


def test_the_gradient_of_factors_is_that_of_their_blocks():
    rng = np.random.default_rng(4)
    K, Q = rng.standard_normal((4, 2)), rng.standard_normal((4, 2))
    found = attsvm.outcome((K, Q), TOKENS, V)
    step, squares = 1e-6, 0.0
    for block in (K, Q):
        for index in np.ndindex(block.shape):
            kept = block[index]
            sides = []
            for sign in (1, -1):
                block[index] = kept + sign * step
                sides.append(attsvm.outcome(K @ Q.T, TOKENS, V).loss)
            block[index] = kept
            squares += ((sides[0] - sides[1]) / (2 * step)) ** 2
    assert 10**found.log10_gradient == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_what_is_told_names_the_limit():
    W, _ = direction(TOKENS, V)
    for optimizer, norm, status in (
        (None, "frobenius", "unknown"),
        ("gd", "frobenius", "proved"),
        ("mirror:3", "l3", "proved"),
        ("sign", "max", "conjectured"),
    ):
        found = attsvm.outcome(1e3 * W, TOKENS, V, optimizer=optimizer, lr=0.1)
        assert (found.certificate.norm.name, found.limit.status) == (norm, status)
        assert not found.limit.established
    assert "give optimizer=" in attsvm.outcome(W, TOKENS, V).limit.statement
    assert attsvm.outcome(W, TOKENS, V, norm="l1").certificate.norm.name == "l1"
    # No norm of factors is known for this optimizer: the usual one is compared with.
    found = attsvm.outcome((W, np.eye(4)), TOKENS, V, optimizer="adam")
    assert found.limit.norm is None and found.certificate.norm.name == "nuclear"
    squared = attsvm.outcome(W, TOKENS, V, optimizer="polyak", loss="squared")
    assert "does not apply" in squared.limit.word and squared.limit.status == "proved"
    assert found.loss != squared.loss
    wide = attsvm.outcome((W, np.eye(4)), TOKENS, V, optimizer="gd").limit
    (reach,) = [p for p in wide.premises if "from their start" in p.name]
    assert reach.holds is True and "rank of at most 4; 3 always suffices" in reach.detail


@pytest.mark.parametrize("optimizer", ["gd", "ngd", "polyak", "spectral", "muon"])
def test_equal_columns_of_the_factors_stay_equal(optimizer):
    """The width of the factors is 4, and W stays of rank one: the limit's rank is not reached."""
    draw = np.random.default_rng(0)
    start = {name: np.repeat(0.1 * draw.standard_normal((4, 1)), 4, axis=1) for name in "KQ"}
    path = attsvm.train(
        TOKENS,
        model="factored",
        optimizer=optimizer,
        head=V,
        lr=0.05,
        steps=300,
        init=start,
        width=4,
    )
    found = attsvm.outcome(path, TOKENS, V)
    assert found.rank == 1 and "rank of W          1" in repr(found)
    (reach,) = [p for p in found.limit.premises if "from their start" in p.name]
    assert reach.detail.startswith("from its start K Qᵀ has a rank of at most 1; ")
    if found.limit.norm == "nuclear":
        assert reach.holds is False and "least-norm solution has rank" in reach.detail
        assert found.limit.word.endswith("premise 'the factors can reach the limit's rank from "
                                         "their start' fails")  # fmt: skip
    else:  # spectral solutions have many ranks
        assert reach.holds is None
    free = attsvm.train(TOKENS, model="factored", optimizer=optimizer, head=V, lr=0.05, steps=300)
    limit = attsvm.outcome(free, TOKENS, V).limit
    assert {p.name: p.holds for p in limit.premises}[reach.name] is True


def test_what_is_of_the_rule_and_what_is_of_this_run():
    path = attsvm.train(TOKENS, optimizer="ngd", head=V, lr=0.1, steps=2000)
    said = repr(attsvm.outcome(path, TOKENS, V))
    assert "optimizer ngd, model weight: frobenius (proved if: " in said
    assert "this run: converges, proved (" in said


def test_a_path_checks_its_premises_on_its_data():
    path = attsvm.train(TOKENS, head=V, optimizer="gd", loss="exponential", steps=20)
    limit = attsvm.outcome(path, TOKENS, V).limit
    said = {p.name: (p.holds, p.detail) for p in limit.premises}
    assert said["the head is linear"][0] and said["each input has one best token"][0]
    assert said["the loss decreases strictly with the margin"] == (True, "the loss is exponential")
    assert limit.word.startswith("proved if: ") and not limit.established
    blind = attsvm.outcome(path, TOKENS).limit
    assert "the head is linear" in [p.name for p in blind.unchecked]
    head = Quadratic(V[None], 0.5)
    bent = attsvm.outcome(attsvm.train(TOKENS, head=head, steps=20), TOKENS, head)
    assert [p.name for p in bent.limit.failing] == ["the head is linear"]
    assert bent.limit.word == "does not apply: premise 'the head is linear' fails"


def test_decay_and_shrinking_steps_are_seen():
    path = attsvm.train(TOKENS, head=V, optimizer="gd", schedule="sqrt", decay=0.1, steps=5)
    limit = attsvm.outcome(path, TOKENS, V).limit
    assert [p.name for p in limit.failing] == [
        "the step is constant and small", "weights do not decay",
    ]  # fmt: skip
    decayed = attsvm.outcome(attsvm.train(TOKENS, head=V, decay=0.1, steps=5), TOKENS, V).limit
    assert decayed.word == "does not apply: premise 'weights do not decay' fails"
    plain = attsvm.outcome(attsvm.train(TOKENS, head=V, steps=5), TOKENS, V).limit
    assert "weights do not decay" not in [p.name for p in plain.premises]


def test_a_loss_that_is_not_at_hand_is_not_checked(tmp_path):
    own = replace(LOSSES["exponential"], name="own")
    path = attsvm.train(TOKENS, head=V, optimizer="gd", loss=own, steps=5)
    path.save(tmp_path / "run.npz")
    loaded = attsvm.Path.load(tmp_path / "run.npz")
    name = "the loss decreases strictly with the margin"
    for run, told, holds in ((path, {}, True), (loaded, {}, None), (loaded, {"loss": own}, True)):
        limit = attsvm.outcome(run, TOKENS, V, **told).limit
        assert {p.name: p.holds for p in limit.premises}[name] is holds


def test_a_tensor_with_a_gradient():
    torch = pytest.importorskip("torch")
    W, _ = direction(TOKENS, V)
    given = torch.nn.Parameter(torch.tensor(1e3 * W))
    found = attsvm.outcome(given, TOKENS, torch.tensor(V, requires_grad=True))
    assert found.state == LOCAL and given.grad is None


def test_a_trained_decoder_is_the_head():
    tokens = TOKENS
    path = attsvm.train(tokens, model="joint-weight", steps=2000, lr=0.2)
    end = path.at(-1)
    one = attsvm.outcome(path, tokens)
    given = {"W": end["W"][0], "v": end["v"][0]}
    other = attsvm.outcome(given, tokens, optimizer="ngd")
    assert one.state == other.state and np.array_equal(one.selection, other.selection)
    assert one.loss == pytest.approx(other.loss, rel=1e-12)
    assert one.log10_gradient == pytest.approx(other.log10_gradient, rel=1e-9)
    assert one.limit == other.limit
    with pytest.raises(Unsupported, match="the weights hold a decoder v: leave head out"):
        attsvm.outcome(given, tokens, V)
    with pytest.raises(BadTokens, match=r"the prediction head has shape \(3,\)"):
        attsvm.outcome({"W": given["W"], "v": np.ones(3)}, tokens)


def test_stacks():
    tokens, heads = zip(*(example("sphere", 3, 4, 4, seed=seed) for seed in range(3)), strict=True)
    heads = np.stack(heads)
    path = attsvm.train(tokens, head=heads, steps=2000, lr=0.5)
    W = path.matrices()[-1]
    for b in range(3):
        one = attsvm.outcome(path, tokens[b], heads, instance=b)
        found = attsvm.outcome(W, tokens[b], heads, instance=b, optimizer="ngd", lr=0.5)
        alone = attsvm.outcome(W[b], tokens[b], heads[b], optimizer="ngd", lr=0.5)
        assert one.state == found.state == alone.state
        assert one.loss == pytest.approx(found.loss, rel=1e-12) and found.loss == alone.loss
    for run in (path, W):
        with pytest.raises(BadTokens, match="instance is 3: instances run from 0 to 2"):
            attsvm.outcome(run, tokens[0], heads, instance=3)
    with pytest.raises(BadTokens, match="instance is 2: instances run from 0 to 1"):
        attsvm.outcome(W, tokens[2], heads[:2], instance=2)


def test_one_token_leaves_nothing_to_judge():
    for tokens in (
        Tokens(a["X"][:, :1], queries=a["z"], labels=a["y"]),
        Tokens(a["X"], queries=a["z"], labels=a["y"], mask=[[0, 1, 0, 0]] * 3),
    ):
        found = attsvm.outcome(np.eye(4), tokens, V, optimizer="gd")
        assert found.state == "unknown" and found.top_attention == 1 and found.certificate is None
        assert np.isfinite(found.loss) and found.log10_gradient == -np.inf


def test_duplicated_tokens_never_decide():
    X = np.repeat(a["X"][:, :2], 2, axis=1)
    tokens = Tokens(X, queries=a["z"], labels=a["y"])
    W = 1e6 * np.random.default_rng(0).standard_normal((4, 4))
    found = attsvm.outcome(W, tokens, V, optimizer="gd")
    assert found.state == "undecided" and found.top_attention == pytest.approx(0.5)
    assert found.certificate.status == "infeasible" and np.isnan(found.correlation)
    assert [p.name for p in found.limit.failing] == ["each input has one best token"]


def test_float32_tokens_and_no_labels():
    tokens = Tokens(a["X"].astype(np.float32), queries=a["z"].astype(np.float32))
    W, _ = direction(tokens, V)
    found = attsvm.outcome((1e3 * W).astype(np.float32), tokens, V.astype(np.float32))
    assert found.state == LOCAL and np.isnan(found.loss) and np.isnan(found.log10_gradient)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (BadTokens, {"run": np.zeros((4, 3))}, r"W has shape \(4, 3\); it must be \(4, 4\)"),
        (BadTokens, {"run": np.zeros(4)}, r"W has shape \(4,\); it must be \(4, 4\)"),
        (BadTokens, {"run": np.full((4, 4), np.nan)}, r"W\[0, 0\] is nan"),
        (BadTokens, {"run": np.full((4, 4), 1e100)}, r"entries must be finite and below 1e\+75"),
        (BadTokens, {"run": (np.zeros((4, 2)), np.zeros((4, 3)))}, "K has 2 columns and Q 3"),
        (BadTokens, {"head": None, "optimizer": "gd"}, "the head is missing: give head=v"),
        (BadTokens, {"head": np.zeros(3)}, r"the prediction head has shape \(3,\)"),
        (BadTokens, {"head": np.full(4, np.inf)}, "head has an entry that is not finite"),
        (BadTokens, {"instance": 1}, "instance is 1: there is one instance, 0"),
        (BadTokens, {"instance": -1}, "instance is -1"),
        (BadTokens, {"tokens": a["X"]}, "an outcome is of Tokens, or of Sentences"),
        (Unsupported, {"optimizer": "sgd"}, "unknown optimizer 'sgd'"),
        (Unsupported, {"lr": -1.0}, "lr is -1.0: it must be finite and positive"),
        (Unsupported, {"loss": 3}, "a loss is given by name"),
        (Unsupported, {"loss": "hinge"}, "unknown loss 'hinge'"),
        (Unsupported, {"norm": "l0"}, "l0"),
        (Unsupported, {"embedding": "normal"}, "embedding is an option for Sentences"),
        (Unsupported, {"model": "weight"}, "model is"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_named(kind, given, said):
    asked = {"run": np.eye(4), "tokens": TOKENS, "head": V, **given}
    with pytest.raises(kind, match=said):
        attsvm.outcome(**asked)


def test_a_path_knows_its_own_training():
    path = attsvm.train(TOKENS, head=V, steps=5)
    for name, value in (("optimizer", "gd"), ("lr", 0.1)):
        with pytest.raises(Unsupported, match=f"{name} is for given weights"):
            attsvm.outcome(path, TOKENS, V, **{name: value})
    with pytest.raises(Unsupported, match="this run's loss is 'logistic': leave loss out"):
        attsvm.outcome(path, TOKENS, V, loss="squared")
    with pytest.raises(BadTokens, match="the run was on 3 inputs of 4 tokens, not on"):
        attsvm.outcome(path, Tokens(a["X"][:2], queries=a["z"][:2]), V)


def test_sentences_refuse_what_is_of_tokens():
    data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    run = attsvm.two_stages(data, steps=(20, 20))
    for name, value in (("optimizer", "gd"), ("lr", 0.1), ("loss", "squared")):
        with pytest.raises(Unsupported, match=f"{name} is an option for Tokens"):
            attsvm.outcome(run, data, **{name: value})
    with pytest.raises(BadTokens, match="must be a Path"):
        attsvm.outcome(np.eye(3), data)


def test_results_are_plain_data():
    """What a program reads holds no infinity and no array, and says what the result says."""
    found = attsvm.outcome(direction(TOKENS, V)[0], TOKENS, V)
    said = found.to_dict()
    json.dumps(said, allow_nan=False)
    assert said["state"] == found.state and said["correlation"] == found.correlation
    assert said["log_flow_time"] is None and said["limit"]["norm"] is None
    optima = attsvm.local_optima(TOKENS, V)
    listed = optima.to_dict(rows=3)
    json.dumps(listed, allow_nan=False)
    assert [row["alpha"] for row in listed["list"]] == list(
        map(list, optima.to_frame()["selection"][:3])
    )
    assert [one["kind"] for one in listed["optima"]] == [one.kind for _, one in optima.local]
    assert len(optima.to_dict()["list"]) == len(optima.choices)


def ended(shape, seed, steps, lr=0.2):
    tokens, v = example("sphere", *shape, seed=seed)
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
    tokens, v = example("sphere", 5, 6, 3, seed=33)
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
    tokens, v = example("sphere", 5, 6, 3, seed=4)
    path = attsvm.train(tokens, head=v, steps=302, lr=0.2)
    assert attsvm.outcome(path, tokens).state == UNKNOWN


@pytest.mark.parametrize("top_attention", [0.3, 0.9999, 1.0])
@pytest.mark.parametrize("locally", [True, False, None])
def test_only_a_proof_makes_a_run_that_converges(top_attention, locally):
    verdict = SimpleNamespace(locally=locally, kind="undecided" if locally is None else "local")
    proved, failed = (SimpleNamespace(proved=p, message="…") for p in (True, False))
    assert state_of(top_attention, verdict, proved) == CONVERGES
    for proof in (failed, None):
        said = state_of(top_attention, verdict, proof)
        wanted = {True: LOCAL, False: SATURATED, None: UNKNOWN}[locally]
        assert said == (UNDECIDED if top_attention < 0.999 else wanted)


BEST = attsvm.Selection.best(TOKENS, V).indices
WORST = (TOKENS.labels[:, None] * (TOKENS.X @ V)).argmin(axis=1)


def far(alpha):
    """A large matrix that selects these tokens."""
    return 1e6 * attsvm.solve(attsvm.Problem.of(TOKENS, alpha)).W


@pytest.fixture
def solves(monkeypatch):
    """Every problem that a solver is given: its norm, and what it is made of."""
    given, run = [], front._run

    def counted(method, problem, norm, *rest):
        parts = problem.keys, problem.queries, problem.hi, problem.lo, problem.query, problem.b
        given.append((norm.name, *(x.tobytes() for x in parts)))
        return run(method, problem, norm, *rest)

    monkeypatch.setattr(front, "_run", counted)
    return given


@pytest.mark.parametrize(
    ("alpha", "told", "norms"),
    [
        (BEST, {"optimizer": "ngd", "lr": 0.5}, ["frobenius"]),
        (BEST, {"optimizer": "gd", "lr": 0.5}, ["frobenius"]),
        (BEST, {"optimizer": "nmirror:3", "lr": 0.5}, ["frobenius", "l3"]),
        (BEST, {"optimizer": "ngd", "lr": 0.5, "norm": "nuclear"}, ["frobenius", "nuclear"]),
        (
            WORST,
            {"optimizer": "ngd", "lr": 0.5},
            ["frobenius", "frobenius"],
        ),  # best and selected tokens
        (WORST, {}, ["frobenius"]),  # no optimizer: no premise on the best tokens
    ],
)
def test_each_problem_is_solved_once(solves, alpha, told, norms):
    W = far(alpha)
    solves.clear()
    found = attsvm.outcome(W, TOKENS, V, **told)
    assert found.selection.tolist() == alpha.tolist() and found.optimality is not None
    assert (found.proof is not None) == ("lr" in told)
    assert [norm for norm, *_ in solves] == norms and len(set(solves)) == len(norms)
    assert found.optimality.certificate is found.certificate


def test_factors_are_solved_once_in_each_norm(solves):
    K = np.random.default_rng(0).standard_normal((4, 1))
    found = attsvm.outcome({"K": K, "Q": K}, TOKENS, V, optimizer="ngd")
    norms = [norm for norm, *_ in solves]
    assert sorted(norms) == ["frobenius", "nuclear"] and found.certificate.norm.name == "nuclear"


@pytest.mark.parametrize("v", [V, V - 2 * a["X"][0, 0]])
def test_a_trained_decoder_repeats_no_solve(solves, v):
    W = far(BEST)
    solves.clear()
    found = attsvm.outcome({"W": W, "v": v}, TOKENS, optimizer="gd")
    assert found.certificate is not None and len(set(solves)) == len(solves) >= 2


def test_a_solve_that_stops_early_is_said_once(monkeypatch):
    W, run = far(BEST), front._run

    def stopped(*given):
        answer = run(*given)
        return replace(answer, multipliers=0 * answer.multipliers)  # no bound from below

    monkeypatch.setattr(front, "_run", stopped)
    with pytest.warns(ConvergenceWarning, match="asked for") as said:
        found = attsvm.outcome(W, TOKENS, V, optimizer="ngd", lr=0.5)
    assert found.certificate.status == "stalled" and len(said) == 1
