"""Both stages of next-token training: what they do step by step, and where they go."""

import numpy as np
import pytest

from attsvm import Sentences, outcome, train, two_stages
from attsvm._utils import memory
from attsvm.datasets.sentences import realizable
from attsvm.errors import BadTokens, TooLarge, Unsupported
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import excess, infima
from attsvm.next_token.order import orders
from attsvm.next_token.problems import solve_attention, solve_decoder
from attsvm.next_token.training import train as sentence_task
from attsvm.theory.measures import correlation


@pytest.fixture(scope="module")
def data():
    return Sentences.of(realizable(8, 3, 20, 2))


@pytest.fixture(scope="module")
def stages(data):
    return two_stages(data, steps=(400, 600))


def test_the_first_stage_moves_straight_to_its_solution(data, stages):
    path = stages.decoder
    W = path.weights["W_ov"][1:, 0]
    best = solve_decoder(data, np.eye(8)).W
    assert np.linalg.norm(best) == pytest.approx(np.sqrt(7), rel=1e-12)
    np.testing.assert_allclose(correlation(W, best), 1, atol=1e-12)
    size = np.linalg.norm(W, axis=(1, 2))
    np.testing.assert_allclose(size, 0.2 / np.sqrt(8) * path.steps[1:], rtol=1e-12)


def test_each_stage_is_a_run_of_its_own(data, stages):
    first = train(data, model="decoder", lr=0.2 / np.sqrt(8), steps=400)
    second = train(data, model="next-token", head=first, lr=0.05 / np.sqrt(8), steps=600)
    np.testing.assert_array_equal(stages.decoder.weights["W_ov"], first.weights["W_ov"])
    np.testing.assert_array_equal(stages.attention.weights["W_kq"], second.weights["W_kq"])
    np.testing.assert_array_equal(stages.W_ov, first.weights["W_ov"][-1, 0])
    np.testing.assert_array_equal(stages.V, stages.E @ stages.W_ov.T)


def test_the_second_stage_descends_on_the_written_loss(data, stages):
    """The recorded loss and the first step's gradient by differences of the formula itself."""
    V = stages.V

    def loss(W):
        total = 0.0
        for s in range(data.size):
            words = data.words[s, : data.lengths[s]]
            a = np.exp(W[words, words[-1]])
            z = (a / a.sum()) @ V[words]
            total += data.weights[s] * (np.logaddexp.reduce(z) - z[data.labels[s]])
        return total

    path = stages.attention
    assert path.loss[0, 0] == pytest.approx(loss(np.zeros((8, 8))), rel=1e-12)
    assert path.loss[-1, 0] == pytest.approx(loss(stages.W_kq), rel=1e-9)
    step = path.weights["W_kq"][1, 0]
    slope = np.zeros((8, 8))
    for i, j in np.ndindex(8, 8):
        h = np.zeros((8, 8))
        h[i, j] = 1e-5
        slope[i, j] = (loss(h) - loss(-h)) / 2e-5
    np.testing.assert_allclose(step, -0.05 / np.sqrt(8) * slope / np.linalg.norm(slope), atol=1e-9)


def test_the_second_stage_turns_to_its_solution(data, stages):
    best = solve_attention(orders(data), stages.E).W
    late = two_stages(data, steps=(400, 6000))
    near, nearer = (float(correlation(run.W_kq, best)) for run in (stages, late))
    assert near < nearer and nearer > 0.99
    contexts = Contexts.of(data, stages.E)
    infimum, lowest = infima(contexts, stages.V)
    assert lowest.all()
    above = [excess(contexts, stages.V, W) for W in stages.attention.weights["W_kq"][:, 0]]
    assert (np.diff(above) < 0).all()
    assert stages.attention.loss[-1, 0] == pytest.approx(
        float(contexts.weights @ infimum) + above[-1], rel=1e-10
    )


def test_uniform_weights_forget_the_counts():
    lines = [[0, 1], [1, 2], [2, 0], [0, 1]]
    data = Sentences.of([*lines, [0, 1, 2], [1, 0, 0, 2]])
    best = solve_decoder(data, np.eye(3)).W
    uniform = two_stages(data, steps=(50, 5), weights=("uniform", "empirical")).W_ov
    empirical = two_stages(data, steps=(50, 5)).W_ov
    assert float(correlation(uniform, best)) == pytest.approx(1, abs=1e-12)
    assert float(correlation(empirical, best)) < 1 - 1e-4


def test_progress_goes_from_none_to_all(data):
    seen = []
    two_stages(data, steps=(200, 400), progress=seen.append)
    assert seen == sorted(seen) and seen[0] == 0.0
    assert any(s < 1 / 3 for s in seen) and any(1 / 3 <= s <= 1 for s in seen)


