"""Numbers of logarithmic axes in plain text, and the checks that the pictures of claims pass."""

import pytest
from matplotlib.figure import Figure

from attsvm.plotting.style import plain_power, plain_ticks
from tests.experiments.studies.pictures import cut, unnamed


def test_what_is_cut_is_seen():
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    assert cut(figure) == []
    ax.set_title("wider than the figure " * 9, loc="left")
    assert len(cut(figure)) == 1


def test_a_line_without_a_name_is_seen():
    ax = Figure().subplots()
    ax.plot([0, 1], color="#0072b2", label="first")
    ax.legend()
    assert unnamed(ax.figure) == [], "one look is named by the title"
    ax.plot([1, 2], "--", color="#0072b2")
    assert unnamed(ax.figure) == [": [('#0072b2', '--')]"]
    ax.set_xlabel("step (dashed: without decay)")
    assert unnamed(ax.figure) == []
    ax.plot([1, 2], color="#d55e00")
    assert unnamed(ax.figure) == [": [('#d55e00', '-')]"]
    ax.text(0, 0, "second", color="#d55e00")
    assert unnamed(ax.figure) == []


def test_numbers_of_logarithmic_axes_are_plain_text():
    figure = Figure()
    ax = figure.subplots()
    ax.loglog([1, 10, 1e4], [1e-9, 1e-3, 1.0])
    plain_ticks(figure)
    figure.draw_without_rendering()
    words = [t.get_text() for t in ax.get_yticklabels()]
    assert {"10⁻⁶", "10⁰"} <= set(words) and not any("$" in word for word in words)
    assert ax.yaxis.get_minor_ticks() == []


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        (r"$\mathdefault{10^{-12}}$", "10⁻¹²"),
        (r"$\mathdefault{-10^{0}}$", "−10⁰"),
        (r"$\mathdefault{2\times10^{3}}$", "2·10³"),
        (r"$\mathdefault{0}$", "0"),
        ("0.5", "0.5"),
        ("", ""),
    ],
)
def test_powers(marked, plain):
    assert plain_power(marked) == plain
