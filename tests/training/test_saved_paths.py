"""Saved runs: the arrays a file promises."""

import numpy as np
import pytest

from attsvm import Path, Sentences, Tokens, outcome, train
from attsvm.datasets.instances import sphere_arrays
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.training.loop import COLUMNS
from attsvm.training.models import MODELS, SENTENCE_MODELS
from tests.cli.command import refused, runner
from tests.training.damage import damaged

LINES = [[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]]


def instance(seed=3, *, queries=True):
    a = sphere_arrays(2, 3, 3, seed=seed)
    return Tokens(a["X"], queries=a["z"] if queries else None, labels=a["y"]), a["v"]


def same(one, other):
    for name in (*COLUMNS, "changed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.weights.keys() == other.weights.keys() and one.config == other.config
    for name, block in one.weights.items():
        np.testing.assert_array_equal(block, other.weights[name])
    assert one.state.keys() == other.state.keys()


def arrays_of(file):
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize("model", MODELS)
def test_one_instance_is_saved_without_its_axis(model, tmp_path):
    tokens, v = instance(queries="prompt" not in model)
    head = None if model.startswith("joint") else v
    path = train(tokens, model=model, head=head, steps=12)
    path.save(tmp_path / "run.npz")
    held, R = arrays_of(tmp_path / "run.npz"), len(path.steps)
    assert held["steps"].shape == held["loss"].shape == (R,)
    assert held["selection"].tolist() == path.selection[0].tolist()
    for name, block in path.weights.items():
        np.testing.assert_array_equal(held[name], block[:, 0])
    same(Path.load(tmp_path / "run.npz"), path)


def test_a_stack_is_saved_with_its_axis(tmp_path):
    (one, v), (two, u) = instance(3), instance(4)
    path = train([one, two], head=np.stack([v, u]), optimizer="adam", steps=12)
    path.save(tmp_path / "run.npz")
    held = arrays_of(tmp_path / "run.npz")
    assert held["W"].shape == (len(path.steps), 2, 3, 3)
    assert held["loss"].shape == (len(path.steps), 2) and held["selection"].shape == (2, 2)
    same(Path.load(tmp_path / "run.npz"), path)


@pytest.mark.parametrize("model", SENTENCE_MODELS)
def test_runs_on_sentences_know_their_matrices(model, tmp_path):
    data = Sentences.of(LINES)
    head = 3 * np.roll(np.eye(3), 1, axis=0) if model == "next-token" else None
    path = train(data, model=model, head=head, steps=12, init="normal:0.1")
    path.save(tmp_path / "run.npz")
    loaded = Path.load(tmp_path / "run.npz")
    same(loaded, path)
    block = "W_ov" if model == "decoder" else "W_kq"
    for one in (path, loaded):
        np.testing.assert_array_equal(one.matrices(), path.weights[block])


def test_a_file_that_is_no_path_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", W=np.eye(2))
    with pytest.raises(BadTokens, match="is not a saved path: it has no array steps"):
        Path.load(tmp_path / "other.npz")


def test_a_block_may_not_take_a_promised_name():
    tokens, v = instance()
    path = train(tokens, head=v, steps=2)
    path.weights["loss"] = path.weights.pop("W")
    with pytest.raises(Unsupported, match="a block called loss cannot be saved"):
        path.arrays()


@pytest.mark.parametrize("kind", ["signum", "adam"])
def test_a_damaged_file_is_refused_in_one_sentence(kind, tmp_path, monkeypatch, capsys):
    """Every use of a damaged run is right or raises one of the errors of the house."""
    monkeypatch.chdir(tmp_path)
    tokens, v = instance(3)
    np.savez("tokens.npz", X=tokens.X, z=tokens.queries, y=tokens.labels, v=v)
    model = "factored" if kind == "adam" else "weight"
    train(tokens, head=v, optimizer=kind, model=model, steps=12).save("run.npz")
    attsvm = runner(capsys, monkeypatch)
    refusals = 0
    for seed in range(60):
        said = damaged(tmp_path / "run.npz", tmp_path / "bad.npz", seed)
        try:
            path = Path.load("bad.npz")
            _ = repr(path), path.columns(), path.matrices(), path.records
            outcome(path, tokens, v)
            train(tokens, head=v, start=path, steps=2)
        except AttsvmError:
            refusals += 1
        done = attsvm("train", "tokens.npz", "--resume", "bad.npz", "--steps", "2")
        if done.code == 2:
            refused(done)
            assert "bad.npz" in done.err or "it is damaged" in done.err
        else:
            assert done.code in (0, 3, 4), (said, done)
    assert refusals >= 40
