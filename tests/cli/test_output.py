"""What commands print: tables, one JSON object, help, the version; and their exit codes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from attsvm._utils.version import __version__
from tests.cli.command import GENERIC, NORMS, refused, save

REPORT = (
    "status", "W", "lower", "upper", "gap", "margins", "tight", "rank", "seconds", "multipliers",
    "rows", "norm", "problem", "message", "proof",
)  # fmt: skip


@pytest.fixture
def separable(tmp_path):
    """A file whose selection can be separated."""
    return save(tmp_path / "tokens.npz", X=GENERIC, alpha=[0, 2], v=np.arange(7.0))


@pytest.fixture
def infeasible(tmp_path):
    """A file that keeps the middle of three points on a line."""
    return save(tmp_path / "line.npz", X=[[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]], alpha=[0])


@pytest.mark.parametrize("norm", NORMS)
def test_solve_json(run, separable, norm):
    done = run("solve", separable, "--norm", norm, "--json")
    assert done.code == 0 and done.err == ""
    report = done.report
    assert set(REPORT) <= set(report)
    assert report["status"] == "optimal" and report["norm"] == norm
    assert 0 < report["lower"] <= report["upper"]
    assert report["gap"] == pytest.approx(report["upper"] / report["lower"] - 1, abs=1e-15)
    assert np.shape(report["W"]) == (7, 1)
    rows = [[0, 0, 1], [0, 0, 2], [1, 2, 0], [1, 2, 1]]
    assert report["rows"] == rows
    W = np.array(report["W"])[:, 0]
    margins = [(GENERIC[i, a] - GENERIC[i, t]) @ W for i, a, t in rows]
    assert report["margins"] == pytest.approx(margins)
    assert min(margins) == pytest.approx(1.0)
    assert len(report["multipliers"]) == 4
    assert report["proof"] is None and report["C"] is None


def test_solve_table(run, separable):
    done = run("solve", separable)
    assert done.code == 0 and done.err == ""
    for word in ("optimal", "lower", "upper", "gap", "tight rows", "selection problem of tokens"):
        assert word in done.out
    assert "{" not in done.out


def test_a_file_name_is_not_markup(run, tmp_path):
    file = save(tmp_path / "[bold]x[red].npz", X=GENERIC, alpha=[0, 2])
    assert "[bold]x[red].npz" in run("solve", file).out


def test_infeasible(run, infeasible):
    done = run("solve", infeasible, "--json")
    report = done.report
    assert done.code == 3
    assert report["status"] == "infeasible"
    assert report["upper"] is None and report["gap"] is None and report["W"] is None
    assert report["proof"] in ("numerical", "exact")
    # The proof: the rows x₀ − x₁ = (1, 0) and x₀ − x₂ = (−1, 0) with equal multipliers cancel.
    first, second = report["multipliers"]
    assert first == pytest.approx(second) and first > 0
    assert report["rows"] == [[0, 0, 1], [0, 0, 2]]
    assert "no W satisfies these constraints" in done.err and done.err.count("\n") == 1


def test_infeasible_table(run, infeasible):
    done = run("solve", infeasible)
    assert done.code == 3
    assert "infeasible" in done.out and "proof" in done.out
    assert done.err.startswith("attsvm: no W satisfies these constraints")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_equal_tokens_are_an_exact_proof(run, tmp_path, words):
    """A dropped token equal to the kept one: its row is zero, whatever W is."""
    file = save(tmp_path / "equal.npz", X=[[[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]], alpha=[0])
    done = run("solve", file, *words)
    assert done.code == 3
    assert "exact" in done.out
    assert "Infeasible: the keys of tokens 0 and 1 of input 0 are equal" in done.err
    if words:
        assert done.report["multipliers"][1] == 0 < done.report["multipliers"][0]


def test_stalled(run, separable):
    done = run("solve", separable, "--tol", "1e-17", "--json")
    report = done.report
    assert done.code == 4
    assert report["status"] == "stalled"
    assert 0 < report["lower"] < report["upper"]  # how far it got
    assert report["gap"] > 1e-17
    assert done.err.startswith("attsvm: stopped early") and done.err.count("\n") == 1
    assert "stalled" in run("solve", separable, "--tol", "1e-17").out


def test_relaxed_problem_shows_why_the_decoder_is_infeasible(run, tmp_path):
    """Two inputs keep the same token with opposite labels: no decoder, so no relaxed problem."""
    file = save(tmp_path / "clash.npz", X=[[[1.0, 0.0], [0.0, 0.0]]] * 2, y=[1, -1], alpha=[0, 0])
    done = run("solve", file, "--problem", "relaxed", "--json")
    assert done.code == 3
    assert done.report["status"] == "infeasible" and done.report["problem"] == "labels"
    first, second = done.report["multipliers"]
    assert first == pytest.approx(second) and first > 0
    assert run("solve", file, "--problem", "relaxed", "--C", "1", "--json").code == 3


def test_soft_margin(run, infeasible):
    """½w² + C((1 − w)₊ + (1 + w)₊) is least at w = 0: 2C."""
    report = run("solve", infeasible, "--C", "3", "--json").report
    assert report["status"] == "optimal"
    assert report["C"] == 3.0
    assert report["upper"] == pytest.approx(6.0)
    assert report["W"][0][0] == pytest.approx(0.0, abs=1e-6)


def test_right_hand_sides(run, tmp_path):
    file = save(tmp_path / "b.npz", X=[[[1.0], [0.0]]], alpha=[0], b=[[0.0, 5.0]])
    assert run("solve", file, "--json").report["upper"] == pytest.approx(5.0)


def test_optima_prints_a_table(run, separable):
    done = run("optima", separable)
    assert done.code == 0 and done.err == ""
    assert "9 of 9 selections are feasible" in done.out and "yes" in done.out
    listed = run("optima", separable, "--rows", 2, "--json").report
    assert len(listed["list"]) == 2 and listed["feasible"] == 9


def test_play(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    file = tmp_path / "page.html"
    done = run("play", "--out", file)
    assert (done.code, done.out, done.err, opened) == (0, f"{file}\n", "", [])
    page = file.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") and list(tmp_path.iterdir()) == [file]
    again = run("play", "--out", file, "--open", "--json")  # this very page may stay
    assert again.report == {"status": "optimal", "file": str(file), "opened": True}
    assert opened == [file.as_uri()]
    file.write_text("mine")
    refused(run("play", "--out", file), "page.html exists", "--force")
    assert file.read_text() == "mine"
    assert run("play", "--out", file, "--force").code == 0 and file.read_text("utf-8") == page
    refused(run("play", "--out", tmp_path), "is a folder")


def test_version(run):
    assert run("--version").out == f"attsvm {__version__}\n"


def test_unknown_command(run):
    refused(run("nosuch"), "nosuch", "--help")
    refused(run("--nosuch"), "--nosuch")


def start(*words: object, **options) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    command = [sys.executable, "-m", "attsvm", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_as_a_module(infeasible):
    done = start("solve", infeasible, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["status"] == "infeasible"
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error(separable):
    """As in `attsvm solve … | true`: the pipe is closed before anything is written to it."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "attsvm", "solve", str(separable)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
