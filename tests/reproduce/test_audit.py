"""What is saved and is not what a run makes: digests, older folders, and the audit."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from attsvm.claims import CLAIMS
from attsvm.errors import BadTokens, Unsupported
from attsvm.reproduce import audit_claims, judge, reproduce_claims
from tests.claims.tampering.fabricated import read, write
from tests.cli.command import refused
from tests.reproduce.made_claims import NAME, made

OTHER = "Z.second"


@pytest.fixture
def runs(monkeypatch) -> list[str]:
    """The ids in the order in which the two made-up claims were run."""
    seen: list[str] = []
    for name in (NAME, OTHER):
        monkeypatch.setitem(CLAIMS, name, made(name, runs=seen))
    return seen


@pytest.fixture
def folder(tmp_path, runs):
    """A finished folder."""
    reproduce_claims([NAME, OTHER], out=tmp_path / "there")
    runs.clear()
    return tmp_path / "there"


def forged(folder, x, **options):
    """Another x on file."""
    write(folder, NAME, {**read(folder, NAME), "x": np.array(x)}, **options)


def old(folder):
    """The folder as it was before there were digests and late records."""
    arrays = {k: a for k, a in read(folder, NAME).items() if not k.startswith("ledger.")}
    write(folder, NAME, arrays)
    file = folder / "claims" / f"{NAME}.json"
    record = json.loads(file.read_text("utf-8"))
    del record["arrays"]
    file.write_text(json.dumps(record), "utf-8")


def contents(folder):
    """A digest of every file of the folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_arrays_that_do_not_fit_their_digests(folder, runs):
    forged(folder, 1.5, fit=False)
    said = []
    record = judge(folder, say=said.append)[0]
    assert record["verdict"] == "undecided" and len(record["doubts"]) == 1
    assert said[0] == (
        f"{NAME}: {NAME}.npz was changed after the run: the array x does not fit its digest in "
        f"{NAME}.json; run it again (`attsvm reproduce {NAME} --again`)"
    )
    assert runs == []
    said.clear()
    assert reproduce_claims([NAME, OTHER], out=folder, say=said.append)[0]["verdict"] == "holds"
    assert runs == [NAME] and said[0].endswith("it is run again")
    assert judge(folder)[0]["verdict"] == "holds"


@pytest.mark.parametrize("content", [None, b"{half"])
def test_lost_arrays_decide_nothing(folder, runs, content):
    file = folder / "claims" / f"{NAME}.npz"
    file.unlink() if content is None else file.write_bytes(content)
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert not row["agrees"] and (content is None) != file.exists()
    record = judge(folder)[0]
    assert record["verdict"] == "undecided" and "run it again" in record["reason"]
    assert reproduce_claims([NAME], out=folder)[0]["verdict"] == "holds" and runs == [NAME]


def test_a_run_that_was_killed_before_its_record(folder):
    before = (folder / "claims" / f"{NAME}.json").read_bytes()
    reproduce_claims([NAME], out=folder, quick=True)
    (folder / "claims" / f"{NAME}.json").write_bytes(before)
    forged(folder, 1.5, fit=False)
    assert judge(folder)[0]["verdict"] == "undecided"


def test_an_older_folder_is_run_again_or_audited(folder, runs):
    old(folder)
    said = []
    record = judge(folder, say=said.append)[0]
    assert record["verdict"] == "undecided"
    assert "saved without digests, by an older version: run it again" in said[0]
    assert "--audit" in said[0]
    assert audit_claims([NAME], out=folder)["claims"][0]["rerun"] == 1
    assert runs == [NAME]


@pytest.mark.parametrize("older", [False, True])
def test_an_audit_notices_what_judging_cannot(folder, older):
    if older:
        old(folder)
        file = folder / "claims" / f"{NAME}.npz"
        with file.open("wb") as target:
            np.savez(target, x=np.array(1.5))
    else:
        forged(folder, 1.5)
        assert judge(folder)[0]["verdict"] == "holds"
    said = []
    found = audit_claims(out=folder, say=said.append)
    assert [row["agrees"] for row in found["claims"]] == [False, True]
    assert said == [f"{NAME}: x is 1.5 on file, 1 when it is made again"]


def test_an_audit_changes_nothing_and_repeats_by_its_seed(folder):
    (folder / "claims" / f"{OTHER}.json").write_text("{half")
    before = contents(folder)
    first = audit_claims(out=folder, seed=3, jobs=1)
    assert contents(folder) == before
    assert "cannot be read" in first["claims"][1]["doubts"][0]
    again = audit_claims(out=folder, seed=first["seed"])
    times = {"seconds": 0}
    assert [{**a, **times} for a in again["claims"]] == [{**a, **times} for a in first["claims"]]
    assert audit_claims(out=folder)["seed"] != audit_claims(out=folder)["seed"]


def test_a_verdict_changed_on_file_is_noticed(folder):
    file = folder / "claims" / f"{NAME}.json"
    file.write_text(file.read_text("utf-8").replace('"holds"', '"fails"'), "utf-8")
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert row["doubts"] == ["the verdict on file is fails, that of the arrays is holds"]


def test_another_config_is_named(folder, monkeypatch):
    monkeypatch.setitem(CLAIMS, NAME, made(full={"x": 1, "limit": 0}))
    (row,) = audit_claims([NAME], out=folder)["claims"]
    assert "another config" in row["doubts"][0]


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
    done = run("reproduce", "Z", "--audit", "--seed", "7", "--jobs", "1")
    assert done.code == 0 and f"{NAME} agrees" in done.err
    assert "2 of 2 claims agree with a rerun of 2 pieces of 2, chosen by --seed 7" in done.out
    report = run("reproduce", NAME, "--audit", "--share", "0.5", "--json").report
    assert report["status"] == "done" and report["share"] == 0.5
    assert report["claims"][0]["id"] == NAME and report["claims"][0]["within"] == 0.01


def test_audit_that_differs_ends_with_5(run, runs):
    run("reproduce", "Z", "--jobs", "1")
    forged(Path("attsvm-report"), 1.5)
    done = run("reproduce", "--audit", "--jobs", "1")
    assert done.code == 5 and f"not what their run makes: {NAME}\n" in done.out
    assert f"attsvm: {NAME}: x is 1.5 on file" in done.err
    assert run("reproduce", "--audit", "--json").report["status"] == "failed"


def test_odd_options_of_an_audit_are_refused(run, runs):
    run("reproduce", NAME)
    refused(run("reproduce", NAME, "--audit", "--quick"), "leave out", "--quick")
    refused(run("reproduce", NAME, "--seed", "3"), "add --audit")
    refused(run("reproduce", NAME, "--audit", "--share", "2"), "above 0")
    refused(run("reproduce", "B.rank", "--audit"), "is not on file")
