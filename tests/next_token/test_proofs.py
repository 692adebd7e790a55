"""Proofs of convergence on sentences: pulls within their errors, and runs that keep to them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token import SentenceProof
from attsvm.next_token.attention import Contexts
from attsvm.next_token.training.gradient import attention_loss
from attsvm.next_token.training.proofs import _prover, proof_of_convergence, sentence_rows
from attsvm.next_token.training.train import SentenceObjective
from tests.next_token.hunt import try_proofs

READOUTS = ["softmax", "mass"]


def repeated(seed=0):
    """Sentences with repeated tokens, of several lengths and counts."""
    lines = realizable(7, (2, 4), 8, seed, query_count=3)
    lines += [[line[0], line[0], *line[:-1], line[-1]] for line in lines if len(line) > 3][:3]
    return attsvm.Sentences.of(lines + lines[7:10])


def decoder(data, E, seed=0, noise=0.3, strength=2.0):
    """W_ov that rises at each follower, with noise."""
    rng = np.random.default_rng(seed)
    out = noise * rng.standard_normal((data.vocabulary, data.vocabulary))
    tokens = np.flatnonzero(data.follows >= 0)
    out[data.follows[tokens], tokens] += strength
    return out @ np.linalg.pinv(E).T if E.shape[1] != len(E) else np.linalg.solve(E, out.T).T


def lesson_of(data, readout, seed=0, embedding=None, noise=0.3):
    E = np.eye(data.vocabulary) if embedding is None else embedding
    head = decoder(data, E, seed, noise) if readout == "softmax" else None
    return SentenceObjective.of(data, "next-token", head=head, embedding=E, readout=readout)


def optimal(lesson):
    return lesson.contexts.right.argmax(axis=1)


def pulls(lesson, alpha, W):
    """q_k of every merged row, e^−m_k, and −∇L, all by the plain formulas."""
    contexts, data, E = lesson.contexts, lesson.sentences, lesson.E
    counts = data.distinct[1]
    rows = sentence_rows(lesson, alpha)
    q = np.zeros(rows.count)
    where = iter(rows.pull.group)
    G = np.zeros_like(W)
    for s in range(data.size):
        t = contexts.tokens[s][contexts.tokens[s] >= 0]
        m = counts[s][: len(t)]
        z = E[contexts.queries[s]]
        logits = E[t] @ W @ z
        margin = logits[alpha[s]] - logits
        weight = m * np.exp(-margin)
        attention = weight / weight.sum()
        if lesson.mass:
            pull = np.ones(len(t))
        else:
            V = E[t] @ lesson.head.T
            out = attention @ V
            p = np.exp(out - out.max())
            residual = -p / p.sum()
            residual[data.labels[s]] += 1
            pull = (out - V) @ residual
        for j in range(len(t)):
            if j != alpha[s]:
                own = contexts.weights[s] * attention[j] * pull[j]
                q[next(where)] += own * np.exp(margin[j])
                G += own * np.outer(E[t[alpha[s]]] - E[t[j]], z)
    return q, np.exp(-rows.margins(W).mid), G


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("kind", ["orthonormal", "other"])
def test_pulls_lie_within_their_errors(readout, kind):
    data = repeated()
    rng = np.random.default_rng(5)
    E = np.eye(7) if kind == "orthonormal" else rng.standard_normal((7, 7))
    lesson = lesson_of(data, readout, embedding=E)
    alpha = optimal(lesson)
    rows = sentence_rows(lesson, alpha)
    assert rows.unit in (1, 1 / 16, 1 / 4, 1 / 64) or kind == "orthonormal"
    direction = _prover(lesson, "ngd", 0.1).geometry(alpha).direction
    largest = 0.0
    for size in (0.3, 1.0, 2.0, 4.0, 8.0, 16.0):
        for _ in range(20):
            W = size * (direction + 0.3 * rng.standard_normal((7, 7)))
            q, e, G = pulls(lesson, alpha, W / 1.0)
            e = np.exp(-rows.margins(W / rows.unit).mid)
            look = attention_loss(lesson.contexts, None if readout == "mass" else lesson.V)
            gradient = look({"W_kq": W[None]}).gradient
            g = gradient.direction["W_kq"][0] * np.exp(gradient.log_scale["W_kq"][0])
            assert np.allclose(-g, G, rtol=1e-6, atol=1e-7 * np.abs(G).max())
            limit, error = rows.pull.limit, rows.pull.error(e * (1 + 1e-12))
            assert (np.abs(q - limit.mid) <= error * (1 + 1e-9) + 1e-14).all()
            low, high = rows.pull.between(e * (1 + 1e-12))
            assert (low <= q + 1e-14).all()
            assert (q - 1e-14 <= high).all()
            some = (error > 1e-10) & np.isfinite(error)
            largest = max(
                largest, float((np.abs(q - limit.mid)[some] / error[some]).max(initial=0))
            )
            # The error falls at least as fast as e.
            assert (rows.pull.error(0.3 * e) <= 0.3 * error * (1 + 1e-12)).all()
    # One with the sign of an error turned would be seen: the bound is nearly reached.
    assert largest > 0.2


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_runs_keep_what_is_proved(readout, seed):
    data = attsvm.Sentences.of(realizable(8, 3, 10, seed, query_count=3))
    kw = {"readout": readout, "head": decoder(data, np.eye(8)) if readout == "softmax" else None}
    path = attsvm.train(data, model="next-token", lr=0.1, steps=3000, **kw)
    proof = attsvm.proof_of_convergence(data, path.at(-1)["W_kq"][0], lr=0.1, **kw)
    assert proof.proved, proof.message
    assert proof.verify()
    assert proof.float_steps == 0
    more = attsvm.train(data, start=path, steps=5000, head=kw["head"])
    later = more.steps >= 3000
    assert (more.top[later, 0] == path.top[-1, 0]).all()
    end = more.at(-1)["W_kq"][0]
    corr = (end * proof.direction).sum() / np.linalg.norm(end) / np.linalg.norm(proof.direction)
    if proof.theorem == "tube":
        assert 1 - corr <= proof.bound(5000)
        assert 1 - corr <= proof.bound_at(end)


@pytest.mark.parametrize("readout", READOUTS)
def test_members_of_the_cone_stay(readout):
    data = repeated(1)
    lesson = lesson_of(data, readout)
    alpha = optimal(lesson)
    made = _prover(lesson, "ngd", 0.1)
    direction = made.geometry(alpha).direction
    proof = made.prove(3e4 * direction, only="cone")
    assert proof.proved
    c, R, N = proof.constants["c0"], proof.constants["R"], np.linalg.norm(direction)
    contexts = lesson.contexts
    look = attention_loss(contexts, None if readout == "mass" else lesson.V)
    rng = np.random.default_rng(0)
    rows = sentence_rows(lesson, alpha)
    ways = [rng.standard_normal(direction.shape) for _ in range(30)]
    ways += [-np.outer(d, z) for d, z in zip(rows.D.mid, rows.Z, strict=True)]
    for P in ways:
        P = P - (P * direction).sum() / N**2 * direction
        unit = direction / N * c + P / np.linalg.norm(P) * np.sqrt(1 - c * c)
        for times in (1.0, 5.0):
            for h in (proof.lr, proof.longest_step):
                W = unit * R * times
                g = -look({"W_kq": W[None]}).gradient.direction["W_kq"][0]
                after = W + h * g / np.linalg.norm(g)
                assert (after * direction).sum() / N / np.linalg.norm(after) >= c * (1 - 1e-12)
                assert np.linalg.norm(after) > np.linalg.norm(W)


@pytest.mark.parametrize("readout", READOUTS)
def test_runs_from_the_tube_stay_in_it(readout):
    data = attsvm.Sentences.of(realizable(8, 3, 10, 1, query_count=3))
    kw = {"readout": readout, "head": decoder(data, np.eye(8)) if readout == "softmax" else None}
    lesson = lesson_of(data, readout)
    alpha = optimal(lesson)
    made = _prover(lesson, "ngd", 0.1)
    at = made.geometry(alpha)
    rng = np.random.default_rng(2)
    proved = 0
    for _ in range(6):
        start = 60 * at.direction + 0.2 * rng.standard_normal(at.direction.shape)
        proof = attsvm.proof_of_convergence(data, start, lr=0.1, **kw)
        if proof.theorem != "tube":
            continue
        proved += 1
        path = attsvm.train(
            data, model="next-token", lr=0.1, steps=2000, init={"W_kq": start}, **kw
        )
        N2 = (at.direction**2).sum()
        for W in path.weights["W_kq"][:, 0]:
            rho = (W * at.direction).sum() / N2
            off = W - rho * at.direction
            assert np.linalg.norm(off) <= proof.constants["star"] + proof.constants["D"] + 1e-9
            corr = rho * np.sqrt(N2) / np.linalg.norm(W)
            assert 1 - corr <= proof.bound_at(W) + 1e-12
        assert (path.top[-1, 0] == alpha).all()
    assert proved >= 3


@pytest.mark.parametrize("readout", READOUTS)
def test_a_proof_is_saved_and_loaded(readout, tmp_path):
    data = repeated(2)
    lesson = lesson_of(data, readout)
    made = _prover(lesson, "ngd", 0.1)
    proof = made.prove(1e4 * made.geometry(optimal(lesson)).direction)
    assert proof.proved, proof.message
    proof.save(tmp_path / "proof.npz")
    again = SentenceProof.load(tmp_path / "proof.npz")
    assert again.verify()
    assert again.message == proof.message
    with pytest.raises(attsvm.BadTokens, match="on sentences"):
        attsvm.ConvergenceProof.load(tmp_path / "proof.npz")
    assert not replace(proof, longest_step=3 * proof.longest_step).verify()
    wrong = {**proof.constants, "beta": proof.constants["beta"] + 0.1}
    assert not replace(proof, constants=wrong).verify()
    assert not replace(proof, W=-proof.W).verify()


def test_a_flipped_decoder_and_another_selection_are_not_proved():
    data = repeated()
    lesson = lesson_of(data, "softmax")
    made = _prover(lesson, "ngd", 0.1)
    W = 1e4 * made.geometry(optimal(lesson)).direction
    assert made.prove(W).proved
    flipped = attsvm.proof_of_convergence(data, W, head=-lesson.head)
    assert not flipped.proved
    assert (made.rows_for(optimal(lesson)).pull.limit.lo > 0).all()
    assert not made.prove(-W).proved
    mass = proof_of_convergence(data, -W, readout="mass")
    assert "which its label does not follow" in mass.message


def test_ties_are_named():
    data = attsvm.Sentences.of(cyclic(8, 3, 10, 0, query_count=2))
    path = attsvm.train(data, readout="mass", model="next-token", lr=0.1, steps=500)
    proof = attsvm.proof_of_convergence(data, path.at(-1)["W_kq"][0], readout="mass")
    assert not proof.proved
    assert "no theorem covers ties" in proof.message
    head = decoder(data, np.eye(8))
    path = attsvm.train(data, head=head, model="next-token", lr=0.1, steps=500)
    proof = attsvm.proof_of_convergence(data, path.at(-1)["W_kq"][0], head=head)
    assert not proof.proved
    assert "are tied, as in" in proof.message


def test_two_optimal_tokens_are_named_and_equal_outputs_are_no_proof():
    data = attsvm.Sentences.of([[0, 2], [1, 2], [2, 3], [0, 1, 3, 2]], vocabulary=4)
    proof = attsvm.proof_of_convergence(data, 50 * np.eye(4), readout="mass")
    assert "2 tied tokens" in proof.message
    assert "sentence 3" in proof.message
    head = np.zeros((4, 4))
    head[2, 0] = head[2, 1] = 2.0
    W = np.zeros((4, 4))
    W[:, 3] = [90.0, 0.0, 0.0, -90.0]
    proof = attsvm.proof_of_convergence(data, W, head=head)
    assert not proof.proved
    assert "scores as much as" in proof.message


def test_mirror_descent_on_sentences():
    data = attsvm.Sentences.of(realizable(6, 3, 6, 0, query_count=2))
    lesson = lesson_of(data, "mass")
    made = _prover(lesson, "nmirror:1.75", 0.1)
    direction = made.geometry(optimal(lesson)).direction
    proof = attsvm.proof_of_convergence(
        data, 3e3 * direction, readout="mass", optimizer="nmirror:1.75", lr=0.1
    )
    assert proof.theorem == "power cone", proof.message
    assert proof.verify()


def test_options_of_the_other_kind_of_data_are_refused():
    data = repeated()
    tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0]]])
    with pytest.raises(attsvm.Unsupported, match="for Sentences only"):
        attsvm.proof_of_convergence(tokens, [0.0, 1.0], head=[0.0, 1.0], readout="mass")
    with pytest.raises(attsvm.Unsupported, match="for Tokens only"):
        attsvm.proof_of_convergence(data, np.eye(7), readout="mass", loss="linear")
    with pytest.raises(attsvm.BadTokens, match="it must be"):
        attsvm.proof_of_convergence(data, np.eye(3), readout="mass")
    assert isinstance(Contexts.of(data, np.eye(7)), Contexts)


def test_no_false_proof_is_found():
    total = Counter()
    for seed in range(30):
        wrong, tally = try_proofs(seed)
        assert not wrong, wrong
        total += tally
    assert total["tube"] > 15
    assert total["cone"] > 3


def test_the_outcome_of_a_run_holds_its_proof():
    data = attsvm.Sentences.of(realizable(8, 3, 10, 0, query_count=3))
    first = attsvm.train(data, model="decoder", lr=0.1, steps=2000)
    path = attsvm.train(data, model="next-token", head=first, lr=0.1, steps=2000)
    found = attsvm.outcome(path, data, first)
    assert found.proof is not None and found.proof.proved and found.proof.verify()
    assert 1 - found.correlation["W_kq"] <= found.proof.bound()
    short = attsvm.train(data, model="next-token", head=first, lr=0.1, steps=20)
    blocked = attsvm.outcome(short, data, first).proof
    assert blocked is not None and not blocked.proved and "not proved" in blocked.message
    both = attsvm.train(data, model="joint-next-token", lr=0.1, steps=20)
    assert attsvm.outcome(both, data).proof is None
    other = attsvm.train(data, model="next-token", head=first, optimizer="adam", lr=0.1, steps=20)
    assert attsvm.outcome(other, data, first).proof is None
    falling = attsvm.train(data, model="next-token", head=first, lr=0.1, steps=20, schedule="sqrt")
    assert attsvm.outcome(falling, data, first).proof is None
