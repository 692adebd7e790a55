"""attsvm hunt: the list, own statements from a file, exit codes and errors in one sentence."""

import pytest

from attsvm.experiments.statements import STATEMENTS
from tests.cli.command import refused

OWN = """
from attsvm.experiments.statements.statement import Field, Space, Statement

space = Space({"d": (1, 3)}, (Field("x", ("d",)),))
nothing = Statement("nothing", title="Nothing", says="x < 3.", kind="conjecture", space=space,
                    violation=lambda one: float(one["x"].max()) - 2.9)
below = Statement("below", title="Below three", says="x < 3.", kind="conjecture", space=space,
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
    found = run("hunt", "every-input-tight", "--json", "--out", tmp_path / "found")
    assert found.code == 0
    report = found.report
    assert report["status"] == "found"
    assert report["found"]["confirmed"] is True
    assert report["found"]["instance"]["X"]
    assert (tmp_path / "found/instance.npz").exists()


def test_nothing_found_is_said_in_a_sentence(run):
    found = run("hunt", "order-signs", "--instances", 300)
    assert found.code == 0
    assert "no counterexample among" in found.out


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
        ([], "name a statement to hunt"),
        (["low-rank", "--seconds", "-1"], "needs a positive time"),
        (["low-rank", "--engine", "loca"], "nearest is local"),
        (["low-rank", "--address", "tcp://nowhere:1"], "--address is of the dask engine"),
    ],
)
def test_bad_input_is_one_sentence(run, own, words, said):
    refused(run("hunt", *[word.format(own=own) for word in words]), said)
