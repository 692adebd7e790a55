"""compare(): each run as it would be alone, and shares that plain optimization confirms."""

import json
import os

import numpy as np
import pytest
from scipy.optimize import linprog

import attsvm
from attsvm.errors import BadTokens, Unsupported
from attsvm.training.optimizers import optimizer_of
from tests.theory.convergence.reference import Case, max_margin
from tests.zoo import example

OPTIMIZERS = ["ngd", "gd", "sign", "spectral", "adam", "nmirror:1.5"]


@pytest.fixture(scope="module")
def six():
    tokens, v = example("sphere")
    return tokens, v, attsvm.compare(tokens, optimizers=OPTIMIZERS, head=v, steps=400)


def test_each_run_is_what_it_would_be_alone(six):
    tokens, v, both = six
    assert [run.optimizer for run in both.runs] == OPTIMIZERS
    for run in both.runs:
        alone = attsvm.train(
            tokens, model="weight", optimizer=run.optimizer, head=v, lr=0.1, steps=400
        )
        mine, other = run.path.arrays(), alone.arrays()
        assert set(mine) == set(other)
        for name in mine:
            assert np.array_equal(mine[name], other[name], equal_nan=mine[name].dtype.kind == "f")
        end = attsvm.outcome(alone, tokens, v)
        assert end.state == run.outcome.state
        assert end.correlation == run.outcome.correlation == run.correlation[-1]
        assert end.margin_share == run.outcome.margin_share == run.last[run.norm]
        if end.proof is None or not end.proof.proved:
            assert run.proved is None
        else:
            assert run.proved.step <= 400 and run.proved.proof.proved


def least_largest(A):
    """min max|w| with A w ≥ 1, as a linear program; min Σ|w| likewise below."""
    m, d = A.shape
    cost = np.append(np.zeros(d), 1.0)
    bounds = np.block([[-A, np.zeros((m, 1))], [np.eye(d), -np.ones((d, 1))],
                       [-np.eye(d), -np.ones((d, 1))]])  # fmt: skip
    right = np.concatenate([-np.ones(m), np.zeros(2 * d)])
    return float(linprog(cost, bounds, right, bounds=(None, None)).fun)


def least_sum(A):
    d = A.shape[1]
    split = np.hstack([-A, A])
    return float(linprog(np.ones(2 * d), split, -np.ones(len(A)), bounds=(0, None)).fun)


def test_shares_are_those_of_plain_optimization(six):
    """Another way to every number: dense rows, least norms by nnls and linear programs."""
    tokens, v, both = six
    checked = 0
    for run in both.runs:
        A = Case.of(tokens, v, "logistic").at(run.outcome.selection).a
        W = run.path.weights["W"][:, 0].reshape(len(run.path.steps), -1)
        sizes = {
            "frobenius": (np.sqrt((W**2).sum(axis=1)), max_margin(A).N),
            "max": (np.abs(W).max(axis=1), least_largest(A)),
            "l1": (np.abs(W).sum(axis=1), least_sum(A)),
        }
        margin = (W @ A.T).min(axis=1)
        for norm, (size, least) in sizes.items():
            with np.errstate(invalid="ignore"):
                expected = np.clip(margin / size * least, 0.0, 1.0)
            some = size > 0
            assert np.allclose(run.shares[norm][some], expected[some], rtol=2e-5, atol=1e-9)
            assert not (run.shares[norm][some] > expected[some] * (1 + 1e-7) + 1e-12).any()
            checked += int((expected[some] > 0).sum())
    assert checked > 200


def test_every_combination_in_order():
    tokens, v = example("multi-input-planar")
    both = attsvm.compare(
        tokens, optimizers=["ngd", "sign"], lrs=[0.1, 0.01], models=["prompt", "joint-prompt"],
            head=v,
        steps=20,
    )  # fmt: skip
    assert [(run.model, run.optimizer, run.lr) for run in both.runs] == [
        (m, r, lr)
        for m in ("prompt", "joint-prompt")
        for r in ("ngd", "sign")
        for lr in (0.1, 0.01)
    ]
    assert both.names[1] == "prompt, ngd, lr 0.01"
    assert both.norms[:3] == ("frobenius", "max", "l1")


