"""Specs: what they sweep and refuse, what may be added to them, and those of docs/sweeps.md."""

from __future__ import annotations

import re
import tomllib

import pytest

from attsvm.errors import AttsvmError, BadTokens
from attsvm.experiments.executors import ENGINES
from attsvm.experiments.sweep import (
    SHIPPED,
    load_table,
    read_spec,
    run_sweep,
    shipped_spec,
    spec_of,
)
from attsvm.experiments.sweep.families import FAMILIES
from attsvm.experiments.sweep.group import RUN
from attsvm.experiments.sweep.measures import MEASURES
from tests.conventions.tree import ROOT

PLAIN = {"family": "gaussian", "measure": "separable", "seeds": 6, "grid": {"d": [2, 3]}}


def made(**change):
    return spec_of({**PLAIN, **change}, "s")


def test_points_are_the_product_in_order():
    spec = made(grid={"T": [3, 4], "d": {"from": 1, "to": 5, "step": 2}}, fixed={"n": 2})
    seen = [(p["T"], p["d"], p["n"]) for p in spec.points()]
    assert seen == [(T, d, 2) for T in (3, 4) for d in (1, 3, 5)]
    assert spec.count == 6 and spec.instances == 36 and spec.swept == ["T", "d"]


def test_a_random_design_can_be_added_to():
    ranges = {"d": {"low": 2, "high": 9, "whole": True}, "n": {"low": 1, "high": 4, "whole": True}}
    few = made(grid={}, random={"points": 3, "seed": 5, **ranges})
    more = made(grid={}, random={"points": 50, "seed": 5, **ranges})
    points = list(more.points())
    assert list(few.points()) == points[:3]
    assert {p["d"] for p in points} == set(range(2, 10))
    assert few.lost_in(more) == "" and more.lost_in(few)


def test_ranges_reach_over_their_span():
    lr = {"low": 1e-3, "high": 10.0, "log": True}
    spec = made(measure="ends", family="sphere", grid={}, random={"points": 200, "lr": lr})
    found = sorted(p["lr"] for p in spec.points())
    assert 1e-3 <= found[0] < 2e-3 and 5.0 < found[-1] <= 10.0
    assert 0.03 < found[100] < 0.3


def test_blocks_of_seeds_stay_when_seeds_are_added():
    spec = made(seeds=10, group=4)
    assert spec.blocks() == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    later = made(seeds=7, first=6, group=4)
    assert later.blocks() == [(6, 7), (8, 9, 10, 11), (12,)]
    names = {t.name for t in spec.tasks()}
    assert len(names) == 6
    assert len(names & {t.name for t in made(seeds=30, group=4).tasks()}) == 4


def test_a_name_tells_all_that_determines_a_result(tmp_path):
    spec = made()
    first = next(spec.tasks()).name
    changed = {
        "family": {"family": "sphere"}, "measure": {"measure": ["separable", "ends"]},
        "point": {"grid": {"d": [4]}}, "seeds": {"first": 1}, "fixed": {"fixed": {"n": 4}},
    }  # fmt: skip
    names = [next(made(**change).tasks()).name for change in changed.values()]
    assert len({first, *names}) == 6
    assert next(made(title="x", seeds=500, group=6).tasks()).name == first


def test_other_code_and_other_versions_make_other_names(tmp_path, monkeypatch):
    from attsvm.experiments.sweep import task

    before = next(made().tasks()).name
    monkeypatch.setitem(task.VERSIONS, "numpy", "0.1")
    assert next(made().tasks()).name != before
    monkeypatch.undo()
    monkeypatch.setattr(task, "code_digest", lambda module: "other")
    assert next(made().tasks()).name != before


