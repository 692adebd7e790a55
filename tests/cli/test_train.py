"""`attsvm train`: the run, its comparison with the limit, its options, and what it writes."""

from __future__ import annotations

import numpy as np
import pytest

from attsvm import ConvergenceProof, Tokens, train
from attsvm.datasets import EXAMPLES
from attsvm.training.heads import Quadratic, Relu
from attsvm.training.path import Path
from tests.cli.command import problem, refused, save

RNG = np.random.default_rng(3)
SEQUENCES = RNG.standard_normal((3, 4, 6))
LABELS = RNG.choice([-1.0, 1.0], (3, 4))
V = RNG.standard_normal((6, 5))


def same(one, other):
    """Two paths agree in every number."""
    for name in ("steps", "loss", "log_gradient", "top", "top_attention", "clock", "changed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.weights.keys() == other.weights.keys()
    for name, block in one.weights.items():
        np.testing.assert_array_equal(other.weights[name], block)


def test_a_prompt_run_is_proved_to_converge(run, tmp_path):
    file = problem(tmp_path)
    done = run("train", file, "--model", "prompt", "--steps", "1500", "--json")
    report = done.report
    assert done.code == 0
    assert report["selection"] == [0, 0, 0]
    assert report["state"] == "converges" and report["proof"]["theorem"] == "tube"
    assert 0 < report["proved_since"] < report["steps"]
    assert 1 - report["correlation"] <= report["proof"]["bound"]
    limit = report["limit"]
    assert (limit["norm"], limit["status"]) == ("frobenius", "conjectured")
    assert limit["word"] == "conjectured" and not limit["established"] and report["fails"] == []
    said = {premise["name"]: premise["holds"] for premise in limit["premises"]}
    assert said["each input has one best token"] and said["some matrix selects the best tokens"]
    assert report["correlation"] > 0.9995 and report["margin_share"] > 0.98
    assert report["certificate"]["gap"] < 1e-8
    assert report["log10_gradient_norm"] < -30


def test_a_reader_is_told_what_theory_says_and_what_is_proved_of_the_run(run, tmp_path):
    file = problem(tmp_path)
    words = ("train", file, "--model", "prompt", "--steps")
    text = " ".join(run(*words, 50, "--optimizer", "gd").out.split())
    assert "(proved if: the start is large" in text and "(proved)" not in text
    text = " ".join(run(*words, 50, "--optimizer", "gd", "--loss", "squared").out.split())
    assert "limit optimizer gd, model prompt: frobenius (conjectured)" in text
    text = " ".join(run(*words, 500).out.split())
    assert "prompt, ngd on tokens.npz, 500 steps" in text and "proved since step" in text
    assert "limit optimizer ngd, model prompt: frobenius (conjectured)" in text
    assert "this run: converges, proved (" in text and "rank of W" not in text
    assert "rank of W" in run("train", file, "--model", "factored", "--steps", 50).out


def test_the_path_and_the_figure_are_written(run, tmp_path):
    file = problem(tmp_path, "joint-tight")
    path, figure = tmp_path / "path.npz", tmp_path / "run.svg"
    done = run(
        "train", file, "--model", "joint-prompt", "--init", "file", "--steps", "300",
        "--out", path, "--figure", figure,
    )  # fmt: skip
    assert done.code == 0 and "limit" in done.out
    loaded = Path.load(path)
    np.testing.assert_array_equal(loaded.weights["p"][0, 0], [0, -1])
    assert figure.read_text().startswith("<?xml") and "</svg>" in figure.read_text()
    again = run("train", file, "--model", "joint-prompt", "--out", path)
    refused(again, "exists", "--force")


@pytest.mark.parametrize(
    ("optimizer", "words", "options"),
    [
        ("adam", ["eps=0"], {"eps": 0.0}),
        ("adam", ["beta1=0.5", "eps=1e-3"], {"beta1": 0.5, "eps": 1e-3}),
        ("muon", ["momentum=.5", "newton_schulz=true"], {"momentum": 0.5, "newton_schulz": True}),
        ("spectral", ["newton_schulz=false"], {"newton_schulz": False}),
        ("polyak", ["longest=0.2"], {"longest": 0.2}),
    ],
)
def test_options_reach_the_rule(run, tmp_path, optimizer, words, options):
    arrays = EXAMPLES["sphere"]()
    file, out = save(tmp_path / "tokens.npz", **arrays), tmp_path / "path.npz"
    given = [part for word in words for part in ("--option", word)]
    assert (
        run("train", file, "--optimizer", optimizer, *given, "--steps", 40, "--out", out).code == 0
    )
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    loaded = Path.load(out)
    assert loaded.config["options"] == options
    same(loaded, train(tokens, optimizer=optimizer, head=arrays["v"], steps=40, options=options))


@pytest.mark.parametrize(
    ("arrays", "words", "head"),
    [
        ({"V": V}, (), Relu(V[None])),
        ({"V": V, "v": V[:, 0]}, ("--head", "linear"), V[:, 0]),
        ({"v": V[:, 0], "penalty": 0.2}, (), Quadratic(V[None, :, 0], 0.2)),
        ({"v": V[:, 0], "penalty": 0.2}, ("--head", "linear"), V[:, 0]),
    ],
)
def test_the_file_or_the_option_names_the_head(run, tmp_path, arrays, words, head):
    X, y, z = SEQUENCES, LABELS[:, 0], V[:3]
    file, out = save(tmp_path / "tokens.npz", X=X, y=y, z=z, **arrays), tmp_path / "path.npz"
    report = run("train", file, *words, "--steps", 60, "--out", out, "--json").report
    same(Path.load(out), train(Tokens(X, queries=z, labels=y), head=head, steps=60))
    linear = isinstance(head, np.ndarray)
    assert report["head"] == ("linear" if linear else head.name)
    assert report["fails"] == ([] if linear else ["the head is linear"])


@pytest.mark.parametrize("name", ["linear", "relu"])
def test_a_named_head_is_drawn_by_the_seed(run, tmp_path, name):
    file = save(tmp_path / "tokens.npz", X=SEQUENCES, y=LABELS[:, 0])
    words = ("train", file, "--queries", "first", "--head", name, "--steps", 5, "--json")
    first, again, other = (run(*words, "--seed", seed).report["loss"] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("place", ["first", "last"])
def test_self_attention_by_one_token(run, tmp_path, place):
    y, v, out = LABELS[:, 0], V[:, 0], tmp_path / "path.npz"
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], bool)
    file = save(tmp_path / "tokens.npz", X=SEQUENCES, y=y, v=v, mask=mask)
    assert run("train", file, "--queries", place, "--steps", 60, "--out", out).code == 0
    tokens = Tokens(SEQUENCES, queries=place, labels=y, mask=mask)
    same(Path.load(out), train(tokens, head=v, steps=60))


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(("words", "causal"), [((), True), (("--no-causal",), False)])
def test_whole_sequences(run, tmp_path, words, causal, flat):
    v, out = V[:, 0], tmp_path / "path.npz"
    y = LABELS.ravel() if flat else LABELS
    file = save(tmp_path / "tokens.npz", X=SEQUENCES, y=y, v=v)
    assert run("train", file, "--sequence", *words, "--steps", 60, "--out", out).code == 0
    tokens = Tokens.sequence(SEQUENCES, causal=causal, labels=LABELS.ravel())
    same(Path.load(out), train(tokens, head=v, steps=60))


