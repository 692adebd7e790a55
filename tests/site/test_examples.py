"""The gallery's programs run, and what they print is what their words say."""

import re
import runpy

import matplotlib.pyplot as plt
import pytest

from tests.conventions.tree import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.fixture
def said(capsys):
    """A function from the name of an example to what it prints; it draws a picture too."""

    def run(name: str) -> str:
        plt.close("all")
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        assert plt.get_fignums(), f"{name} draws nothing"
        plt.close("all")
        return capsys.readouterr().out

    return run


def numbers(text: str, pattern: str) -> list[float]:
    """The numbers that a pattern catches."""
    return [float(found) for found in re.findall(pattern, text)]


def test_every_norm_has_its_own_direction(said):
    lines = said("one_selection_every_norm.py").splitlines()
    assert len({line.split("W ")[1] for line in lines}) == len(lines) == 5
    assert all(gap < 1e-8 for gap in numbers("\n".join(lines), r"gap (\S+),"))


def test_the_nuclear_norm_finds_lower_rank(said):
    whole, factored = numbers(said("low_rank.py"), r"rank (\d+)")
    assert factored < whole


def test_rules_reach_their_own_margins(said):
    text = said("optimizers_and_norms.py")
    shares = numbers(text, r"share (\S+)")
    assert len(shares) == 6 and all(0.4 < share <= 1 for share in shares)
    assert "frobenius  proved" in text and "spectral   conjectured" in text


def test_each_exponent_is_nearest_to_its_own_solution(said):
    table = numbers(said("mirror_descent.py"), r"(\d\.\d*)")
    rows = [table[k : k + 3] for k in (0, 3, 6)]
    assert [row.index(max(row)) for row in rows] == [0, 1, 2]


def test_a_sure_run_leaves_a_locally_optimal_selection(said):
    before, change, end = said("saturated_is_not_converged.py").splitlines()
    assert "locally optimal" in before and "0.999" in before
    assert "->" in change
    assert end.endswith("converges")


def test_a_run_stays_below_its_proof(said):
    run, bound = numbers(said("proof_beside_run.py"), r"(\d\.\de-\d+)(?:,|$)")[-2:]
    assert 0 < run < bound < 1e-3


def test_a_basin_lies_where_its_token_is_preferred(said):
    total, prefers, held = numbers(said("basin.py").splitlines()[1], r"(\d{4})")
    assert 0 < held < prefers < total


def test_the_ball_ends_at_the_solution(said):
    assert "correlation 1.000000" in said("growing_ball.py")


def test_both_stages_near_their_limits(said):
    text = said("two_stages.py")
    assert text.startswith("realizable: True")
    decoder, attention = numbers(text, r"is (\S+) after")
    assert decoder < 1e-6 and attention < 1e-2


def test_a_sweep_finds_everything_separable_at_the_bound(said):
    lines = said("sweep_of_separability.py").splitlines()
    assert lines[0] == "560 instances"
    rows = [line.split() for line in lines[2:]]
    assert [row[2] for row in rows] == ["1.00"] * 4
    assert all(float(row[3]) <= 1 for row in rows)


def test_heads_made_by_hand_are_called_what_they_are(said):
    lines = said("what_a_head_selects.py").splitlines()
    assert [line.split(":")[0] for line in lines] == ["sink", "positional", "content"]
    for line in lines:
        own, rotated, _ = numbers(line, r"(\d+)%")
        assert own > rotated
