"""Every study on real data: run small, judged, drawn and audited."""

import numpy as np
import pytest

from attsvm.experiments.audit import audit_folder
from attsvm.experiments.figures import figure_of
from attsvm.experiments.runner import read_record, read_table, run_studies
from attsvm.experiments.studies import studies
from attsvm.experiments.studies.shared.networks import QUICK_IMAGES as QUICK
from attsvm.experiments.studies.shared.networks import train_network
from attsvm.experiments.table import as_frame
from attsvm.plotting.style import styled
from tests.experiments.studies.pictures import cut, unnamed

pytestmark = pytest.mark.slow
REAL = {name: study for name, study in studies().items() if study.real}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the quick runs of all studies on real data."""
    out = tmp_path_factory.mktemp("real") / "report"
    said = []
    run_studies(list(REAL.values()), out, quick=True, engine="local", say=said.append)
    assert said == []
    return out


@pytest.mark.parametrize("name", REAL)
def test_a_quick_run_is_judged_with_a_reason(folder, name):
    record = read_record(folder, name)
    assert "error" not in record, record.get("error")
    assert record["premises"] and (record["reason"] or record["verdict"] == "holds")
    if name in ("C.real-sentences", "A.sparsification"):
        small = () if name.startswith("C") else ("not reproduced at this size",)
        assert record["verdict"] in ("holds", *small), record["checks"]
    else:
        assert record["verdict"] == "undecided"
        assert record["reason"].startswith("Not the published parameterization: ")
        assert any(row["met"] is None for row in record["checks"])


@pytest.mark.parametrize("name", REAL)
def test_the_picture_names_what_it_draws(folder, name):
    table = as_frame(read_table(folder, read_record(folder, name)))
    with styled():
        figure = figure_of(REAL[name], table)
        assert unnamed(figure) == [] and cut(figure) == []


def test_an_audit_agrees(folder):
    found = audit_folder(
        folder, lambda record: REAL[record["id"]].at(quick=True), share=0.05, seed=0
    )
    assert [row["differences"] for row in found["studies"]] == [[]] * len(REAL)


def test_rates_are_chosen_by_validation_and_runs_are_the_same_bits_again(folder):
    table = as_frame(read_table(folder, read_record(folder, "C.real-images")))
    best = {}
    adam = QUICK["methods"]["Adam"]
    for rate in adam["rates"][QUICK["first_rate"] :]:
        fit = QUICK["fit"] | adam["fit"] | {"lr": rate, "seed": 100}
        one, two = (
            train_network({"fit": fit | QUICK["tuning"], "look": QUICK["look"]}) for _ in range(2)
        )
        assert all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)
        best[rate] = 0.0 if one["collapsed"][0] else one["valid_accuracy"].max()
    assert set(table[table.method == "Adam"].rate) == {max(best, key=best.get)}


def test_studies_on_the_same_networks_share_their_runs(tmp_path):
    counts = []
    for name in ("C.real-images", "A.sparsification"):
        run_studies([REAL[name]], tmp_path, quick=True)
        counts.append(len(list(tmp_path.glob("runs/*.npz"))))
    assert counts == [12, 12]  # 3 methods with 2 tuning runs and 2 that are compared
