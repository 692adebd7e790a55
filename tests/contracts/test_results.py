"""Every public result: a screen of text, escaped HTML, a table where it is one, a picture."""

import html
import inspect
import os
import subprocess
import sys
from dataclasses import is_dataclass

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import attsvm
from attsvm import next_token
from attsvm._utils.result import LINES, WIDTH, Result, Table
from attsvm.errors import Unsupported
from attsvm.plotting.results import PICTURES
from attsvm.plotting.style import Picture
from tests.contracts.results import MADE, SCRIPT, best, ended, path
from tests.html_page import Page

# What a user gives, and what a solver or a text is made of: no results.
GIVEN = {"Tokens", "Problem", "Stack", "Sentences", "Order", "Norm", "Solver", "Optimizer", "Model",
         "Head", "Loss"}  # fmt: skip
CASES = [(name, k) for name, makers in MADE.items() for k in range(len(makers))]


def made(name: str, k: int = 0):
    return MADE[name][k]()


def public() -> dict[str, type]:
    names = {name: getattr(attsvm, name) for name in attsvm.__all__}
    names |= {name: getattr(next_token, name) for name in next_token.__all__}
    return {name: thing for name, thing in names.items() if inspect.isclass(thing)}


def test_every_public_result_is_tried():
    missing = {
        name for name, thing in public().items()
        if not issubclass(thing, BaseException) and name not in GIVEN | set(MADE)
    }  # fmt: skip
    assert not missing, f"add an instance of {sorted(missing)} to tests/contracts/results.py"
    for name, thing in public().items():
        if name in MADE:
            assert issubclass(thing, Result), f"{name} is no Result"
            assert is_dataclass(thing) and thing.__repr__ is not object.__repr__


@pytest.mark.parametrize(("name", "k"), CASES)
def test_text_fits_a_screen(name, k):
    thing = made(name, k)
    assert type(thing).__name__ == name
    lines = repr(thing).split("\n")
    assert lines[0].startswith(f"{name}(")
    assert len(lines) <= LINES == 24
    assert max(map(len, lines)) <= WIDTH == 100
    assert all(c.isprintable() for line in lines for c in line)
    assert "array(" not in repr(thing) and " object at 0x" not in repr(thing)


@pytest.mark.parametrize(("name", "k"), CASES)
def test_html_is_whole_small_and_escaped(name, k):
    text = made(name, k)._repr_html_()
    page = Page(text)
    assert {tag for tag, _ in page.elements} == {"pre"}
    assert len(text) < 20_000


def test_words_of_the_data_reach_html_escaped():
    page = made("Limit", 1)._repr_html_()
    assert SCRIPT not in page and "<script" not in page
    assert html.unescape(page) == f"<pre>{made('Limit', 1)!r}</pre>"


TABLES = sorted(name for name in MADE if isinstance(made(name), Table))


@pytest.mark.parametrize("name", TABLES)
def test_tables_become_frames(name):
    import pandas

    for maker in MADE[name]:
        thing = maker()
        frame, columns = thing.to_frame(), thing.columns()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == list(columns)
        assert {len(column) for column in columns.values()} == {len(frame)}


# Result -> kind of picture.
DRAWN = {
    "Basin": "basin", "Certificate": "certificate", "Comparison": "comparison",
    "ConvergenceProof": "proof", "Optima": "optima", "Optimality": "optimality",
    "Outcome": "outcome", "Path": "path", "RegPath": "regpath", "SentenceOutcome": "sentences",
}  # fmt: skip


def test_every_picture_has_its_result():
    assert sorted(DRAWN.values()) == sorted(PICTURES)
    for name in MADE:
        own = name not in ("SentenceProof", "LayerOutcome")  # which draw as their relatives do
        assert (name in DRAWN) == ("plot" in dir(type(made(name)))) or not own


