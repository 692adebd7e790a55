"""docs/sweeps.md: its specs are read, its own family runs, and it lists what there is."""

from __future__ import annotations

import re
import tomllib

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
