"""attsvm sweep: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import json

import pytest

from attsvm.experiments.sweep import SHIPPED
from tests.experiments.sweep.conftest import command


def test_without_a_word_it_names_the_shipped_sweeps():
    code, text, _ = command("--json")
    assert code == 0
    assert [row["name"] for row in json.loads(text)["sweeps"]] == list(SHIPPED)


def test_a_sweep_from_its_spec_to_its_picture(spec_file, tmp_path):
    out = tmp_path / "out"
    code, text, said = command(spec_file, "--out", out, "--engine", "here", "--json")
    found = json.loads(text)
    assert code == 0 and said == ""
    assert (found["status"], found["instances"], found["done"], found["failed"]) == (
        "done", 60, 60, 0)  # fmt: skip
    code, text, _ = command(out, "--table", tmp_path / "t.csv", "--figure", tmp_path / "f.svg")
    assert code == 0 and text.count("is written") == 2
    assert (tmp_path / "t.csv").read_bytes() == (out / "table.csv").read_bytes()
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")


def test_a_spec_is_run_and_drawn_in_one_go(spec_file, tmp_path):
    out, table = tmp_path / "out", tmp_path / "t.csv"
    words = (spec_file, "--out", out, "--engine", "here", "--table", table)
    code, _, said = command(*words, "--figure", tmp_path / "f.txt")
    assert code == 2 and "a figure is one of" in said and not out.exists()
    code, text, said = command(*words, "--figure", out / "f.svg", "--json")
    assert code == 0 and said == ""
    found = json.loads(text)
    assert (found["done"], found["table"], found["figure"]) == (60, str(table), str(out / "f.svg"))
    assert table.read_bytes() == (out / "table.csv").read_bytes()
    assert (out / "f.svg").read_text().startswith("<?xml")
    code, text, _ = command(*words)
    assert code == 0 and "60 of them from before" in text and "t.csv is written" in text


def test_a_dry_run_counts_and_writes_nothing(spec_file, tmp_path):
    code, text, _ = command(spec_file, "--out", tmp_path / "out", "--dry-run", "--json")
    found = json.loads(text)
    assert code == 0 and (found["points"], found["instances"], found["tasks"]) == (6, 60, 18)
    assert found["seconds"] > 0 and found["bytes"] > 0
    assert not (tmp_path / "out").exists()
    code, text, _ = command(spec_file, "--dry-run")
    assert text.startswith("6 points, 60 instances in 18 tasks\nabout ")


def test_the_script_of_a_dry_run(spec_file):
    pytest.importorskip("submitit")
    words = ("--engine", "slurm", "--option", "slurm_partition=short")
    code, text, _ = command(spec_file, "--dry-run", *words)
    assert code == 0 and "#SBATCH --partition=short" in text


def test_failed_tasks_end_with_five(spec_file, tmp_path):
    spec_file.write_text(spec_file.read_text().replace("pause = 0.0", "fault = 5"))
    code, _, said = command(spec_file, "--out", tmp_path / "out", "--engine", "here")
    assert code == 5 and said.count("\n") == 1
    assert "6 tasks failed, the first with ValueError: seed 5 is at fault" in said
    code, _, said = command(tmp_path / "out", "--table", tmp_path / "t.csv")
    assert code == 5 and "24 of 60 instances are not there yet" in said


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
def test_bad_words_are_one_sentence(spec_file, tmp_path, words, said):
    (tmp_path / "folder").mkdir()
    stands = {"SPEC": spec_file, "FOLDER": tmp_path / "folder", "OWN": tmp_path / "own.py"}
    code, text, error = command(*(stands.get(word, word) for word in words), cwd=tmp_path)
    assert code == 2 and text == "" and error.count("\n") == 1
    assert said in error


def test_help_says_what_quick_does():
    code, text, _ = command("--help")
    words = " ".join(text.replace("│", " ").split())
    assert code == 0 and "the fewer seeds, points or steps of the spec's table quick" in words