@pytest.mark.parametrize("look", ["screen", "paper"])
@pytest.mark.parametrize("name", sorted(DRAWN))
def test_pictures_are_drawn_in_the_style_of_the_house(name, look):
    before = dict(matplotlib.rcParams)
    figure = made(name).plot(style=look)
    assert dict(matplotlib.rcParams) == before
    assert isinstance(figure, Picture) and figure.axes
    shown = figure._repr_png_()
    assert shown.startswith(b"\x89PNG")
    if look == "paper":
        assert figure.get_figwidth() == 3.25
        assert figure.get_figheight() <= 9.0, "a page"
        words = [*figure.findobj(matplotlib.text.Text)]
        small = {w.get_fontsize() for w in words if w.get_text().strip() and w.get_visible()}
        assert min(small) >= 6.5


@pytest.mark.parametrize("name", ["Certificate", "Outcome", "Optimality", "Optima", "RegPath",
                                  "ConvergenceProof", "Basin"])  # fmt: skip
def test_a_picture_goes_into_axes_of_ones_own(name):
    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert made(name).plot(ax=right) is mine
    assert right.has_data() and not left.has_data()
    with pytest.raises(Unsupported, match="give matplotlib Axes"):
        made(name).plot(ax=3)


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(Unsupported, match="no margins to draw"):
        made("Certificate", 2).plot()
    with pytest.raises(Unsupported, match="no proof to draw"):
        made("ConvergenceProof", 1).plot()
    with pytest.raises(Unsupported, match="no solution to draw the run beside"):
        made("Outcome", 1).plot()
    with pytest.raises(Unsupported, match="unknown style 'wide': known are screen, paper"):
        best().plot(style="wide")
    with pytest.raises(attsvm.BadTokens, match="there is one instance, 0"):
        path().plot(instance=1)


def test_a_path_with_its_outcome_is_the_picture_of_a_run():
    assert [ax.get_title("left") for ax in path().plot(ended()).axes][2] == (
        "Way to the frobenius limit"
    )
    with pytest.raises(attsvm.BadTokens, match="give the Outcome"):
        path().plot(best())


PROBE = """
import sys
import attsvm
tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
repr(best), best._repr_html_()
assert "matplotlib" not in sys.modules and "pandas" not in sys.modules
assert type(best.plot()).__name__ == "Picture" and "matplotlib.pyplot" not in sys.modules
"""


def test_pictures_need_no_display_and_nothing_is_loaded_before():
    env = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    words = [sys.executable, "-c", PROBE]
    done = subprocess.run(words, capture_output=True, text=True, env=env | {"MPLBACKEND": "tkagg"})
    assert done.returncode == 0, done.stderr


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    certificate = best()
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("attsvm.plotting")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Unsupported, match="needs matplotlib, which is not installed: pip install"):
        certificate.plot()


def test_a_row_of_a_path_is_a_record():
    """Norms and attention again, record by record, by sums of squares."""
    run = path()
    table = run.columns()
    for r in (0, 7, -1):
        W = run.weights["W"][r, 0]
        assert table["norm_W"][r] == pytest.approx(sum(float(w) ** 2 for w in W.ravel()) ** 0.5)
        assert table["step"][r] == run.steps[r]
        assert table["least_attention"][r] == min(run.top_attention[r, 0])


def test_rows_of_an_outcome_are_its_margins():
    """(x_kept − x_other)·W z over ‖W‖, from the tokens themselves."""
    from tests.contracts.results import small

    tokens, _ = small()
    found = ended()
    table, W = found.columns(), found.W
    size = np.sqrt((W**2).sum())
    for k in range(len(table["input"])):
        i, a, t = (int(table[name][k]) for name in ("input", "kept", "dropped"))
        margin = float((tokens.keys[i, a] - tokens.keys[i, t]) @ W @ tokens.queries[i])
        own = margin / size * found.certificate.lower
        assert table["share"][k] == pytest.approx(own, rel=1e-9)
    assert min(table["share"]) == pytest.approx(found.margin_share, rel=1e-9)
    assert min(table["best"]) == pytest.approx(1.0, rel=1e-6)