def test_a_file_of_ones_own_is_named_without_its_folder(tmp_path):
    text = "def f(seeds, n=1): ...\ndef m(group): ...\n"
    names = []
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "own.py").write_text(text)
        spec = spec_of(
            {"family": "own.py:f", "measure": "own.py:m", "seeds": 2}, "s", folder=tmp_path / place
        )
        names.append(next(spec.tasks()).name)
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sedes": 3}, "unknown key 'sedes': nearest is seeds"),
        ({"family": "gausian"}, "unknown family 'gausian': nearest is gaussian"),
        ({"measure": "seperable"}, "unknown measure 'seperable': nearest is separable"),
        ({"measure": []}, "measure one or several"),
        ({"grid": {"dd": [1]}}, "unknown parameter 'dd'"),
        ({"fixed": {"stepps": 1}}, "nearest is steps"),
        ({"grid": {"d": []}}, "grid.d is empty: a grid without values has no points"),
        ({"grid": {"d": {"from": 3, "to": 2}}}, "grid.d is empty"),
        ({"grid": {"d": {"from": 3}}}, "a range has from, to and step"),
        ({"grid": {"d": 3}}, "one value belongs into [fixed]"),
        ({"grid": {"d": [2, 2]}}, "has a value twice"),
        ({"grid": {"d": [[2]]}}, "one number, text or truth value"),
        ({"grid": [1]}, "grid is a table"),
        ({"fixed": {"d": 4}}, "d is in [fixed] and in [grid]"),
        ({"fixed": {"lr": float("nan")}}, "must be finite"),
        ({"seeds": 0}, "seeds is 0: it is a whole number from 1 on"),
        ({"seeds": True}, "seeds is True"),
        ({"seeds": 2.5}, "seeds is 2.5"),
        ({"first": -1}, "first is -1"),
        ({"group": 0}, "group is 0"),
        ({"random": {"d": {"low": 1, "high": 2}}}, "random.points is None"),
        ({"grid": {}, "random": {"points": 3}}, "[random] draws nothing"),
        ({"grid": {}, "random": {"points": 3, "d": 4}}, "is a range"),
        ({"grid": {}, "random": {"points": 3, "d": {"low": 4, "high": 4}}}, "below high"),
        ({"random": {"points": 3, "lr": {"low": 0, "high": 4, "log": True}}}, "begins above 0"),
        ({"random": {"points": 3, "n": {"low": 0.5, "high": 4, "whole": True}}}, "has whole ends"),
        ({"figure": {"knd": "phase"}}, "unknown key 'knd': nearest is kind"),
        ({"seeds": 2**30, "grid": {"d": [2, 3]}}, "at most 1000000000 are swept"),
    ],
)  # fmt: skip
def test_bad_specs_are_one_sentence(change, said):
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
        read_spec(file)
    with pytest.raises(BadTokens, match="does not exist"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(BadTokens, match=r"has no table \[quick\]"):
        spec_of(PLAIN, "s", quick=True)


def test_what_is_lost_is_said():
    spec = made(fixed={"n": 3})
    assert spec.lost_in(made(fixed={"n": 3}, seeds=8, grid={"d": [1, 2, 3]}, title="x")) == ""
    assert spec.lost_in(made(grid={"d": [2, 3], "n": [3, 4]})) == ""
    said = {
        "family is gaussian there and sphere here": {"family": "sphere"},
        "n is 3 there and 4 here": {"fixed": {"n": 4}},
        "n is 3 there and not said here": {"fixed": {}},
        "d = 2 is there and not here": {"grid": {"d": [3]}},
        "it has the seeds 0 to 5, and this one 1 to 6": {"first": 1},
        "group is 100 there and 2 here": {"group": 2},
    }
    for words, change in said.items():
        assert spec.lost_in(made(**{"fixed": {"n": 3}, **change})) == words


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_specs_are_whole(name):
    from attsvm.experiments.studies import CLAIMS

    spec, quick = shipped_spec(name), shipped_spec(name, quick=True)
    assert spec.title and spec.figure and spec.claim in CLAIMS
    assert quick.instances < spec.instances
    assert len(spec.blocks()[-1]) == spec.group, "whole groups can be added to for nothing"


PAGE = (ROOT / "docs" / "sweeps.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_its_specs_are_read():
    whole, random = map(tomllib.loads, blocks("toml"))
    spec = spec_of(whole, "page")
    assert spec.count == 10 and spec.instances == 10_000
    assert spec_of(whole, "page", quick=True).instances == 200
    fixed = {name: value for name, value in whole["fixed"].items() if name != "lr"}
    drawn = spec_of({**whole, "fixed": fixed, "grid": {}, **random}, "page")
    assert drawn.count == 200


def test_its_own_family_and_measure_run(tmp_path):
    own, _ = blocks("python")
    (tmp_path / "own.py").write_text(own)
    text = 'family = "own.py:pairs"\nmeasure = "own.py:angle"\nseeds = 4\n[grid]\nd = [2, 3]\n'
    (tmp_path / "mine.toml").write_text(text)
    run_sweep(read_spec(tmp_path / "mine.toml"), tmp_path / "out", engine="here")
    assert load_table(tmp_path / "out").columns["least"].shape == (8,)


def test_it_lists_what_there_is():
    listed = set(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, re.M))
    assert listed == {*FAMILIES, *MEASURES, *ENGINES, *SHIPPED}
    for name in SHIPPED:
        assert re.search(rf"^\| `{name}` \|.*`{shipped_spec(name).claim}` \|$", PAGE, re.M)
    said = re.search(r"those of a run: (.*?)\.", PAGE, re.S)[1]
    assert set(re.split(r",\s+", said)) == set(RUN)
