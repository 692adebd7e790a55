"""hunt() and its command: what is there is found, shrunk and told, and goes on where it stopped."""

import json
import runpy
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from attsvm.cli.problem_file import read_problem
from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.counterexamples import Hunt, Tally, found_from, hunt
from attsvm.experiments.statements import STATEMENTS, Confirmation, Field, Space, Statement
from tests.cli.command import refused
from tests.conventions.tree import ROOT
from tests.experiments.statements import independent
from tests.experiments.statements.found import CHECKS


def premises(one):
    return True


def far_apart(one):
    return float(np.abs(one["x"]).max()) - 2.4


def planted(**changes):
    """False, and the simplest instance that breaks it is x = ((3,),)."""
    given = {
        "says": "Every |x| < 2.4.",
        "kind": "planted",
        "space": Space({"n": (1, 4), "m": (1, 2)}, (Field("x", ("n", "m")),)),
        "premises": premises,
        "violation": far_apart,
        "confirm": lambda one: Confirmation(far_apart(one) > 0, "it is large"),
    }
    return Statement("sums", **given | changes)


FOUND = np.array([[4.0, 0.5], [1.0, -7.0]])


def test_it_is_found_and_shrunk_to_the_least():
    found = hunt(planted(), seed=1).found
    assert found.confirmation.proved
    assert found.drawn["x"].tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("part", "fault", "word"),
    [
        ("violation", lambda: np.nan, "is nan on"),
        ("violation", lambda: {}.popitem(), "KeyError"),
        ("premises", lambda: 1 / 0, "ZeroDivisionError"),
        ("confirm", lambda: runpy.run_path("gone.py"), "FileNotFoundError"),
    ],
)
def test_a_fault_while_shrinking_keeps_what_was_found(part, fault, word):
    """Below |x| = 3.5 the statement itself fails; 4 is the simplest instance on which it works."""
    whole = planted()

    def faulty(one):
        return fault() if np.abs(one["x"]).max() < 3.5 else getattr(whole, part)(one)

    found = found_from(planted(**{part: faulty}), {"x": FOUND})
    assert found.confirmation.proved and np.abs(found.drawn["x"]).tolist() == [[4.0]]
    assert "while shrinking" in found.note and word in found.note
    kept = Hunt(statement="sums", found=found)
    assert kept.message.endswith(found.note) and kept.to_dict()["found"]["note"] == found.note


def test_an_interrupt_while_shrinking_keeps_the_last_valid_candidate():
    """The first instance with entries of at most 3 is interrupted."""

    def interrupted(one):
        if np.abs(one["x"]).max() <= 3.0:
            raise KeyboardInterrupt
        return far_apart(one)

    found = found_from(planted(violation=interrupted), {"x": np.array([[4.0, 0.5], [1.0, -7.0]])})
    assert np.abs(found.drawn["x"]).max() > 3.0 and found.drawn["x"].size < 4
    assert found.confirmation.proved
    assert found.note == "shrinking was interrupted: this is the smallest instance so far"


def test_a_hunt_that_is_killed_while_it_shrinks_has_written_what_it_found(tmp_path, monkeypatch):
    def killed(*args, **options):
        raise SystemExit

    monkeypatch.setattr(sys.modules[hunt.__module__], "shrink", killed)
    with pytest.raises(SystemExit):
        hunt(planted(), seed=1, out=tmp_path / "out")
    kept = json.loads((tmp_path / "out/hunt.json").read_text())
    assert kept["status"] == "found" and np.abs(kept["found"]["drawn"]["x"]).max() > 2.4
    assert "it is not shrunk, because the hunt was ended" in kept["message"]


def test_a_fault_in_an_earlier_block_keeps_what_a_later_one_found(monkeypatch):
    """Block 0 meets an instance without a violation after block 1 has found a counterexample."""
    done = Event()

    def searched(statement, seed, index):
        if index == 0:
            done.wait(30)
            time.sleep(0.3)  # block 1 is counted first
            raise Unsupported("the violation is nan")
        done.set()
        return Tally(tried=1, candidate={"x": [[4.0]]})

    monkeypatch.setattr(sys.modules[hunt.__module__], "search_block", searched)
    with ThreadPoolExecutor(2) as pool:
        assert hunt(planted(), engine=pool).found.drawn["x"].tolist() == [[3.0]]


QUICK = ("least-norm", "proposition-2", "weak-order")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in CHECKS if x not in QUICK)]
)
def test_what_is_known_to_be_false_is_found(name):
    found = hunt(name, seconds=120).found
    assert found.confirmation.proved
    if name != "nuclear-unique":  # its check needs the two solutions by hand
        assert CHECKS[name](independent.exact({k: a.tolist() for k, a in found.drawn.items()}))
    if name == "proposition-2":  # two sentences of five tokens, of which the query is the fifth
        assert found.drawn["marks"].shape == (2, 4) and "7/6" in found.confirmation.says


def test_equal_scores_falls_to_two_inputs_of_two_tokens():
    found = hunt("equal-scores", seconds=120).found
    one = found.instance
    assert one["X"].shape == (2, 2, 2)
    assert max(np.abs(one[name]).max() for name in "Xv") <= 2
    assert found.how.startswith("a proof of convergence")
    assert independent.others_share_a_score(
        independent.exact({k: a.tolist() for k, a in one.arrays.items()})
    )


def test_nothing_found_says_what_was_covered():
    seen = hunt("simplex-projection", instances=5000)
    assert seen.status == "nothing"
    assert 0 < seen.held < seen.tried
    assert "no counterexample among" in seen.message
    assert "gaps ≤ 5, entries multiples of 1/8 in −4..4" in seen.message


