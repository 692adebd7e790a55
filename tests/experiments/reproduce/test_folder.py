"""reproduce(): what is finished is kept, what is broken is named and run again."""

import errno
import json
import os

import pytest

from attsvm.errors import BadTokens, NotConverged, Unsupported
from attsvm.experiments.reproduce import chosen_ids, reproduce_claims
from attsvm.experiments.reproduce import folder as page_folder
from attsvm.experiments.reproduce import runs as running
from attsvm.experiments.studies import CLAIMS
from tests.experiments.reproduce.made_claims import NAME, OTHER, made


@pytest.fixture
def said() -> list[str]:
    return []


def claim_file(folder, name, ending="json"):
    return folder / "claims" / f"{name}.{ending}"


def test_records_are_kept(tmp_path, runs):
    out = tmp_path / "new" / "folder"
    states = []
    records = reproduce_claims([NAME, OTHER], out=out, watch=lambda *pair: states.append(pair))
    assert [record["verdict"] for record in records] == ["holds", "holds"]
    assert states == [
        (NAME, "waiting"), (OTHER, "waiting"), (NAME, "running"), (NAME, "holds"),
        (OTHER, "running"), (OTHER, "holds"),
    ]  # fmt: skip
    assert json.loads((out / "results.json").read_text()) == records
    names = {path.name for path in out.rglob("*") if path.is_file()}
    ends = ("json", "npz", "motion.json", "svg", "png")
    assert names == {"attsvm.json", "results.json"} | {
        f"{name}.{end}" for name in (NAME, OTHER) for end in ends
    }
    assert reproduce_claims([NAME, OTHER], out=out) == records
    assert runs == [NAME, OTHER]


def test_another_config_or_code_is_run_again(tmp_path, runs, monkeypatch):
    reproduce_claims([NAME], out=tmp_path)
    reproduce_claims([NAME], out=tmp_path, quick=True)
    assert len(runs) == 2
    monkeypatch.setattr(running, "code_digest", lambda module: "other code")
    reproduce_claims([NAME], out=tmp_path, quick=True)
    assert len(runs) == 3
    reproduce_claims([NAME], out=tmp_path, quick=True)
    assert len(runs) == 3
    reproduce_claims([NAME], out=tmp_path, quick=True, again=True)
    assert len(runs) == 4


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("content", [b"", b"{half", b"[]", b'{"id": 1}'])
def test_a_broken_file_is_named_kept_and_made_again(tmp_path, runs, said, ending, content):
    before = reproduce_claims([NAME, OTHER], out=tmp_path)
    file = claim_file(tmp_path, NAME, ending)
    file.write_bytes(content)
    after = reproduce_claims([NAME, OTHER], out=tmp_path, say=said.append)
    assert runs == [NAME, OTHER, NAME]
    assert said == [f"{file} cannot be read: kept aside as {file.name}.broken"]
    assert file.with_name(f"{file.name}.broken").read_bytes() == content
    times = {"seconds": 0, "cpu_seconds": 0, "compile_seconds": 0}
    assert [{**r, **times} for r in after] == [{**r, **times} for r in before]


def test_lost_pictures_are_drawn_without_a_run(tmp_path, runs):
    reproduce_claims([NAME], out=tmp_path)
    lost = [tmp_path / "figures" / f"{NAME}.{end}" for end in ("svg", "png")]
    lost.append(claim_file(tmp_path, NAME, "motion.json"))
    content = [file.read_bytes() for file in lost]
    for file in lost:
        file.unlink()
    reproduce_claims([NAME], out=tmp_path)
    assert [file.read_bytes() for file in lost] == content and runs == [NAME]


def test_a_claim_that_breaks_stops_no_other(tmp_path, runs, monkeypatch):
    reproduce_claims([NAME], out=tmp_path)

    def broken(config):
        raise NotConverged("it stalled")

    monkeypatch.setitem(CLAIMS, NAME, made(run=broken))
    states = []
    records = reproduce_claims(
        [NAME, OTHER], out=tmp_path, again=True, watch=lambda *pair: states.append(pair)
    )
    assert [record["verdict"] for record in records] == ["undecided", "holds"]
    assert records[0]["error"] == "NotConverged: it stalled" and "stalled" in records[0]["reason"]
    assert (NAME, "broken") in states
    assert not (tmp_path / "figures" / f"{NAME}.svg").exists(), "a picture of another run"
    monkeypatch.setitem(CLAIMS, NAME, made(runs=runs))
    assert reproduce_claims([NAME], out=tmp_path)[0]["verdict"] == "holds"


