"""Pictures for a narrow screen: one panel below another, nothing cut, numbers in plain text."""

from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from attsvm.figures.narrow import WIDTH, stack
from attsvm.figures.run import place_parts
from attsvm.figures.style import styled
from attsvm.figures.ticks import plain_power, plain_ticks
from tests.claims.pictures import covered, cut, unnamed


@pytest.fixture
def figure():
    """Three panels that share an axis, with a legend at the right of the last and a long title."""
    with styled():
        made = Figure(figsize=(12, 4), layout="constrained")
        axes = made.subplots(1, 3, sharey=True)
        for k, ax in enumerate(axes):
            ax.loglog([1, 10, 1e4], [1e-9, 1e-3, 10.0**k], label=f"line {k} of a legend")
            ax.set(title=f"Panel {k} with a title that is far too long for a phone", xlabel="step")
        axes[0].set_ylabel("the name that all share")
        axes[2].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        handles = axes[0].get_legend_handles_labels()[0] * 3
        words = ["first of the figure", "second of the figure", "third of the figure"]
        made.legend(handles, words, loc="outside upper center", ncols=3)
        plain_ticks(made)
        place_parts(made)
        yield made


def test_panels_stand_one_below_another(figure):
    stack(figure)
    assert figure.get_figwidth() == WIDTH
    places = [ax.get_position() for ax in figure.axes]
    assert [p.y0 for p in places] == sorted((p.y0 for p in places), reverse=True)
    assert len({(p.x0, p.x1) for p in places}) == 1
    assert all(above.y0 > below.y1 for above, below in pairwise(places))
    assert [ax.get_ylabel() for ax in figure.axes] == ["the name that all share"] * 3
    assert all(t.label1.get_visible() for ax in figure.axes for t in ax.yaxis.get_major_ticks())
    assert all("\n" in ax.get_title("left") for ax in figure.axes)


def test_nothing_is_cut_or_covered(figure):
    stack(figure)
    assert cut(figure) == [] and covered(figure) == []
    legend = figure.axes[2].get_legend().get_window_extent()
    assert legend.y1 < figure.axes[2].xaxis.label.get_window_extent().y0 + 1
    (whole,) = figure.legends
    assert [entry.get_text()[:5] for entry in whole.get_texts()] == ["first", "secon", "third"]
    assert whole.get_window_extent().y1 < legend.y0


def test_what_is_cut_is_seen(figure):
    """The rules that the pictures of claims are held to can be broken."""
    stack(figure)
    figure.axes[1].set_position(figure.axes[0].get_position())
    assert covered(figure)
    figure.axes[0].set_title(
        "as wide as it was before it was broken into several lines", loc="left"
    )
    assert cut(figure)


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


def test_a_figure_without_panels_stays():
    figure = Figure(figsize=(5, 2))
    stack(figure)
    assert tuple(figure.get_size_inches()) == (5, 2)


def test_numbers_of_logarithmic_axes_are_plain_text(figure):
    figure.draw_without_rendering()
    words = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert {"10⁻⁶", "10⁰"} <= set(words) and not any("$" in word for word in words)
    assert figure.axes[0].yaxis.get_minor_ticks() == []


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
