"""The tour's picture, single pictures for users, and the examples that ship with the project."""

import logging
import re
import runpy
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.errors import BadTokens, Unsupported
from attsvm.plotting import style
from attsvm.plotting.style import write_figure
from attsvm.plotting.tour import NORMS, _picture, draw, run_tour
from tests.conventions.tree import ROOT
from tests.tolerances import GAP, GAP_SPECTRUM, ORACLE


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The rows of one tour and the folder it was drawn in."""
    out = tmp_path_factory.mktemp("tour") / "not" / "there"
    return run_tour(out), out


def planar(norm="frobenius"):
    arrays = EXAMPLES["path-picture-2"]()
    tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    keep = attsvm.Selection.best(tokens, arrays["v"])
    return tokens, keep, attsvm.solve(attsvm.Problem.of(tokens, keep), norm)


def described(path):
    """What an SVG file says of itself: the values it was drawn from."""
    root = ElementTree.parse(path).getroot()
    (text,) = [node.text for node in root.iter() if node.tag.endswith("}description")]
    return {name: float(value) for name, value in re.findall(r"(\w[\w.]*) (\d+\.\d+)", text)}


def test_tour_certifies_every_norm(made):
    rows, _ = made
    assert [row["norm"] for row in rows] == list(NORMS)
    for row in rows:
        goal = GAP_SPECTRUM if row["norm"] in ("nuclear", "spectral") else GAP
        assert row["exact"] is True
        assert row["lower"] <= row["upper"]
        assert 0 <= row["gap"] <= goal


def test_norms_are_in_the_order_that_holds_for_every_matrix(made):
    """max ≤ spectral ≤ Frobenius ≤ nuclear and max ≤ l3 ≤ l2 ≤ l1.5 ≤ l1, so for least norms."""
    least = {row["norm"]: row["upper"] for row in made[0]}
    for chain in (
        ("max", "spectral", "frobenius", "nuclear"),
        ("max", "l3", "frobenius", "l1.5", "l1"),
    ):
        values = [least[name] for name in chain]
        assert values == sorted(values)


def test_tour_writes_two_whole_pictures_and_nothing_else(made):
    rows, out = made
    assert sorted(path.name for path in out.iterdir()) == ["tour.png", "tour.svg"]
    pixels = imread(out / "tour.png")
    assert pixels.shape[1] == round(style.SIZE[0] * style.DPI)
    assert pixels.shape[0] == round(style.SIZE[1] * style.DPI)
    assert described(out / "tour.svg") == {r["norm"]: round(r["upper"], 6) for r in rows}


def test_tour_repeats_itself_and_replaces_its_files(made, tmp_path):
    _, out = made
    (tmp_path / "tour.svg").write_text("old")
    run_tour(tmp_path)
    for name in ("tour.svg", "tour.png"):
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()


def test_tour_ignores_the_users_style_and_logs_nothing(made, tmp_path, caplog):
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        with caplog.at_level(logging.WARNING):
            run_tour(tmp_path)
        assert matplotlib.rcParams["font.size"] == 30
    assert caplog.records == []
    assert (tmp_path / "tour.svg").read_bytes() == (made[1] / "tour.svg").read_bytes()


def test_tour_refuses_a_file_for_a_folder(tmp_path):
    place = tmp_path / "taken"
    place.write_text("mine")
    with pytest.raises(BadTokens, match="taken"):
        run_tour(place)
    assert place.read_text() == "mine"


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    save = Figure.savefig

    def full(self, path, **options):
        save(self, path, **options)
        if options["format"] == "png":
            raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="no space"):
        run_tour(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_text_stays_inside_and_apart():
    """No two texts of the picture overlap and none leaves it."""
    found = [planar(norm)[2] for norm in NORMS]
    rows = [{"norm": c.norm.name, "upper": c.upper, "gap": c.gap, "exact": True} for c in found]
    with style.styled():
        figure = _picture(found, rows)
        figure.draw_without_rendering()
        boxes = boxes_of_text(figure)
        whole = figure.bbox
    assert len(boxes) > 20
    for text, box in boxes:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 and box.y1 <= whole.y1, text
    clashes = [
        (first, second)
        for k, (first, a) in enumerate(boxes)
        for second, b in boxes[k + 1 :]
        if a.overlaps(b)
    ]
    assert clashes == []


def boxes_of_text(figure):
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    return [(t.get_text(), t.get_window_extent()) for t in texts]


def test_text_is_large_enough():
    assert style.TEXT >= 8
    assert style.HEADING >= style.TEXT


def test_picture_in_the_docs_is_current(made):
    shipped = described(ROOT / "docs" / "tour.svg")
    assert shipped == pytest.approx(described(made[1] / "tour.svg"), rel=ORACLE)
    assert imread(ROOT / "docs" / "tour.png").shape == imread(made[1] / "tour.png").shape


def test_every_norm_of_the_tour_has_its_own_colour():
    assert len({style.colour(name) for name in NORMS}) == len(NORMS)
    assert style.colour("l7") == style.INK


@pytest.mark.parametrize("which", [0, 1])
def test_drawn_edge_is_one_logit_below(which):
    """On the drawn edge (selected − x)ᵀ W z_i = 1, and the ringed tokens are the tight ones."""
    tokens, keep, best = planar()
    h = best.W @ tokens.queries[which]
    selected = tokens.X[which, keep.indices[which]]
    ax = draw(best, which=which)
    level, edge = [line.get_xydata() for line in ax.lines[:2]]
    assert (selected - level) @ h == pytest.approx([0, 0], abs=GAP)
    assert (selected - edge) @ h == pytest.approx([1, 1], rel=GAP)
    (rings,) = [line.get_xydata() for line in ax.lines if line.get_markersize() == style.RING]
    tight = best.problem.rows[best.tight.rows]
    expected = [tokens.X[which, t] for i, _, t in tight if i == which]
    assert np.array_equal(rings, expected)
    (low, high), (down, up) = ax.get_xlim(), ax.get_ylim()
    assert ((tokens.X[which] > (low, down)) & (tokens.X[which] < (high, up))).all()


def test_draw_uses_the_given_axes():
    ax = Figure().add_subplot()
    assert draw(planar()[2], ax) is ax


def test_draw_refuses_what_is_not_planar():
    tokens = attsvm.Tokens(np.eye(3)[None])
    best = attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0])))
    with pytest.raises(Unsupported, match="d = 3"):
        draw(best)


def test_draw_refuses_an_input_that_is_not_there():
    with pytest.raises(Unsupported, match="input 7"):
        draw(planar()[2], which=7)


def run(name, capsys):
    """The lines an example prints."""
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_every_example_is_run():
    here = (ROOT / "tests").rglob("test_*.py")
    tested = "".join(path.read_text("utf-8") for path in here)
    for path in (ROOT / "examples").glob("*.py"):
        assert f'"{path.name}"' in tested or path.name == "outside.py"  # in tests/contracts


def test_example_of_a_trained_direction(capsys):
    """Training's own multipliers enclose the least norm, ten times tighter with ten times steps."""
    lines = run("certify_your_own_direction.py", capsys)[1:]
    bounds = [[float(x) for x in re.search(r"\[(.*)\]", line)[1].split(",")] for line in lines]
    least = planar()[2].upper
    assert all(low <= least * (1 + 1e-6) and least <= high * (1 + 1e-6) for low, high in bounds)
    gaps = [float(line.split()[-1]) for line in lines]
    assert gaps[-2] < 0.2 * gaps[-3] < 0.04 * gaps[-4]
    assert gaps[-1] < GAP


