"""attsvm sweep: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import pytest

from attsvm.experiments.sweep import SHIPPED
from tests.cli.command import refused


@pytest.fixture
def sweep(run):
    """`sweep(path, …)`: the command."""
    return lambda *words: run("sweep", *words)


def test_without_a_word_it_names_the_shipped_sweeps(sweep):
    done = sweep("--json")
    assert done.code == 0
    assert [row["name"] for row in done.report["sweeps"]] == list(SHIPPED)


def test_a_sweep_from_its_spec_to_its_picture(sweep, spec_file, tmp_path):
    out = tmp_path / "out"
    done = sweep(spec_file, "--out", out, "--engine", "here", "--json")
    found = done.report
    assert done.code == 0 and done.err == ""
    assert (found["status"], found["instances"], found["done"], found["failed"]) == (
        "done", 60, 60, 0)  # fmt: skip
    done = sweep(out, "--table", tmp_path / "t.csv", "--figure", tmp_path / "f.svg")
    assert done.code == 0 and done.out.count("is written") == 2
    assert (tmp_path / "t.csv").read_bytes() == (out / "table.csv").read_bytes()
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")


def test_a_spec_is_run_and_drawn_in_one_go(sweep, spec_file, tmp_path):
    out, table = tmp_path / "out", tmp_path / "t.csv"
    words = (spec_file, "--out", out, "--engine", "here", "--table", table)
    refused(sweep(*words, "--figure", tmp_path / "f.txt"), "a figure is one of")
    assert not out.exists()
    done = sweep(*words, "--figure", out / "f.svg", "--json")
    assert done.code == 0 and done.err == ""
    found = done.report
    assert (found["done"], found["table"], found["figure"]) == (60, str(table), str(out / "f.svg"))
    assert table.read_bytes() == (out / "table.csv").read_bytes()
    assert (out / "f.svg").read_text().startswith("<?xml")
    done = sweep(*words)
    assert done.code == 0
    assert "60 of them from before" in done.out and "t.csv is written" in done.out


def test_a_dry_run_counts_and_writes_nothing(sweep, spec_file, tmp_path):
    done = sweep(spec_file, "--out", tmp_path / "out", "--dry-run", "--json")
    found = done.report
    assert done.code == 0 and (found["points"], found["instances"], found["tasks"]) == (6, 60, 18)
    assert found["seconds"] > 0 and found["bytes"] > 0
    assert not (tmp_path / "out").exists()
    text = sweep(spec_file, "--dry-run").out
    assert text.startswith("6 points, 60 instances in 18 tasks\nabout ")


def test_the_script_of_a_dry_run(sweep, spec_file):
    pytest.importorskip("submitit")
    words = ("--engine", "slurm", "--option", "slurm_partition=short")
    done = sweep(spec_file, "--dry-run", *words)
    assert done.code == 0 and "#SBATCH --partition=short" in done.out


def test_failed_tasks_end_with_five(sweep, spec_file, tmp_path):
    spec_file.write_text(spec_file.read_text().replace("pause = 0.0", "fault = 5"))
    done = sweep(spec_file, "--out", tmp_path / "out", "--engine", "here")
    assert done.code == 5 and done.err.count("\n") == 1
    assert "6 tasks failed, the first with ValueError: seed 5 is at fault" in done.err
    done = sweep(tmp_path / "out", "--table", tmp_path / "t.csv")
    assert done.code == 5 and "24 of 60 instances are not there yet" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["separabilty"], "unknown sweep 'separabilty': nearest is separability"),
        (["none.toml"], "none.toml does not exist"),
        (["SPEC", "--engine", "dusk"], "unknown engine 'dusk'"),
        (["SPEC", "--address", "tcp://x:1"], "--address is of the dask engine"),
        (["SPEC", "--option", "a"], "--option is KEY=VALUE"),
        (["FOLDER"], "has no attsvm.json"),
        (["FOLDER", "--table", "t.csv"], "has no attsvm.json"),
        (["OWN"], "is no sweep"),
        (["SPEC", "--quick"], "has no table [quick]"),
        (["SPEC", "--out", "OWN"], "is a file; give a folder"),
    ],
)
def test_bad_words_are_one_sentence(sweep, spec_file, tmp_path, words, said):
    (tmp_path / "folder").mkdir()
    stands = {"SPEC": spec_file, "FOLDER": tmp_path / "folder", "OWN": tmp_path / "own.py"}
    refused(sweep(*(stands.get(word, word) for word in words)), said)


def test_help_says_what_quick_does(sweep):
    words = " ".join(sweep("--help").out.replace("│", " ").split())
    assert "the fewer seeds, points or steps of the spec's table quick" in words
