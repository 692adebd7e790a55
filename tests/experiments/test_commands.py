"""list, show, reproduce, report and the audit on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.command import refused

MINE = Path(__file__).with_name("made_studies.py").read_text()
QUICK = ("--quick", "--engine", "here")


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return "mine.py:SLOW"


def test_studies_are_listed(run):
    done = run("list", "B", "--json")
    assert {s["paper"] for s in done.report["studies"]} == {"B"}
    shown = run("list")
    assert "B.rank" in shown.out and "(--real)" in shown.out and "verdict" not in shown.out


def test_one_is_shown(run, mine):
    shown = run("show", "B.rank").out
    assert "Rank of the solutions" in shown and "Not run yet" in shown and "seeds = 60" in shown
    assert "Run it: attsvm reproduce mine.py:SLOW" in run("show", mine).out
    run("reproduce", "B.rank", *QUICK, "--seeds", 1, "--out", "out")
    after = run("show", "B.rank", "--out", "out").out
    assert "Verdict: " in after and "solutions of rank above" in after


def test_a_study_of_a_file_is_run(run, mine, tmp_path):
    done = run("reproduce", mine, *QUICK, "--out", "out", "--json")
    assert done.code == 0 and done.report["holds"] == 1 and done.report["status"] == "done"
    assert Path(done.report["page"]).exists() and Path(done.report["results"]).exists()
    (record,) = json.loads((tmp_path / "out/results.json").read_text())
    assert record["from"] == mine and record["quick"]
    again = run("report", "out")
    assert again.code == 0 and "1 study: 1 holds" in again.out
    audit = run("reproduce", "--audit", "--share", 1, "--jobs", 1, "--out", "out", "--json")
    assert audit.code == 0 and audit.report["drawn"] == audit.report["instances"] == 18


def test_a_forged_row_is_exit_code_5(run, mine, tmp_path):
    run("reproduce", mine, *QUICK, "--out", "out")
    file = tmp_path / "out/tables/Z.slow.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], "3,2.5,2,1.0,False,17"]) + "\n")
    done = run("reproduce", "--audit", "--share", 1, "--jobs", 1, "--out", "out")
    assert done.code == 5 and "size of n = 3" in done.err
    assert "they differ from their rerun: Z.slow" in done.out


def test_a_study_that_fails_is_exit_code_5(run, tmp_path):
    text = MINE.replace('"limit": 1e3', '"limit": 0.0').replace(
        '"kind": "figure"', '"kind": "theorem"'
    )
    (tmp_path / "mine.py").write_text(text.replace('"size": "as published"', '"size": ""'))
    done = run("reproduce", "mine.py:SLOW", *QUICK, "--out", "out")
    assert done.code == 5 and "1 of 1 fail or could not be run: Z.slow" in done.err
    assert "1 study: 1 fails (of those that fail, 1 from papers" in done.out


def test_other_seeds(run, mine, tmp_path):
    run("reproduce", mine, "--engine", "here", "--seeds", 2, "--first", 40, "--out", "out")
    text = (tmp_path / "out/tables/Z.slow.csv").read_text()
    assert [line.split(",")[2] for line in text.splitlines()[1:3]] == ["40", "41"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reproduce", "B.rnk"), "unknown study 'B.rnk': nearest are B.rank"),
        (("reproduce", "none.py"), "none.py is not there"),
        (("reproduce", "mine.py:NONE"), "it must define NONE"),
        (("reproduce", "mine.py", "B.rank"), "give mine.py alone"),
        (("reproduce", "--share", "0.5"), "--share and --seed are of an audit"),
        (("reproduce", "--audit", "--quick"), "leave out --real, --quick"),
        (("reproduce", "--audit", "--out", "none"), "there is no folder none"),
        (("reproduce", "mine.py", "--engine", "loca"), "unknown engine 'loca'"),
        (("show", "B.rnk"), "unknown study"),
        (("report", "none"), "there is no folder none"),
        (("list", "--out", "none"), "there is no folder none"),
    ],
)
def test_bad_input_is_one_sentence(run, mine, words, said):
    refused(run(*words), said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("measure=None", "Z.bad: it has no measure"),
        ('id="B.rank"', "the id B.rank is taken"),
    ],
)
def test_a_bad_study_is_one_sentence(run, tmp_path, change, said):
    given = change if change.startswith("id=") else f'id="Z.bad", {change}'
    (tmp_path / "bad.py").write_text(
        f"{MINE}\nfrom dataclasses import replace\nSTUDY = replace(made(), {given})\nSTUDIES = ()\n"
    )
    refused(run("reproduce", "bad.py", "--out", "out"), said)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_0_2_is_refused_in_one_sentence(run, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/attsvm.json").write_text('{"kind": "reproduction", "version": 1}')
    refused(run("reproduce", "B.rank", "--out", "old"), "run it again in a new folder")
    refused(run("report", "old"), "run it again in a new folder")


def test_the_example_of_the_page_runs(run, tmp_path):
    from tests.conventions.tree import ROOT

    page = (ROOT / "docs/adding-a-study.md").read_text("utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 60
    (tmp_path / "mine.py").write_text(code)
    done = run("reproduce", "mine.py", *QUICK, "--out", "mine", "--json")
    assert done.code == 0 and done.report["holds"] == 1
    assert done.report["studies"][0]["judged"] > 0
    audit = run("reproduce", "--audit", "--share", 1, "--jobs", 1, "--out", "mine")
    assert audit.code == 0
