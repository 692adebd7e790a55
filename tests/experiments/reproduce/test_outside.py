"""Claims of one's own: run, judged, drawn, listed and audited from a file outside the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attsvm.experiments.reproduce import claims_from, reproduce_claims
from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.claim import law_broken
from tests.cli.command import refused

MINE = '''
from matplotlib.figure import Figure

from attsvm.experiments.studies.claim import Claim, Finding, Motion, at_most

def run(config):
    """What is measured."""
    return {"x": float(config["x"])}

def check(config, result):
    return Finding((at_most("x", float(result["x"]), 2.0),), "none", 1, 0.0)

def plot(config, result):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0.0, float(result["x"])])
    return figure

def motion(config, result):
    return Motion("moves", [0], [], [], "x", "y")

def claim(name, **changes):
    given = {
        "id": f"mine.{name}", "title": "Mine", "kind": "figure", "trust": "measured",
        "statement": "x is small.", "full": {"x": 1}, "quick": {"x": 1}, "run": run,
        "check": check, "plot": plot,
    }
    return Claim(**{**given, **changes})

'''
TWO = "CLAIMS = (claim('one'), claim('two', full={'x': 9}))"


@pytest.fixture
def file(tmp_path):
    """A function that writes a file with the claim's parts and this ending."""

    def write(ending: str, name: str = "mine.py", *, begin: str = MINE) -> Path:
        path = tmp_path / "outside" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(begin + ending)
        return path

    return write


@pytest.mark.parametrize(
    ("ending", "ids"),
    [
        ("CLAIM = claim('one')", ["mine.one"]),
        (TWO, ["mine.one", "mine.two"]),
        ("CLAIMS = {'mine.one': claim('one')}", ["mine.one"]),
        ("CLAIM = claim('one')\nCLAIMS = [CLAIM, claim('two')]", ["mine.one", "mine.two"]),
    ],
)
def test_the_claims_of_a_file(file, ending, ids):
    found = claims_from(file(ending))
    assert list(found) == ids
    assert found["mine.one"].module.startswith("attsvm_outside_mine")


def test_they_are_run_judged_drawn_and_paged(run, file):
    source = file(TWO)
    how = f"attsvm reproduce mine.one --from {source}"
    assert how in run("show", "mine.one", "--from", source).out, "before a run it says how"
    done = run("reproduce", "--from", source, "--jobs", "1")
    assert done.code == 5 and "1 holds, 1 fails" in done.out
    folder = Path("attsvm-report")
    names = {path.name for path in folder.rglob("mine.*")}
    ends = ("json", "npz", "svg", "png")
    assert names == {f"mine.{name}.{end}" for name in ("one", "two") for end in ends}
    page = (folder / "report.html").read_text("utf-8")
    assert how in page and "<h2 id=" in page
    assert run("reproduce", "mine.one", "--from", source, "--jobs", "1").err == "", "finished"
    listed = run("list", "--from", source, "--json").report["claims"]
    assert [(c["id"], c["verdict"]) for c in listed] == [
        ("mine.one", "holds"),
        ("mine.two", "fails"),
    ]
    assert "Verdict: holds" in run("show", "mine.one", "--from", source).out
    done = run("reproduce", "mine.one", "--from", source, "--audit", "--jobs", "1")
    assert done.code == 0 and "1 of 1 claim agree" in done.out


def test_the_page_keeps_them_when_others_are_run(run, file):
    run("reproduce", "mine.one", "--from", file(TWO), "--jobs", "1")
    report = run("report", "--json").report
    assert [record["id"] for record in report["claims"]] == ["mine.one"]
    assert report["claims"][0]["from"].endswith("mine.py")
    text = Path("attsvm-report/report.html").read_text("utf-8")
    assert "mine.one" in text


def test_a_changed_number_runs_it_again_and_a_changed_docstring_does_not(file, tmp_path):
    seen = []
    for old, new in (("", ""), ("What is measured", "What is seen"), ("2.0", "3.0")):
        source = file(TWO, begin=MINE.replace(old, new) if old else MINE)
        told = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(source), str(tmp_path / "there")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seen.append(json.loads(told.stdout)[-1])
    assert seen == [["mine.one", "holds"], ["mine.one", "on file"], ["mine.one", "holds"]]


