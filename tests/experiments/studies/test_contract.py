"""Every study: its quick run is judged, drawn and audited, and it cannot hold by itself."""

import warnings

import numpy as np
import pandas
import pytest

from attsvm.experiments import figures
from attsvm.experiments.audit import audit_folder
from attsvm.experiments.runner import read_table, run_studies
from attsvm.experiments.studies import studies
from attsvm.experiments.study import check_study, judge, verdict_of
from attsvm.experiments.table import as_frame
from attsvm.plotting.style import styled
from tests.experiments.studies.pictures import cut, unnamed

STUDIES = studies()
# Those on real data are tried in tests/experiments/studies/real, where torch and the data are.
HERE = [name for name, study in STUDIES.items() if not study.real]

# Studies whose statement does not hold as published, with what is found instead.
KNOWN = {
    # Started where some inputs are met, descent stays there, proved; two other statements follow.
    "B.equal-scores-global": "fails",
    "B.nearly-equal-scores": "fails",
    "B.initial-gradient-condition": "fails",
    # Some tokens are loose until d is of the order of T² log T.
    "B.all-tight-against-dimension": "fails",
    # The closed form is wrong with several optimal tokens; five tokens, in fractions.
    "D.proposition-2": "fails",
    # One stage on both losses ends nearer to both solutions.
    "D.two-stage-against-one-stage": "fails",
    # Some runs are short of the nuclear margin after 20,000 steps, and still rise.
    "beyond.global-nuclear": "fails",
}


@pytest.mark.parametrize("name", HERE)
def test_study(name, tmp_path, monkeypatch):
    study, drawn, real = STUDIES[name], [], figures.figure_of
    monkeypatch.setattr(figures, "figure_of", lambda *of: drawn.append(real(*of)) or drawn[-1])
    (record,) = run_studies([study], tmp_path, quick=True)
    assert record.get("error") is None
    table = as_frame(read_table(tmp_path, record))
    missed = [check for check in record["checks"] if check["met"] is False]
    assert record["verdict"] == KNOWN.get(name, "holds"), (missed, record["reason"])
    assert record["premises"] and record["judged"] > 0
    assert record["verdict"] == "holds" or record["reason"], "what does not hold needs a reason"
    assert any(check["met"] is not None for check in record["checks"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        empty = judge(study, pandas.DataFrame(columns=table.columns))
        assert verdict_of(study, study, empty)[0] == "undecided"
        # A table without a number, its truths negated, meets not all that is asked.
        lost = table.assign(
            **{name: np.nan for name in table.select_dtypes("float")},
            **{name: ~table[name] for name in table.select_dtypes("bool")},
        )
        try:
            met = judge(study.at(quick=True), lost).met
        except (ValueError, IndexError, RuntimeError, TypeError, ZeroDivisionError):
            met = None
        assert not met, "it holds on a table without a number"

    (figure,) = drawn
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        named = [a.get_xlabel() or a.get_ylabel() or a.get_title() for a in figure.axes if a.axison]
        assert all(named)
        assert unnamed(figure) == [] and cut(figure) == []

    found = audit_folder(tmp_path, lambda record: study.at(quick=True), share=0.02, seed=1)
    assert all(row["agrees"] for row in found["studies"]), found


@pytest.mark.parametrize("name", STUDIES)
def test_study_is_described(name):
    study = STUDIES[name]
    check_study(study)
    assert study.statement.endswith(".") and study.checks is not None and study.figure is not None
    assert bool(study.size) == (study.kind == "figure"), "a figure says its size"


def test_only_these_statements_are_from_memory():
    recalled = {s.id for s in STUDIES.values() if s.source == "from memory" and s.paper in "ABC"}
    assert recalled == {"A.nonlinear-head-path", "C.joint-mirror-path", "C.mirror-rates"}
