"""Sweeps in TOML: what they sweep and refuse, the shipped ones, and those of docs/sweeps.md."""

import re
import tomllib

import pytest

from attsvm.errors import AttsvmError, BadTokens
from attsvm.experiments.executors import ENGINES
from attsvm.experiments.families import FAMILIES
from attsvm.experiments.measures import MEASURES
from attsvm.experiments.runner import run_studies
from attsvm.experiments.spec import SHIPPED, read_sweep, shipped_sweep, sweep_of
from attsvm.experiments.study import RUN, check_study
from tests.conventions.tree import ROOT

PLAIN = {"family": "gaussian", "measure": "separable", "seeds": 6, "grid": {"d": [2, 3]}}


def made(**change):
    return sweep_of({**PLAIN, **change}, "s")


def test_points_are_the_product_in_order():
    sweep = made(grid={"T": [3, 4], "d": {"from": 1, "to": 5, "step": 2}}, run={"n": 2})
    seen = [(p["T"], p["d"], p["n"]) for p in sweep.points()]
    assert seen == [(T, d, 2) for T in (3, 4) for d in (1, 3, 5)]
    assert sweep.instances == 36 and sweep.swept == ["T", "d"]


def test_a_study_may_be_named():
    sweep = made_of("B.rank", seeds=7, grid={"d": [3]}, quick={"seeds": 2})
    assert sweep.swept == ["n", "T", "d"] and sweep.instances == 35 and sweep.checks is None
    assert sweep.at(quick=True).instances == 10
    with pytest.raises(BadTokens, match="has study and family"):
        made_of("B.rank", family="sphere")
    with pytest.raises(AttsvmError, match=r"unknown study 'B\.rnk': nearest are B\.rank"):
        made_of("B.rnk")
    with pytest.raises(AttsvmError, match="unknown parameter 'm'"):
        made_of("B.rank", grid={"m": [1]})


def made_of(study, **change):
    return sweep_of({"study": study, **change}, "s")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sedes": 3}, "unknown key 'sedes': nearest is seeds"),
        ({"measure": []}, "measure one or several"),
        ({"run": {"stepps": 1}}, "nearest is steps"),
        ({"grid": {"d": []}}, "grid.d is empty: a grid without values has no points"),
        ({"grid": {"d": {"from": 3, "to": 2}}}, "grid.d is empty"),
        ({"grid": {"d": {"from": 3}}}, "a range has from, to and step"),
        ({"grid": {"d": 3}}, "one value belongs into [run]"),
        ({"grid": {"d": [2, 2]}}, "has a value twice"),
        ({"grid": {"d": [[2]]}}, "one number, text or truth value"),
        ({"grid": [1]}, "grid is a table"),
        ({"run": {"lr": float("nan")}}, "must be finite"),
        ({"seeds": True}, "seeds is True"),
        ({"random": {"points": 3}}, "unknown key 'random'"),
        ({"figure": {"knd": "map"}}, "unknown key 'knd': nearest is kind"),
        ({"quick": {"grid": {"e": [1]}}}, "unknown parameter 'e'"),
        ({"seeds": 2**30, "grid": {"d": [2, 3]}}, "at most 1000000000 are run"),
    ],
)  # fmt: skip
def test_bad_sweeps_are_one_sentence(change, said):
    with pytest.raises(AttsvmError) as error:
        made(**change)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("seeds = ", "is no TOML file"), ("seeds = 3", "has no family"), ("\xff", "has no|no TOML")],
)
def test_bad_files_are_one_sentence(tmp_path, text, said):
    file = tmp_path / "a.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadTokens, match=said):
        read_sweep(file)
    with pytest.raises(BadTokens, match="does not exist"):
        read_sweep(tmp_path / "none.toml")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sweeps_are_whole(name):
    sweep = shipped_sweep(name)
    check_study(sweep)
    assert sweep.title and sweep.figure
    assert sweep.at(quick=True).instances < sweep.instances
    assert len(sweep.blocks()[-1]) == sweep.group, "whole groups can be added to for nothing"


PAGE = (ROOT / "docs" / "sweeps.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_sweeps_of_the_page_are_read():
    (text,) = blocks("toml")
    sweep = sweep_of(tomllib.loads(text), "page")
    assert sweep.instances == 10_000 and sweep.at(quick=True).instances == 200


def test_the_family_and_measure_of_the_page_run(tmp_path):
    own, *_ = blocks("python")
    (tmp_path / "own.py").write_text(own)
    text = 'family = "own.py:pairs"\nmeasure = "own.py:angle"\nseeds = 4\n[grid]\nd = [2, 3]\n'
    (tmp_path / "mine.toml").write_text(text)
    (record,) = run_studies([read_sweep(tmp_path / "mine.toml")], tmp_path / "out")
    assert record["rows"] == 8 and "least" in record["columns"]


def test_the_page_lists_what_there_is():
    listed = set(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, re.M))
    assert listed == {*FAMILIES, *MEASURES, *ENGINES, *SHIPPED}
    said = re.search(r"those of a run: (.*?)\.", PAGE, re.S)[1]
    assert set(re.split(r",\s+", said)) == set(RUN)
