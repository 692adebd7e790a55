"""The audit: a share of the claims on file is run again and compared with the records."""

import hashlib
import json
from pathlib import Path

import pytest

from attsvm.errors import BadTokens, Unsupported
from attsvm.experiments.reproduce import audit_claims, reproduce_claims
from attsvm.experiments.studies import CLAIMS
from tests.cli.command import refused
from tests.experiments.reproduce.made_claims import NAME, OTHER, made


@pytest.fixture
def folder(tmp_path, runs):
    """A finished folder."""
    reproduce_claims([NAME, OTHER], out=tmp_path / "there")
    runs.clear()
    return tmp_path / "there"


def changed(folder, change):
    """Another record on file of the first claim."""
    file = folder / "claims" / f"{NAME}.json"
    record = json.loads(file.read_text("utf-8"))
    change(record)
    file.write_text(json.dumps(record), "utf-8")


def contents(folder):
    """A digest of every file of the folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (1 + 1e-8, []),
        ("nan", ["x is nan on file, 1.0 when it is run again"]),
        (1 + 1e-5, ["x is 1.00001 on file, 1.0 when it is run again"]),
    ],
)
def test_every_number_is_compared(folder, seen, says):
    changed(folder, lambda record: record["numbers"][0].update(seen=seen))
    said = []
    found = audit_claims(out=folder, share=1.0, say=said.append)
    assert [row["differences"] for row in found["claims"]] == [says, []]
    assert said == [f"{NAME}: {words}" for words in says]


def test_the_verdict_and_the_names_of_the_numbers_are_compared(folder):
    changed(folder, lambda record: record.update(verdict="fails", numbers=[]))
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert row["differences"] == [
        "the verdict is fails on file, holds when it is run again",
        "x is only in the new run",
    ]


def test_a_share_of_the_claims_is_drawn_by_the_seed(folder, runs):
    drawn = [[r["id"] for r in audit_claims(out=folder, seed=s)["claims"]] for s in range(8)]
    assert {tuple(names) for names in drawn} == {(NAME,), (OTHER,)}
    assert runs == [names[0] for names in drawn]
    assert drawn[3] == [row["id"] for row in audit_claims(out=folder, seed=3)["claims"]]
    assert audit_claims(out=folder)["seed"] != audit_claims(out=folder)["seed"]


def test_a_letter_means_its_claims_on_file(folder):
    (folder / "claims" / f"{OTHER}.json").unlink()
    assert [row["id"] for row in audit_claims(["Z"], out=folder)["claims"]] == [NAME]


def test_an_audit_changes_nothing(folder):
    (folder / "claims" / f"{OTHER}.json").write_text("{half")
    before = contents(folder)
    found = audit_claims(out=folder, share=1.0)
    assert contents(folder) == before
    assert "cannot be read" in found["claims"][1]["differences"][0]


def test_a_claim_that_cannot_be_run_any_more_differs(folder, monkeypatch):
    def broken(config):
        raise ZeroDivisionError("by zero")

    monkeypatch.setitem(CLAIMS, NAME, made(run=broken))
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert "undecided when it is run again" in row["differences"][0]


def test_another_config_is_named(folder, monkeypatch):
    monkeypatch.setitem(CLAIMS, NAME, made(full={"x": 1, "limit": 0}))
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert "another config" in row["differences"][0]


def test_what_cannot_be_audited_is_refused(folder, tmp_path):
    with pytest.raises(BadTokens, match=r"A\.multi-input is not on file"):
        audit_claims(["A.multi-input"], out=folder)
    with pytest.raises(BadTokens, match="there is no folder"):
        audit_claims(out=tmp_path / "nowhere")
    for share in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(Unsupported, match="above 0 and at most 1"):
            audit_claims(out=folder, share=share)


def test_audit_on_the_command_line(run, runs):
    run("reproduce", "Z", "--jobs", "1")
    done = run("reproduce", "Z", "--audit", "--share", "1", "--seed", "7", "--jobs", "1")
    assert done.code == 0 and f"{NAME} agrees" in done.err
    assert "2 of 2 claims agree with their rerun (of 2 on file, drawn by --seed 7)" in done.out
    report = run("reproduce", "Z", "--audit", "--share", "0.5", "--json").report
    assert report["status"] == "done" and report["share"] == 0.5 and report["of"] == 2
    assert len(report["claims"]) == 1 and report["within"] == 1e-6


def test_audit_that_differs_ends_with_5(run, runs):
    run("reproduce", "Z", "--jobs", "1")
    changed(Path("attsvm-report"), lambda record: record["numbers"][0].update(seen=1.5))
    done = run("reproduce", "--audit", "--share", "1", "--jobs", "1")
    assert done.code == 5 and f"they differ from their rerun: {NAME}\n" in done.out
    assert f"attsvm: {NAME}: x is 1.5 on file" in done.err
    assert run("reproduce", NAME, "--audit", "--json").report["status"] == "failed"


def test_odd_options_of_an_audit_are_refused(run, runs):
    run("reproduce", NAME)
    refused(run("reproduce", NAME, "--audit", "--quick"), "leave out", "--quick")
    refused(run("reproduce", NAME, "--seed", "3"), "add --audit")
    refused(run("reproduce", NAME, "--audit", "--share", "2"), "above 0")
    refused(run("reproduce", "B.rank", "--audit"), "is not on file")
