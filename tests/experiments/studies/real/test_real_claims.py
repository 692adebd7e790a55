"""Every claim on real data: run small, judged, drawn and audited."""

import json

import numpy as np
import pytest
from attsvm.experiments.reproduce import audit_claims, reproduce_claims

from attsvm._utils.files import load_arrays
from attsvm.experiments.studies import CLAIMS
from attsvm.plotting.style import place_parts, styled
from tests.experiments.studies.pictures import cut, unnamed

pytestmark = pytest.mark.slow
REAL = [name for name, claim in CLAIMS.items() if claim.real]


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


def test_claims_on_the_same_networks_share_their_runs(tmp_path):
    counts = []
    for name in ("C.real-images", "A.sparsification"):
        reproduce_claims([name], out=tmp_path / "shared", quick=True)
        counts.append(len(list(tmp_path.glob("shared/runs/*.npz"))))
    assert counts[0] == counts[1] >= 2