RUNS = {
    "weight": ("--optimizer", "adam", "--option", "eps=1e-6", "--schedule", "sqrt"),
    "factored": ("--optimizer", "muon", "--width", "3", "--decay", "0.01", "--seed", "4"),
    "joint-weight": ("--optimizer", "nmirror:1.5", "--init", "normal:0.2"),
}


@pytest.mark.parametrize("model", RUNS)
def test_a_resumed_run_is_the_whole_run(run, tmp_path, model):
    file = problem(tmp_path, "sphere")
    whole, half, rest = (tmp_path / f"{name}.npz" for name in ("whole", "half", "rest"))
    words = ("train", file, "--model", model, *RUNS[model])
    first = run(*words, "--steps", 150, "--out", whole, "--json").report
    run(*words, "--steps", 63, "--out", half)
    then = run("train", file, "--resume", half, "--steps", 87, "--out", rest, "--json").report
    same(Path.load(whole), Path.load(rest))
    assert {**then, "seconds": 0} == {**first, "seconds": 0}
    # What is said again as it was is no contradiction.
    assert run(*words, "--resume", half, "--steps", 1).code == 0
    assert run("train", file, "--resume", half, "--out", half, "--force").code == 0
    assert Path.load(half).steps[-1] == 63 + 2000


def test_a_drawn_head_is_drawn_again(run, tmp_path):
    file = problem(tmp_path, "sphere")
    words = ("train", file, "--head", "relu", "--steps", 20)
    assert run(*words, "--seed", 5, "--out", "half.npz").code == 0
    assert run(*words, "--resume", "half.npz").code == 0
    refused(run("train", file, "--resume", "half.npz"), "other tokens, labels or prediction head")


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_figures_in_every_format_repeat_themselves(run, tmp_path, ending):
    first, again = (tmp_path / f"{name}.{ending}" for name in ("first", "again"))
    for figure in (first, again):
        assert (
            run("train", problem(tmp_path, "sphere"), "--steps", 30, "--figure", figure).code == 0
        )
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert first.read_bytes().startswith(start) and first.read_bytes() == again.read_bytes()