SCRIPT = """
import json, sys
from attsvm.experiments.reproduce import reproduce_claims
states = []
tell = lambda *pair: states.append(pair)
reproduce_claims(["mine.one"], source=sys.argv[1], out=sys.argv[2], watch=tell)
print(json.dumps(states))
"""


def test_several_processes_load_the_file(file, tmp_path):
    records = reproduce_claims(source=file(TWO), out=tmp_path / "there", jobs=2)
    assert [record["verdict"] for record in records] == ["holds", "fails"]


def test_a_law_broken_in_a_process_is_one_sentence(file, tmp_path):
    source = file("CLAIMS = [claim('one'), claim('two', run=lambda config: [1.0])]")
    words = ["reproduce", "--from", str(source), "--jobs", "2", "--out", str(tmp_path / "there")]
    done = subprocess.run(
        [sys.executable, "-m", "attsvm", *words], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "mine.two breaks its contract: run returns a dict of arrays by name" in done.stderr


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("1 / 0", ["does not import", "ZeroDivisionError"]),
        ("x = (", ["does not import", "SyntaxError"]),
        ("x = 1", ["holds no claim", "CLAIM or CLAIMS"]),
        ("CLAIMS = ()", ["holds no claim"]),
        ("CLAIM = 'one'", ["what is no Claim", "'one'"]),
        ("CLAIMS = {'a': 3}", ["what is no Claim"]),
        ("CLAIM = claim('x', id='B.rank')", ["B.rank breaks", "taken by a claim of attsvm"]),
        ("CLAIMS = [claim('x'), claim('x')]", ["mine.x breaks", "taken twice"]),
        ("CLAIM = claim('x', id='../x')", ["id is a paper, a dot and a name"]),
        ("CLAIM = claim('x', id=3)", ["id is a paper"]),
        ("CLAIM = claim('x', check=None)", ["check is a function"]),
        ("CLAIM = claim('x', plot=3)", ["plot is a function"]),
        ("CLAIM = claim('x', motion='m')", ["motion is a function"]),
        ("CLAIM = claim('x', kind='law')", ["kind is one of theorem, figure", "'law'"]),
        ("CLAIM = claim('x', trust='sure')", ["trust is one of"]),
        ("CLAIM = claim('x', reference='me2020x')", ["reference is one of"]),
        ("CLAIM = claim('x', title='')", ["title is a text"]),
        ("CLAIM = claim('x', full=3)", ["full is a dict that JSON can hold"]),
        ("CLAIM = claim('x', quick={'x': {1}})", ["quick is a dict that JSON can hold"]),
        ("CLAIM = claim('x', quick={'y': 1})", ["the same keys", "'x'"]),
    ],
)
@pytest.mark.parametrize("command", ["reproduce", "list"])
def test_bad_files_are_refused(run, file, ending, words, command):
    refused(run(command, "--from", file(ending)), *words)
    assert not Path("attsvm-report").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("run=lambda config: [1.0]", ["run returns a dict of arrays by name", "list"]),
        ("run=lambda config: {3: 1.0}", ["run returns a dict", "the name 3"]),
        ("run=lambda config: {'x': {1.0}}", ["run returns a dict", "x of type object"]),
        ("check=lambda config, result: True", ["check returns a Finding", "bool"]),
        ("plot=lambda config, result: None", ["plot returns a Figure", "NoneType"]),
        ("motion=lambda config, result: {}", ["motion returns a Motion", "dict"]),
    ],
)
def test_a_law_broken_by_a_run_is_named(run, file, change, words):
    source = file(f"CLAIM = claim('x', {change})")
    done = run("reproduce", "--from", source, "--jobs", "1")
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("attsvm: mine.x breaks its contract: ")
    assert all(word in done.err for word in words) and done.err.count("\n") == 1


def test_a_missing_file_and_an_unknown_id_are_refused(run, file):
    refused(run("reproduce", "--from", "nowhere.py"), "nowhere.py", "is not there")
    source = file(TWO)
    refused(run("reproduce", "B.rank", "--from", source), "B.rank", "mine.one, mine.two")
    refused(run("show", "mine.on", "--from", source), "mine.on'", "mine.one")


@pytest.mark.parametrize("name", CLAIMS)
def test_the_claims_of_the_package_keep_the_laws(name):
    assert law_broken(CLAIMS[name]) == ""
