"""The checks that the figures of studies pass."""

from matplotlib.figure import Figure

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