def test_no_space_is_one_sentence_and_keeps_what_is_finished(tmp_path, runs, monkeypatch):
    reproduce_claims([NAME], out=tmp_path)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(running, "write_arrays", full)
    with pytest.raises(BadTokens, match="no space is left in"):
        reproduce_claims([NAME, OTHER], out=tmp_path)
    monkeypatch.undo()
    monkeypatch.setitem(CLAIMS, NAME, made(runs=runs))
    monkeypatch.setitem(CLAIMS, OTHER, made(OTHER, runs=runs))
    reproduce_claims([NAME, OTHER], out=tmp_path)
    assert runs.count(NAME) == 1


def test_no_space_for_the_results_is_one_sentence(tmp_path, runs, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BadTokens, match="no space is left in"):
        page_folder.gather(tmp_path, [], print)
    assert list(tmp_path.iterdir()) == [], "nothing half-written is left"


def test_a_folder_of_other_things_is_refused(tmp_path, runs):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(BadTokens, match="holds other files"):
        reproduce_claims([NAME], out=tmp_path)
    with pytest.raises(BadTokens, match="is a file"):
        reproduce_claims([NAME], out=tmp_path / "letter.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"] and runs == []


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        ('{"kind": "reproduction", "version": 99}', "written by another version of attsvm"),
        ('{"kind": "sweep", "version": 1}', "holds a sweep, not a reproduction"),
        ('{"format": 1}', r"was written by attsvm 0\.2: run it again"),
        ("{", r"attsvm\.json cannot be read"),
        ("[]", r"attsvm\.json cannot be read"),
    ],
)
def test_a_folder_of_another_version_is_refused(tmp_path, runs, stamp, said):
    (tmp_path / "attsvm.json").write_text(stamp)
    with pytest.raises(BadTokens, match=said):
        reproduce_claims([NAME], out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["attsvm.json"]


def test_a_run_that_is_killed_before_its_record_is_run_again(tmp_path, runs, monkeypatch):
    reproduce_claims([NAME], out=tmp_path)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, "judged", killed)
        with pytest.raises(KeyboardInterrupt):
            reproduce_claims([NAME], out=tmp_path, quick=True)
    reproduce_claims([NAME], out=tmp_path)
    assert runs == [NAME] * 3


def test_old_half_written_files_are_removed(tmp_path, runs):
    reproduce_claims([NAME], out=tmp_path)
    old, new = tmp_path / "claims" / ".attsvm-a.part", tmp_path / "claims" / ".attsvm-b.part"
    for file in (old, new):
        file.touch()
    os.utime(old, (1, 1))
    reproduce_claims([NAME], out=tmp_path)
    assert not old.exists() and new.exists()


def test_numbers_that_are_not_finite_are_null(tmp_path):
    page_folder.write_json(tmp_path / "x.json", {"a": (1.0, float("nan")), "b": float("inf")})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [1.0, None], "b": None}


def test_claims_are_chosen_by_id_and_paper(runs):
    assert chosen_ids([]) == [name for name, claim in CLAIMS.items() if not claim.real]
    assert chosen_ids([], real=True) == [name for name in CLAIMS if CLAIMS[name].real]
    assert chosen_ids([], real=None) == list(CLAIMS)
    assert chosen_ids(["A"], real=True) == ["A.sparsification"]
    assert chosen_ids(["A.sparsification"]) == ["A.sparsification"]
    assert chosen_ids([OTHER, NAME]) == [NAME, OTHER]
    assert chosen_ids(["Z"]) == [NAME, OTHER]
    assert set(chosen_ids(["A"])) == {
        name for name in CLAIMS if name.startswith("A.") and not CLAIMS[name].real
    }
    with pytest.raises(Unsupported, match=r"unknown claim 'Z\.made-pu': nearest are Z\.made-up"):
        chosen_ids(["Z.made-pu"])
