"""Every claim on real data: run small, judged, drawn and audited."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from attsvm._utils.files import load_arrays
from attsvm.experiments.reproduce import audit_claims, reproduce_claims
from attsvm.experiments.studies import CLAIMS
from attsvm.plotting.style import place_parts, plain_ticks, styled
from tests.experiments.studies.pictures import cut, unnamed

pytestmark = pytest.mark.slow
REAL = [name for name, claim in CLAIMS.items() if claim.real]
PATIENCE = 300.0  # seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the quick runs of all claims on real data."""
    out = tmp_path_factory.mktemp("real") / "report"
    said = []
    reproduce_claims(out=out, real=True, quick=True, jobs=2, say=said.append)
    assert said == []
    return out


@pytest.fixture
def saved(folder):
    """A function that reads the arrays of a claim."""
    return lambda name: load_arrays(folder / "claims" / f"{name}.npz")


@pytest.mark.parametrize("name", REAL)
def test_a_quick_run_is_judged_with_a_reason(folder, name):
    record = json.loads((folder / "claims" / f"{name}.json").read_text("utf-8"))
    assert "error" not in record, record.get("error")
    assert record["premises"] and (record["reason"] or record["verdict"] == "holds")
    if name in ("C.real-sentences", "A.sparsification"):
        small = () if name.startswith("C") else ("not reproduced at this size",)
        assert record["verdict"] in ("holds", *small), record["numbers"]
    else:
        assert record["verdict"] == "undecided"
        assert record["reason"].startswith("Not the published parameterization: ")
        assert any(row["met"] is None for row in record["numbers"])


@pytest.mark.parametrize("name", REAL)
def test_the_picture_names_what_it_draws(saved, name, tmp_path):
    claim = CLAIMS[name]
    with styled():
        figure = claim.plot(claim.quick, saved(name))
        assert unnamed(figure) == []
        plain_ticks(figure)
        place_parts(figure)
        assert cut(figure) == []


def test_an_audit_agrees(folder):
    (row,) = audit_claims(["C.real-images"], out=folder, seed=0)["claims"]
    assert row["agrees"], row["differences"]


def test_a_run_is_the_same_bits_again(saved):
    claim = CLAIMS["A.sparsification"]
    arrays = saved(claim.id)
    run = next(r for r in claim.runs(claim.quick) if r.ready)
    one, two = run.work(run.plan), run.work(run.plan)
    assert all(np.array_equal(one[k], two[k], equal_nan=True) for k in one)
    method = next(iter(claim.full["methods"]))
    best = np.nanmax(one["records"][:, 4])
    assert np.any(arrays[f"tuning.{method}"] == (0.0 if one["collapsed"] else best))


def test_a_killed_reproduction_goes_on_from_its_runs(tmp_path):
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "attsvm", "reproduce", "C.real-images", "--quick"]
    options = ["--jobs", "1", "--out", str(out)]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    began = time.monotonic()
    while len(list(out.glob("runs/*.npz"))) < 2 and time.monotonic() < began + PATIENCE:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("runs/*.npz")}
    assert len(kept) >= 2 and not (out / "claims" / "C.real-images.json").exists()
    reproduce_claims(["C.real-images"], out=out, quick=True)
    assert (out / "claims" / "C.real-images.json").exists()
    assert all(file.stat().st_mtime_ns == at for file, at in kept.items())
    # Claims on the same networks share the runs.
    count = len(list(out.glob("runs/*.npz")))
    reproduce_claims(["A.sparsification"], out=out, quick=True)
    assert len(list(out.glob("runs/*.npz"))) == count
