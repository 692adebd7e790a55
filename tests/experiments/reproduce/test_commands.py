"""attsvm list, show, reproduce and report: what they print, write and end with."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from attsvm.cli.claims import Board
from attsvm.experiments.studies import CLAIMS
from tests.cli.command import refused
from tests.experiments.reproduce.made_claims import NAME, made

FAILING = "Z.failing"


@pytest.fixture(autouse=True)
def made_claims(monkeypatch):
    monkeypatch.setitem(CLAIMS, NAME, made())
    monkeypatch.setitem(CLAIMS, FAILING, made(FAILING, full={"x": 9, "limit": 2}))


def test_reproduce_ends_by_naming_the_page(run):
    done = run("reproduce", NAME)
    assert done.code == 0
    assert done.out.endswith("1 claim: 1 holds\npage: attsvm-report/report.html\n")
    assert NAME in done.err and "holds" in done.err
    assert Path("attsvm-report/report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    again = run("reproduce", NAME)
    assert again.out == done.out and again.err == ""


def test_reproduce_as_json(run):
    report = run("reproduce", NAME, "--json", "--out", "there").report
    assert report["status"] == "done" and report["page"] == "there/report.html"
    assert (report["holds"], report["fails"], report["undecided"]) == (1, 0, 0)
    assert report["claims"][0]["id"] == NAME and report["claims"][0]["quick"] is False


def test_a_claim_that_fails_ends_with_5(run):
    done = run("reproduce", "Z", "--jobs", "1")
    assert done.code == 5
    assert done.err.endswith(f"attsvm: 1 of 2 fail or could not be run: {FAILING}\n")
    assert "1 holds, 1 fails" in done.out
    assert run("report", "attsvm-report").code == 5
    assert run("reproduce", NAME).code == 0, "only what was asked for counts"


def test_not_reproduced_at_this_size_is_no_failure(run, monkeypatch):
    small = made(FAILING, full={"x": 9, "limit": 2}, trust="read", size="1 of 500 instances")
    monkeypatch.setitem(CLAIMS, FAILING, small)
    done = run("reproduce", "Z", "--jobs", "1")
    assert done.code == 0
    assert "2 claims: 1 holds, 1 not reproduced at this size\n" in done.out
    assert run("report", "--json").report["not reproduced at this size"] == 1
    assert "Size: 1 of 500 instances" in run("show", FAILING).out


def test_a_claim_that_breaks_ends_with_5(run, monkeypatch):
    def broken(config):
        raise ZeroDivisionError("by zero")

    monkeypatch.setitem(CLAIMS, NAME, made(run=broken))
    done = run("reproduce", NAME, "--json")
    assert done.code == 5 and done.report["status"] == "failed"
    assert done.report["claims"][0]["verdict"] == "undecided"
    assert f"attsvm: {NAME} could not be run or judged: ZeroDivisionError: by zero\n" in done.err
    assert "by zero" in Path("attsvm-report/report.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["reproduce", "show", "list"])
def test_an_unknown_claim_is_answered_with_the_nearest(run, command):
    refused(run(command, "Z.made-upp"), "Z.made-upp", f"nearest are {NAME}")
    assert list(Path().iterdir()) == []


def test_a_folder_of_another_version_is_refused(run):
    Path("old").mkdir()
    Path("old/attsvm.json").write_text('{"kind": "reproduction", "version": 7}')
    for words in (
        ("reproduce", NAME, "--out", "old"), ("report", "old"), ("list", "--out", "old"),
        ("show", NAME, "--out", "old"),
    ):  # fmt: skip
        refused(run(*words), "old", "another version", "7")


def test_a_folder_that_is_none_is_refused(run):
    refused(run("report", "nowhere"), "nowhere", "attsvm reproduce")
    refused(run("list", "--out", "nowhere"), "nowhere")
    Path("other").mkdir()
    refused(run("report", "other"), "attsvm.json")
    refused(run("reproduce", NAME, "--jobs", "-1"), "--jobs")


def test_list_shows_the_last_verdicts(run):
    plain = run("list").out
    assert all(name in plain for name in CLAIMS) and "verdict" not in plain
    run("reproduce", FAILING)
    lines = {line.split()[0]: line.split()[:4] for line in run("list", "Z").out.splitlines()}
    assert lines[FAILING] == [FAILING, "figure", "measured", "fails"]
    assert lines[NAME] == [NAME, "figure", "measured", "not"]
    listed = run("list", "Z", "--json").report["claims"]
    assert [(c["id"], c["verdict"]) for c in listed] == [(NAME, None), (FAILING, "fails")]


def test_show_tells_the_config_and_then_the_numbers(run):
    before = run("show", NAME)
    assert "x is small." in before.out and "limit = 2" in before.out and before.code == 0
    run("reproduce", NAME)
    after = run("show", NAME).out
    assert "Verdict: holds" in after and "≤ 2" in after and "limit = 2" not in after
    report = run("show", NAME, "--json").report
    assert report["full"] == {"x": 1, "limit": 2} and report["record"]["verdict"] == "holds"


def test_report_draws_the_page_again(run):
    run("reproduce", NAME)
    page = Path("attsvm-report/report.html")
    text = page.read_text("utf-8")
    page.unlink()
    Path("attsvm-report/results.json").write_text("{broken")
    done = run("report", "attsvm-report")
    assert done.code == 0 and page.read_text("utf-8") == text
    assert done.out.endswith("page: attsvm-report/report.html\n")


def test_the_live_table_fits_the_screen():
    names = [f"Z.{k:03d}" for k in range(200)]
    console = Console(height=20, width=60, record=True, file=StringIO())
    board = Board(names)
    board.update("Z.150", "running")
    board.update("Z.151", "running")
    board.update("Z.151", "fails")
    board.update("Z.000", "on file")
    console.print(board)
    lines = console.export_text().splitlines()
    assert len(lines) <= 20
    assert lines[1].split()[:2] == ["Z.150", "running"]
    assert lines[2].split()[:2] == ["Z.151", "fails"]
    assert "2 of 200 claims" in lines[-1]