def test_a_diverging_run_keeps_what_it_has_seen(run, tmp_path):
    """The end of what is finite is compared with its limit: the exit code is that solve's."""
    file, out, figure = problem(tmp_path, "sphere"), tmp_path / "path.npz", tmp_path / "run.png"
    words = ("train", file, "--optimizer", "polyak", "--loss", "linear", "--steps", 200, "--json")
    done = run(*words, "--out", out, "--figure", figure)
    path = Path.load(out)
    assert done.code == 0 and done.report["certificate"]["status"] == "optimal"
    assert path.diverged == done.report["diverged"] == path.steps[-1] > 0
    assert f"diverged at step {path.diverged}" in done.err and "smaller --lr" in done.err
    assert done.err.count("\n") == 1 and figure.exists()
    assert all(np.isfinite(block).all() for block in path.weights.values())


def test_weights_near_the_end_of_floats_warn_of_nothing(run, tmp_path):
    """Warnings are errors here; what overflows is null."""
    file = problem(tmp_path, "sphere", W0=np.full((10, 10), 1e308))
    done = run("train", file, "--init", "file", "--steps", 3, "--figure", "run.svg", "--json")
    assert done.code == 0 and done.report["norm"] is None and done.err == ""


def test_a_run_ends_when_it_is_proved_and_saves_the_proof(run, tmp_path):
    file = problem(tmp_path)
    words = ("train", file, "--model", "prompt", "--steps", 5000, "--json")
    proof, figure = tmp_path / "proof.npz", tmp_path / "run.svg"
    done = run(*words, "--until", "proved", "--proof", proof, "--figure", figure)
    report = done.report
    assert done.code == 0 and report["steps"] < 5000 and report["state"] == "converges"
    assert report["proved_since"] == report["steps"] and report["proof"]["proved"]
    loaded = ConvergenceProof.load(proof)
    assert loaded.proved and loaded.verify() and loaded.message == report["proof"]["message"]
    assert figure.exists()
    refused(run(*words, "--proof", proof), "exists")
    blocked = run("train", file, "--model", "prompt", "--steps", 5, "--json").report
    assert blocked["state"] == "undecided" and not blocked["proof"]["proved"]
    assert blocked["proof"]["blocked"]["reason"] and blocked["proved_since"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--until", "soon"), "proved"),
        (("--until", "proved", "--optimizer", "adam"), "no theorem"),
        (("--until", "proved", "--decay", "0.1"), "weight decay"),
        (("--optimizer", "adam", "--proof", "p.npz"), "no theorem"),
    ],
)
def test_runs_without_a_theorem_are_told_so(run, tmp_path, words, said):
    refused(run("train", problem(tmp_path), "--model", "prompt", "--steps", 5, *words), said)
    assert not (tmp_path / "p.npz").exists()
