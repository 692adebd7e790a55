"""train with an optimizer, a model, a loss or a head of one's own: FILE.py:NAME."""

import numpy as np
import pytest

from attsvm import Path, Tokens, outcome, train
from attsvm.cli.options import read_norm
from attsvm.datasets.instances import sphere_arrays
from tests.cli.command import refused, save
from tests.contracts import outside
from tests.conventions.tree import ROOT

FILE = outside.__file__
A = sphere_arrays(3, 4, 4, seed=1)
TOKENS = Tokens(A["X"], queries=A["z"], labels=A["y"])


@pytest.fixture
def problem(tmp_path):
    return save(tmp_path / "tokens.npz", X=A["X"], z=A["z"], y=A["y"], v=A["v"])


def test_a_optimizer_of_ones_own_is_trained_saved_and_resumed(run, problem):
    words = ["--optimizer", f"{FILE}:slow", "--option", "friction=0.25", "--lr", "0.2"]
    whole = train(TOKENS, optimizer=outside.slow, options={"friction": 0.25}, head=A["v"], lr=0.2,
                  steps=40)  # fmt: skip
    done = run("train", problem, *words, "--steps", "15", "--out", "half.npz", "--json")
    limit = done.report["limit"]
    assert done.code == 0 and (limit["norm"], limit["status"]) == (None, "unknown")
    assert limit["word"] == "unknown" and limit["premises"] == []
    refused(run("train", problem, "--resume", "half.npz"), "optimizer 'slow' is a custom object")
    again = ["--resume", "half.npz", "--optimizer", f"{FILE}:slow", "--steps", "25"]
    assert run("train", problem, *again, "--out", "all.npz").code == 0
    path = Path.load("all.npz")
    np.testing.assert_array_equal(path.weights["W"], whole.weights["W"])
    other = ["--resume", "half.npz", "--optimizer", "ngd"]
    refused(run("train", problem, *other), "is a custom object")


@pytest.mark.parametrize("part", ["model", "loss", "head"])
def test_other_parts_come_from_files_too(run, problem, part):
    word = f"{FILE}:{part.upper()}"
    done = run("train", problem, f"--{part}", word, "--steps", "30", "--out", "run.npz", "--json")
    assert done.code == 0
    given = {"head": A["v"], part: getattr(outside, part.upper())}
    path = train(TOKENS, steps=30, **given)
    np.testing.assert_array_equal(Path.load("run.npz").loss, path.loss)
    again = ["--resume", "run.npz", f"--{part}", word, "--steps", "5", "--json"]
    done = run("train", problem, *again)
    assert done.code == 0 and done.report["steps"] == 35


def test_sentences_take_a_rule_from_a_file(run, text):
    file = text("0 1\n1 2\n2 0\n0 1 2\n1 0 0 2\n")
    words = ["--model", "next-token", "--optimizer", f"{FILE}:OPTIMIZER", "--steps", "30"]
    done = run("train", file, *words, "--decoder-steps", "20", "--json")
    assert done.code == 0 and done.report["steps"] == {"W_kq": 30, "W_ov": 20}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "gone.py:slow"], "gone.py is not there"),
        (["--optimizer", f"{FILE}:quick"], "has no quick"),
        (["--optimizer", f"{FILE}:MODEL"], "is no Optimizer"),
        (["--optimizer", FILE], "FILE.py:NAME"),
        (["--model", f"{FILE}:OPTIMIZER"], "is no Model"),
        (["--loss", f"{FILE}:slow"], "is no Loss"),
        (["--head", f"{FILE}:Curved"], "is no Head"),
        (["--optimizer", f"{FILE}:slow", "--option", "speed=1"], "does not take this"),
    ],
)
def test_what_the_file_does_not_hold_gets_one_sentence(run, problem, words, said):
    refused(run("train", problem, *words), said)


def test_a_file_that_does_not_import_gets_one_sentence(run, problem, text):
    broken = text("import nothing_of_this_name\n", "broken_rule.py")
    refused(
        run("train", problem, "--optimizer", f"{broken}:optimizer"),
        "does not import: ModuleNotFound",
    )


def test_a_rule_that_breaks_its_contract_gets_the_law(run, problem, text):
    lines = (
        "from attsvm.training.optimizers import Optimizer",
        "optimizer = Optimizer('wild', lambda params: {}, lambda step: ({}, {}))",
    )
    wild = text("\n".join(lines) + "\n", "wild.py")
    refused(
        run("train", problem, "--optimizer", f"{wild}:optimizer"), "every block in its own shape"
    )


@pytest.mark.parametrize("norm", ["nuclear", "outside.py:ROWS"])
def test_a_run_is_compared_in_the_norm_asked_for(run, problem, norm):
    norm = norm.replace("outside.py", str(ROOT / "examples" / "outside.py"))
    words = ["train", problem, "--steps", "40", "--norm", norm, "--json"]
    done = run(*words, "--figure", "run.svg")
    found = outcome(train(TOKENS, head=A["v"], steps=40), TOKENS, A["v"], norm=read_norm(norm))
    assert done.code == 0 and done.report["certificate"]["norm"] == found.certificate.norm.name
    assert done.report["margin_share"] == found.margin_share
    assert done.report["limit"]["norm"] == "frobenius"
    refused(run(*words, "--optimizer", "gd", "--optimizer", "sign"), "--norm is for one run")


def test_a_solver_of_ones_own_is_judged(run, problem, text):
    lines = (
        "import numpy as np",
        "def zero(problem, norm, *, tol):",
        "    return np.zeros(problem.shape), np.zeros(problem.m)",
        "WORD = 3",
    )
    file = text("\n".join(lines) + "\n", "own_solver.py")
    done = run("solve", problem, "--solver", f"{file}:zero", "--json")
    assert done.code == 4 and done.report["lower"] == 0.0
    refused(run("solve", problem, "--solver", f"{file}:WORD"), "a solver is a name, a Solver or")
    refused(run("solve", problem, "--solver", f"{file}:gone"), "has no gone")