def test_a_violation_that_is_not_confirmed_is_no_counterexample():
    doubted = planted(confirm=lambda one: Confirmation(False, "it is not"))
    seen = hunt(doubted, instances=1500)
    assert seen.found is None
    assert seen.doubtful > 0
    assert "candidates in floats were not confirmed" in seen.message


def test_without_an_exact_check_it_is_a_candidate():
    seen = hunt(planted(confirm=None))
    assert seen.status == "candidate"
    assert seen.message.startswith("candidate after")


def test_the_folder_has_what_was_found(tmp_path):
    out = tmp_path / "found"
    seen = hunt("least-norm", out=out)
    assert {p.name for p in out.iterdir()} == {
        "attsvm.json", "hunt.json", "instance.npz", "instance.py", "figure.svg", "figure.png",
    }  # fmt: skip
    archive = read_problem(out / "instance.npz")
    assert np.array_equal(archive.tokens.X, seen.found.instance["X"])
    assert len((out / "instance.py").read_text().splitlines()) <= 8
    done = subprocess.run([sys.executable, out / "instance.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == seen.found.confirmation.says
    assert json.loads((out / "hunt.json").read_text())["message"] == seen.message
    with pytest.raises(BadTokens, match="has a hunt already"):
        hunt("least-norm", out=out)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"premises": None}, "'sums' has no premises: give lambda instance: True"),
        ({"violation": None}, "'sums' has no violation"),
        ({"violation": lambda one: np.nan}, r"is nan on Instance.*must be a finite number"),
        ({"violation": lambda one: None}, r"is None on Instance.*must be a finite number"),
        ({"violation": lambda one: 1 / 0}, r"violation of statement 'sums' fails.*ZeroDivision"),
        ({"space": Space({"n": (2, 1)}, ())}, "no sizes of statement 'sums' fit together"),
    ],
)
def test_a_statement_that_cannot_be_hunted_is_refused(changes, said):
    with pytest.raises(Unsupported, match=said):
        hunt(planted(**changes), instances=50)


@pytest.mark.parametrize(
    "options", [{"seconds": 0}, {"seconds": np.nan}, {"instances": 0}, {"seed": -1}]
)
def test_bad_limits_are_refused(options):
    with pytest.raises(Unsupported, match=next(iter(options))):
        hunt("low-rank", **options)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "letter.txt").touch()
    with pytest.raises(BadTokens, match="holds other files"):
        hunt("simplex-projection", instances=100, out=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex-projection", "equal-scores"])
def test_processes_give_what_one_gives(name, tmp_path):
    from attsvm.experiments.executors import ExecutorConfig, engine_of

    alone = hunt(name, seed=2, instances=20_000, seconds=600).to_dict()
    shared = hunt(name, seed=2, instances=20_000, seconds=600,
                  engine=engine_of("local", ExecutorConfig(jobs=2))).to_dict()  # fmt: skip
    assert alone.pop("seconds") > 0
    assert shared.pop("seconds") > 0
    assert alone == shared


def test_the_example_finds_nothing_and_then_three_tokens_on_a_line(capsys, monkeypatch):
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    runpy.run_path(str(ROOT / "examples" / "hunt_a_statement.py"), run_name="__main__")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("no counterexample among")
    assert second.startswith("candidate after")


OWN = """
from attsvm.experiments.statements.statement import Field, Space, Statement

space = Space({"d": (1, 3)}, (Field("x", ("d",)),))
nothing = Statement("nothing", says="x < 3.", kind="conjecture", space=space,
                    violation=lambda one: float(one["x"].max()) - 2.9)
below = Statement("below", says="x < 3.", kind="conjecture", space=space,
                  premises=lambda one: True, violation=lambda one: float(one["x"].max()) - 2.9)
number = 3
"""


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


def test_the_list_has_every_statement(run):
    found = run("hunt", "--list", "--json")
    assert found.code == 0
    assert [row["name"] for row in found.report["statements"]] == list(STATEMENTS)


def test_what_is_found_is_printed_as_one_object(run, tmp_path):
    found = run("hunt", "least-norm", "--json", "--out", tmp_path / "found")
    assert found.code == 0
    report = found.report
    assert report["status"] == "found"
    assert report["found"]["confirmed"] is True
    assert report["found"]["instance"]["X"]
    assert (tmp_path / "found/instance.npz").exists()


def test_a_statement_of_ones_own(run, own, tmp_path):
    found = run("hunt", f"{own}:below", "--out", tmp_path / "below")
    assert found.code == 5  # without an exact check it is a candidate
    assert "candidate after" in found.out
    assert "x = [3]" in found.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{own}:nothing"], "has no premises"),
        (["{own}:number"], "is no attsvm.experiments.statements.statement.Statement but int"),
        (["{own}:missing"], "has no missing"),
        (["A.joint-path"], "cannot be hunted; these statements can"),
        (["equal-score"], "nearest are equal-scores"),
        (["B.equal-scores-global"], "to hunt: equal-scores-one-input, equal-scores"),
        ([], "name a statement to hunt"),
        (["low-rank", "--seconds", "-1"], "needs a positive time"),
        (["low-rank", "--engine", "loca"], "nearest is local"),
        (["low-rank", "--address", "tcp://nowhere:1"], "--address is of the dask engine"),
    ],
)
def test_bad_input_is_one_sentence(run, own, words, said):
    refused(run("hunt", *[word.format(own=own) for word in words]), said)