def test_data_that_cannot_be_trained():
    with pytest.raises(BadTokens, match="no collocations"):
        two_stages(Sentences.of([[0, 1, 2]]), steps=(1, 1))
    with pytest.raises(BadTokens, match="no sentence"):
        two_stages(Sentences.of([[0, 1], [1, 0]]), steps=(1, 1))
    with pytest.raises(Unsupported, match="unknown weights"):
        two_stages(Sentences.of([[0, 1], [1, 0], [0, 1, 1]]), steps=(1, 1), weights=("x", "x"))


def test_six_panels(data, stages):
    figure = outcome(stages, data).plot()
    assert len(figure.axes) == 6
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == [
        f"{name}: {what}" for name in ("W_ov", "W_kq") for what in ("loss", "direction", "norm")
    ]
    assert figure.axes[0].get_yscale() == "log" and figure.axes[4].get_xscale() == "log"
    assert "exact" in figure.axes[1].texts[-1].get_text()  # nothing to draw: it is said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"model": "decoder", "head": np.eye(8)}, "leave head out"),
        ({"model": "next-token", "readout": "mass", "collocations": True}, "joint-next-token"),
        ({"model": "decoder", "loss": "squared"}, "loss"),
        ({"model": "decoder", "width": 3}, "width"),
    ],
)
def test_what_a_model_would_not_look_at_is_refused(data, more, says):
    with pytest.raises(Unsupported, match=says):
        train(data, steps=2, **more)


@pytest.mark.parametrize("more", [{"steps": 10}, {"lr": 0.1}, {"weights": "uniform"},
                                  {"steps": (1, 2, 3)}])  # fmt: skip
def test_each_stage_needs_its_own(data, more):
    with pytest.raises(Unsupported, match="one for each stage"):
        two_stages(data, **more)
    with pytest.raises(BadTokens, match="must be Sentences"):
        two_stages([[0, 1, 2]])


def test_polyak_and_mass_name_the_line():
    data = Sentences.of([[0, 1], [2, 1], [1, 0], [0, 2, 1, 1], [0, 1, 2]], first=1)
    with pytest.raises(BadTokens, match=r"line 4 \(0 2 1 → 1\)"):
        train(data, model="next-token", head=np.eye(3), optimizer="polyak", steps=2)
    with pytest.raises(BadTokens, match=r"line 5 \(0 1 → 2\)"):
        train(data, model="next-token", readout="mass", steps=2)


def test_a_run_that_does_not_fit_in_memory_is_refused():
    lines = [[x, x + 1] for x in range(200_000)]
    with pytest.raises(TooLarge, match="GB"):
        train(Sentences.of(lines), model="decoder", steps=1)


def test_a_step_that_does_not_fit_in_memory_is_refused(monkeypatch):
    data = Sentences.of(realizable(8, 4, 120, 2))
    S, K = data.distinct[0].shape
    monkeypatch.setattr(memory, "available", lambda: 24.0 * S * K * 8 - 1)
    monkeypatch.setattr(sentence_task, "records_of", lambda shapes: 0)
    for more in ({"model": "joint-next-token"}, {"model": "next-token", "head": np.diag(range(8))}):
        with pytest.raises(TooLarge, match=f"a step on {S} sentences of {K} tokens over 8"):
            train(data, steps=1, **more)


@pytest.mark.parametrize("size", [1.0, 300.0, 1e4])
def test_the_excess_of_a_strong_decoder(size):
    # Two tokens a and b, V = size·e_n: with attention s on b, ℓ − ℓ⋆ in closed form.
    data = Sentences.of([[0, 1], [1, 0], [0, 1, 1]])
    contexts = Contexts.of(data, np.eye(2))
    V = size * np.array([[0.0, 1.0], [1.0, 0.0]])
    for h in (0.0, 3.0, -3.0):
        s = 1 / (1 + np.exp(h))
        W = np.array([[0.0, h], [0.0, 0.0]])
        loss = np.logaddexp(0.0, size * (2 * s - 1)) - np.logaddexp(0.0, -size)
        np.testing.assert_allclose(excess(contexts, V, W), loss, rtol=1e-9)


def test_a_run_goes_on_with_its_own_data_only():
    data, other = (Sentences.of(realizable(6, 3, 12, seed)) for seed in (0, 1))
    first = train(data, model="decoder", steps=30)
    path = train(data, model="next-token", head=first, steps=5)
    train(data, model="next-token", head=first, start=path, steps=5)
    for given, how in (
        (other, {"head": first}),
        (data, {"head": 2 * first.weights["W_ov"][-1, 0]}),
        (data, {"head": first, "embedding": np.eye(6)[::-1]}),
    ):
        with pytest.raises(BadTokens, match="was trained on other sentences"):
            train(given, model="next-token", start=path, steps=5, **how)