def test_example_of_many_problems(capsys):
    table = [[float(x) for x in line.split()] for line in run("many_problems.py", capsys)[1:]]
    selectable = [row[1] for row in table]
    assert selectable == sorted(selectable)
    assert selectable[0] < 250 and selectable[-1] == 500
    for _, solved, impossible, still_open, _, gap in table:
        assert solved + impossible == 500 and still_open == 0
        assert gap < GAP


def test_example_of_local_optima(capsys):
    head, _, *lines = run("local_optima.py", capsys)
    total, feasible, optimal = (int(word) for word in re.findall(r"\d+", head))
    assert total == 5**5 and optimal < feasible < total
    assert len(lines) == optimal
    kinds = [re.search(r"\] +(\w+)", line)[1] for line in lines]
    assert kinds.count("global") == 1 and kinds.count("local") == optimal - 1
    assert all(float(line.split()[-1]) > 0 for line in lines)


def test_the_language_example_agrees_with_its_model(capsys):
    lines = run("next_token.py", capsys)
    assert lines[0].endswith("realizable: True")
    assert "dog cat ant: theory says eel (gap 2.00), the model says eel" in lines
    assert lines[-1] == "1 of 4 are ties; 2 of 2 wide gaps agree"


def test_nothing_lies_beside_a_figure_while_it_is_drawn(tmp_path):
    class Slow(Figure):
        def savefig(self, *given, **options):
            assert not list(tmp_path.iterdir())  # a run killed here leaves nothing
            super().savefig(*given, **options)

    write_figure(Slow(), tmp_path / "run.png")
    assert [path.name for path in tmp_path.iterdir()] == ["run.png"]
