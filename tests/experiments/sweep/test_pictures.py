"""Pictures of sweeps, and the shares and intervals that they show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attsvm.errors import AttsvmError, BadTokens
from attsvm.experiments.binomial import interval
from attsvm.experiments.sweep import SHIPPED, load_table, read_spec, run_sweep, shipped_spec
from attsvm.experiments.sweep.formula import value_of
from attsvm.experiments.sweep.pictures import PUBLISHED, draw_sweep, write_figure
from attsvm.experiments.sweep.summary import cells_of, median_interval
from attsvm.plotting.style import styled


@pytest.fixture
def swept(spec_file, tmp_path):
    spec = read_spec(spec_file)
    run_sweep(spec, tmp_path / "out", engine="here")
    return spec, tmp_path / "out"


def test_cells_are_those_of_the_table(swept):
    spec, folder = swept
    columns = load_table(folder).columns
    cells = cells_of(folder, spec, "large")
    assert len(cells) == 6
    for cell in cells:
        here = (columns["n"] == cell.point["n"]) & (columns["scale"] == cell.point["scale"])
        count = int(columns["large"][here].sum())
        assert (cell.middle, cell.count) == (count / 10, 10)
        assert (cell.low, cell.high) == interval(count, 10)
    for cell in cells_of(folder, spec, "size"):
        here = (columns["n"] == cell.point["n"]) & (columns["scale"] == cell.point["scale"])
        assert cell.middle == np.median(columns["size"][here])
        assert cell.low <= cell.middle <= cell.high


def test_the_interval_of_a_median_holds_it_often_enough():
    draw = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        low, high = median_interval(np.sort(draw.exponential(size=25)))
        held += low <= np.log(2) <= high
    assert 940 <= held <= 985  # at least 95 %, by the order statistics of 25: 95.7 %


@pytest.mark.parametrize("kind", ["phase", "curves"])
def test_pictures_are_drawn(swept, tmp_path, kind):
    spec, folder = swept
    about = {"kind": kind, "x": "n", "value": "large"}
    about |= {"y": "scale", "line": "n / 1"} if kind == "phase" else {"panels": "scale"}
    for name in ("a.svg", "b.svg", "c.png"):
        write_figure(folder, replace(spec, figure=about), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with styled():
        figure = draw_sweep(folder, replace(spec, figure=about))
    assert figure.axes[0].get_xlabel() == "n"
    if kind == "curves":
        assert [a.get_title(loc="left") for a in figure.axes] == ["scale = 1.0", "scale = 2.5"]
        (line,) = figure.axes[0].get_lines()
        wanted = [c.middle for c in cells_of(folder, spec, "large") if c.point["scale"] == 1.0]
        assert line.get_ydata().tolist() == wanted


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({}, r"has no table \[figure\]"),
        ({"kind": "pie", "x": "n", "value": "large"}, "unknown kind of figure 'pie'"),
        ({"x": "n"}, "needs value"),
        ({"kind": "phase", "x": "n", "value": "large"}, "needs y"),
        ({"x": "m", "value": "large"}, "unknown x of the figure 'm'"),
        ({"x": "n", "value": "larg"}, "unknown column 'larg': nearest is large"),
        ({"x": "n", "value": "word"}, "word holds texts"),
        ({"kind": "phase", "x": "n", "y": "scale", "value": "large", "line": "q"}, "has q"),
    ],
)
def test_bad_figures_are_one_sentence(swept, about, said):
    spec, folder = swept
    with pytest.raises(BadTokens, match=said):
        draw_sweep(folder, replace(spec, figure=about))


def test_bad_files_of_figures(swept, tmp_path):
    spec, folder = swept
    for name in ("a.gif", "none/a.svg"):
        with pytest.raises(AttsvmError):
            write_figure(folder, spec, tmp_path / name)


def test_formulas_are_arithmetic_alone():
    assert value_of("-max(2, ceil(sqrt(n))) ** 2 + 1 / 2 * 3", {"n": 5}) == -7.5
    for bad in ("__import__('os')", "n.real", "[1]", "n if n else 1", "1 +", "log(0)", "'a'"):
        with pytest.raises(BadTokens):
            value_of(bad, {"n": 5})


def test_published_values_are_those_of_the_figure():
    point = {"model": "factored", "size": "20x5", "d": 15}
    assert PUBLISHED["figure 6"](point) == 0.574
    assert np.isnan(PUBLISHED["figure 6"]({**point, "d": 16}))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_figures_name_what_their_measures_give(name, tmp_path):
    """The quick form at its first point: every column of the picture is there."""
    spec = shipped_spec(name, quick=True)
    small = replace(spec, seeds=2, group=2, grid={k: v[:1] for k, v in spec.grid.items()})
    found = run_sweep(small, tmp_path / "out", engine="here")
    assert found.failures == ()
    write_figure(tmp_path / "out", small, tmp_path / "f.svg")
