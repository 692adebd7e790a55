"""Single pictures for users, and the examples that ship with the project."""

import re
import runpy

import numpy as np
import pytest
from matplotlib.figure import Figure

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.errors import Unsupported
from attsvm.plotting import draw, style
from attsvm.plotting.style import write_figure
from tests.conventions.tree import ROOT
from tests.tolerances import GAP


def planar(norm="frobenius"):
    arrays = EXAMPLES["path-picture-2"]()
    tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    keep = attsvm.Selection.best(tokens, arrays["v"])
    return tokens, keep, attsvm.solve(attsvm.Problem.of(tokens, keep), norm)


def test_text_is_large_enough():
    assert style.TEXT >= 8
    assert style.HEADING >= style.TEXT


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
