"""The picture of a run: what it says, and that no text is cut off or lies on a line."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attsvm import Tokens, train
from attsvm.datasets import EXAMPLES
from attsvm.errors import ConvergenceWarning, Unsupported
from attsvm.plotting import style
from attsvm.plotting.style import check_format
from attsvm.plotting.training import path_picture
from attsvm.theory.convergence.prover import proved_since
from attsvm.theory.outcome import DECIDED, outcome


def tokens_of(arrays):
    return Tokens(arrays["X"], queries=arrays.get("z"), labels=arrays["y"], keys=arrays.get("keys"))


def trained(name, head=True, **options):
    """The path of a run on a papers' instance, its outcome, and the picture of both, drawn."""
    arrays = EXAMPLES[name]()
    tokens, v = tokens_of(arrays), arrays["v"] if head else None
    path = train(tokens, head=v, **options)
    found = outcome(path, tokens, v)
    proved = None
    if found.state == "converges":
        proved = proved_since(path, tokens, v)
    figure = path_picture(path, found=found, proved=proved)
    with style.styled():
        FigureCanvasAgg(figure).draw()
    return path, found, figure


@pytest.fixture(scope="module")
def runs():
    """Runs of every look: short, long, without limit, trained with its head, diverging."""
    made = {
        "settled": trained("single-input-global", model="prompt", steps=2000),
        "long": trained("sphere", steps=20000),
        "undecided": trained("sphere", steps=20),
        "start": trained("sphere", steps=0),
        "held": trained("sphere", loss="squared", steps=3000),
        "no norm": trained("sphere", model="factored", optimizer="sign", steps=200, lr=0.01),
        "mirror": trained("sphere", optimizer="mirror:3", steps=500),
    }
    with pytest.warns(ConvergenceWarning, match="left the range of floats"):
        made["diverged"] = trained("sphere", optimizer="polyak", loss="linear", steps=200)
    return made


RUNS = ("settled", "long", "held", "undecided", "start", "no norm", "mirror", "diverged")


@pytest.mark.parametrize("name", RUNS)
def test_no_text_is_cut_off(runs, name):
    _, _, figure = runs[name]
    renderer = figure.canvas.get_renderer()
    width, height = figure.canvas.get_width_height()
    title = figure._suptitle.get_window_extent(renderer)
    panels = [ax.get_tightbbox(renderer) for ax in figure.axes]
    for box in (title, *panels):
        assert box.x0 >= -1 and box.x1 <= width + 1
        assert box.y0 >= -1 and box.y1 <= height + 1
    # Panels, each with its labels, stand apart: the twin of the first is its right side.
    first, middle, last, twin = panels
    assert max(first.x1, twin.x1) < middle.x0 and middle.x1 < last.x0
    assert all(panel.y1 <= title.y0 + 1 for panel in panels)
    for ax in figure.axes:
        for text in ax.texts:
            box = text.get_window_extent(renderer)
            assert ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1, text.get_text()


@pytest.mark.parametrize("name", [name for name in RUNS if name != "no norm"])
def test_the_legend_covers_no_line(runs, name):
    _, _, figure = runs[name]
    ax = figure.axes[2]
    legend = ax.get_legend().get_window_extent(figure.canvas.get_renderer())
    assert ax.bbox.y0 <= legend.y0 and legend.x1 <= ax.bbox.x1
    for line in ax.get_lines():
        points = ax.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()]))
        points = points[np.isfinite(points).all(axis=1)]
        assert not len(points) or points[:, 1].min() >= legend.y1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("settled", "prompt, ngd: converges, proved from step "),
        ("held", "weight, ngd: at a locally optimal selection from step "),
        ("undecided", "weight, ngd: undecided at step 20"),
        ("start", "weight, ngd: undecided at step 0"),
        ("no norm", "factored, sign: decided from step "),
        ("diverged", "; diverged at step "),
    ],
)
def test_the_headline_names_the_state(runs, name, said):
    path, _, figure = runs[name]
    words = figure.get_suptitle()
    assert said in words
    if path.diverged >= 0:
        assert words.endswith(f"diverged at step {path.diverged}")


def test_a_proof_is_marked_and_its_bound_lies_above_what_is_measured(runs):
    path, found, figure = runs["long"]
    assert found.state == "converges" and found.proof.theorem == "tube"
    since = int(figure.get_suptitle().split("step ")[1].split()[0].replace(",", ""))
    assert path.changed.max() <= since < path.steps[-1]
    for ax in figure.axes[:3]:
        assert since in [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata())]
    lines = {line.get_label(): line for line in figure.axes[2].get_lines()}
    bound = lines["the same, proved bound"]
    measured = dict(zip(*lines["1 − correlation"].get_data(), strict=True))
    assert bound.get_xdata()[0] == since
    for step, value in zip(*bound.get_data(), strict=True):
        assert measured[step] <= value


def test_the_state_begins_where_every_input_is_decided(runs):
    path, found, figure = runs["held"]
    assert found.state == "at a locally optimal selection"
    since = int(figure.get_suptitle().split("step ")[1].split()[0].replace(",", ""))
    at = path.steps.tolist().index(since)
    assert (path.top_attention[at:, 0] >= DECIDED).all() and (path.top[at:] == path.top[-1]).all()
    assert not (path.top_attention[at - 1, 0] >= DECIDED).all()


def test_endings():
    check_format(Path("run.png"))
    with pytest.raises(Unsupported, match=r"\.svg, \.png, \.pdf"):
        check_format(Path("run.gif"))