def test_a_rule_that_cannot_train_is_named_and_the_others_go_on():
    tokens, v = example("sphere")
    both = attsvm.compare(tokens, optimizers=["ngd", "mirror:1.5"], head=v, steps=20, decay=0.1)
    ((optimizer, said),) = [(run.optimizer, run.refused) for run in both.refused]
    assert optimizer == "mirror:1.5"
    with pytest.raises(Unsupported) as alone:
        attsvm.train(tokens, optimizer="mirror:1.5", head=v, steps=20, decay=0.1)
    assert said == str(alone.value)
    assert [run.optimizer for run in both.trained] == ["ngd"]
    assert said in repr(both) and said in both._repr_html_()
    assert both.columns()["state"][1] == "refused"
    assert both.plot().axes


def test_a_model_that_does_not_fit_the_tokens_is_named():
    tokens, v = example("sphere")
    both = attsvm.compare(tokens, optimizers=["ngd"], models=["prompt", "weight"], head=v, steps=20)
    assert [run.model for run in both.refused] == ["prompt"]
    assert "use a weight model" in both.refused[0].refused


def test_when_none_can_be_trained_the_reason_is_raised():
    tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0]]])  # no labels
    with pytest.raises(BadTokens) as refused:
        attsvm.compare(tokens, optimizers=["ngd", "sign"], head=[1.0, 0.0])
    with pytest.raises(BadTokens) as alone:
        attsvm.train(tokens, optimizer="ngd", head=[1.0, 0.0])
    assert str(refused.value) == str(alone.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimizers": "ngd"}, "give a list"),
        ({"optimizers": []}, "empty"),
        ({"optimizers": ["ngd", "ngd"]}, "twice"),
        ({"optimizers": ["ngd", "nonsense"]}, "unknown optimizer"),
        ({"lrs": [0.1, -1.0]}, "finite and positive"),
        ({"lrs": [0.1, float("nan")]}, "finite and positive"),
        ({"models": ["weight", "nonsense"]}, "unknown model"),
        ({"models": ["next-token"]}, "compare takes models of tokens"),
        ({"norms": ["nonsense"]}, "nonsense"),
        ({"optimizers": ["ngd", "muon"], "options": {"momentum": 0.9}}, "does not fit ngd"),
        ({"start": object()}, "one run"),
    ],
)
def test_bad_input_is_one_sentence(given, said):
    tokens, v = example("multi-input-planar")
    with pytest.raises(Unsupported, match=said):
        attsvm.compare(tokens, **{"optimizers": ["ngd"], "models": ["prompt"], "head": v} | given)


def test_sentences_and_stacks_are_refused():
    tokens, v = example("multi-input-planar")
    with pytest.raises(BadTokens, match="takes Tokens"):
        attsvm.compare([tokens, tokens], optimizers=["ngd"], models=["prompt"], head=v)


def test_objects_go_where_names_go():
    tokens, v = example("multi-input-planar")
    own = optimizer_of("sign")
    both = attsvm.compare(tokens, optimizers=["ngd", own], models=["prompt"], head=v, steps=10)
    assert [run.optimizer for run in both.runs] == ["ngd", "sign"]


def test_progress_rises_to_one():
    tokens, v = example("multi-input-planar")
    seen = []
    attsvm.compare(
        tokens,
        optimizers=["ngd", "sign"],
        models=["prompt"],
        head=v,
        steps=500,
        progress=seen.append,
    )
    assert seen == sorted(seen) and seen[-1] == 1.0 and seen[0] >= 0


def test_a_saved_comparison_is_a_folder_in_one_move(six, tmp_path, monkeypatch):
    _, _, both = six
    place = tmp_path / "runs"
    both.save(place)
    found = json.loads((place / "comparison.json").read_text("utf-8"))
    assert [run["optimizer"] for run in found["runs"]] == OPTIMIZERS
    again = attsvm.Path.load(place / found["runs"][2]["file"])
    assert np.array_equal(again.weights["W"], both.runs[2].path.weights["W"])
    with pytest.raises(BadTokens, match="--force"):
        both.save(place)
    (place / "old").touch()
    both.save(place, force=True)
    assert not (place / "old").exists()
    other = tmp_path / "mine"
    other.mkdir()
    with pytest.raises(BadTokens, match="it is not replaced"):
        both.save(other, force=True)

    def broken(self, file, *, force=False):
        raise OSError("disk full")

    monkeypatch.setattr(attsvm.Path, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        both.save(place, force=True)
    assert (place / "comparison.json").exists()
    assert sorted(os.listdir(tmp_path)) == ["mine", "runs"]


def test_zero_steps_and_divergence_are_told():
    tokens, v = example("sphere")
    both = attsvm.compare(tokens, optimizers=["ngd", "gd"], lrs=[0.1], head=v, steps=0)
    assert np.isnan(both.columns()["correlation"]).all()
    assert len(repr(both).split("\n")) <= 24
    both.plot()
