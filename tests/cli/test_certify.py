"""`certify` accepts what `solve` wrote, and nothing that was changed since."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import GENERIC, NORMS, Run, refused, save
from tests.tolerances import FORGED

_DRAW = np.random.default_rng(0)
X = _DRAW.standard_normal((3, 4, 5))
Z = _DRAW.standard_normal((3, 4))
SETS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]], bool)
SOME = np.ones((3, 4))
SOME[1] = 0.0
ATTENTION = _DRAW.dirichlet(np.ones(4), size=3)

# The arrays of a problem file and the kind of problem; the last two cannot be met.
PROBLEMS = {
    "one token": ({"X": X, "z": Z, "alpha": [0, 1, 2]}, "selection"),
    "ties": ({"X": X, "z": Z, "select": SETS}, "selection"),
    "zero rows": ({"X": X, "z": Z, "alpha": [0, 1, 2], "b": SOME}, "selection"),
    "ties and zero rows": ({"X": X, "z": Z, "select": SETS, "b": SOME}, "selection"),
    "a mask": (
        {"X": X, "z": Z, "alpha": [0, 1, 2], "mask": SETS | np.eye(3, 4, dtype=bool)},
        "selection",
    ),
    "finite": ({"X": X, "z": Z, "select": SETS, "attention": ATTENTION}, "finite"),
    "labels": ({"X": X, "alpha": [0, 1, 2], "y": [1, -1, 1]}, "labels"),
    "relaxed": ({"X": X, "alpha": [0, 1, 2], "y": [1, -1, 1]}, "relaxed"),
    "any": ({"X": X, "z": Z, "select": SETS}, "any"),
    "a line": ({"X": [[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]], "alpha": [0]}, "selection"),
    "equal tokens": ({"X": [[[1.0, 0.0], [1.0, 0.0]]], "alpha": [0]}, "selection"),
}
INFEASIBLE = ("a line", "equal tokens")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", PROBLEMS)
def test_accepts_what_solve_wrote(run, tmp_path, case, norm):
    arrays, problem = PROBLEMS[case]
    code = 3 if case in INFEASIBLE else 0
    file = save(tmp_path / "tokens.npz", **arrays)
    solved = run("solve", file, "--norm", norm, "--problem", problem, "--out", "best.npz", "--json")
    assert solved.code == code, solved
    checked = run("certify", file, "best.npz", "--exact", "--json")
    assert checked.code == code, checked
    report = checked.report
    assert report["claims"] == "hold"
    assert report["exact"]["ok"] is True and report["exact"]["reason"] == ""
    assert (report["norm"], report["problem"]) == (norm, problem)
    assert report["status"] == solved.report["status"]
    if not code:
        assert report["lower"] == pytest.approx(solved.report["lower"], rel=1e-12, abs=1e-300)
        assert report["exact"]["lower"] >= report["lower"]
        assert report["exact"]["upper"] <= report["upper"]


@pytest.mark.parametrize("norm", NORMS)
def test_only_zero_rows(run, request, tmp_path, norm):
    """Right-hand sides that are all 0 are met by W = 0, with every row tight."""
    save(tmp_path / "tokens.npz", X=X, z=Z, alpha=[0, 1, 2], b=0 * SOME)
    report = run("solve", "tokens.npz", "--norm", norm, "--out", "best.npz", "--json").report
    assert report["status"] == "optimal" and report["upper"] == report["gap"] == 0
    checked = run("certify", "tokens.npz", "best.npz", "--exact", "--json")
    assert checked.code == 0 and checked.report["exact"]["ok"]


@pytest.mark.parametrize("words", [(), ("--json",), ("--exact",)])
def test_prints(run, tmp_path, words):
    solve(run, tmp_path)
    done = run("certify", "tokens.npz", "best.npz", *words)
    assert done.code == 0 and done.err == ""
    assert "hold" in done.out and "optimal" in done.out
    assert ("{" in done.out) == ("--json" in words)


def test_soft_margin(run, tmp_path):
    file = save(tmp_path / "line.npz", **PROBLEMS["a line"][0])
    assert run("solve", file, "--C", "2", "--out", "best.npz").code == 0
    report = run("certify", file, "best.npz", "--json").report
    assert report["C"] == 2.0 and report["claims"] == "hold"
    assert report["upper"] == pytest.approx(4.0)
    assert run("certify", file, "best.npz", "--exact").code == 0
    # Without its budget the same pair is held to the hard margins, which it cannot meet.
    change(tmp_path / "best.npz", C=None, upper=None, lower=None)
    assert run("certify", file, "best.npz", "--json").code in (3, 4)


def solve(run: Run, folder: Path, *words: str) -> dict[str, np.ndarray]:
    """The arrays of best.npz, just solved from tokens.npz."""
    file = save(folder / "tokens.npz", X=X, z=Z, select=SETS)
    assert run("solve", file, "--out", folder / "best.npz", *words).code == 0
    with np.load(folder / "best.npz") as archive:
        return {name: archive[name] for name in archive.files}


def change(path: Path, **changes) -> None:
    """Rewrite a solution file with these arrays changed, or left out where None is given."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    save(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("name", "forge", "word"),
    [
        ("lower", lambda a: a * (1 + FORGED), "claims lower"),
        ("upper", lambda a: a * (1 - FORGED), "claims upper"),
        ("lower", lambda a: a * np.nan, "claims lower nan"),
        ("upper", lambda a: a * np.nan, "claims upper nan"),
        ("lower", lambda a: a + np.inf, "claims lower inf"),
        ("W", lambda a: a * 0, "W has inf"),
        ("W", lambda a: -a, "W has inf"),
        ("W", lambda a: a * np.nan, "W has inf"),
        ("W", lambda a: np.where(a == a.max(), np.inf, a), "W has inf"),
        ("W", lambda a: a + 0.01 * np.eye(*a.shape), "claims upper"),
        ("multipliers", lambda a: a * 0, "claims lower"),
        ("multipliers", lambda a: -a, "claims lower"),
        ("multipliers", lambda a: a[::-1], "claims lower"),
        ("multipliers", lambda a: a * np.nan, "claims lower"),
        ("tie_multipliers", lambda a: a + 1.0, "claims lower"),
        ("status", lambda a: np.str_("infeasible"), "claims that no W exists"),
    ],
)
def test_forgeries_are_seen(run, tmp_path, norm, name, forge, word):
    arrays = solve(run, tmp_path, "--norm", norm)
    change(tmp_path / "best.npz", **{name: forge(arrays[name])})
    done = run("certify", "tokens.npz", "best.npz", "--json")
    assert done.code == 5, done
    assert word in done.report["claims"]
    assert done.err.startswith("attsvm: best.npz: it claims") and done.err.count("\n") == 1
    assert "it claims" in run("certify", "tokens.npz", "best.npz").out.replace("\n", " ")


def test_a_scaled_pair_is_the_same_pair(run, tmp_path):
    """Bounds do not change with the scale of W or of the multipliers: nothing is trusted there."""
    arrays = solve(run, tmp_path)
    scaled = {
        "W": 3 * arrays["W"],
        "multipliers": 5 * arrays["multipliers"],
        "tie_multipliers": 5 * arrays["tie_multipliers"],
    }
    change(tmp_path / "best.npz", **scaled)
    assert run("certify", "tokens.npz", "best.npz", "--json").report["claims"] == "hold"


def test_another_norm_is_not_proved(run, tmp_path):
    solve(run, tmp_path)
    assert run("certify", "tokens.npz", "best.npz", "--norm", "nuclear", "--json").code == 5
    change(tmp_path / "best.npz", norm=np.str_("l1"))
    assert run("certify", "tokens.npz", "best.npz", "--json").code == 5


def test_an_invented_proof_is_not_one(run, tmp_path):
    """Multipliers of a separable problem never combine its rows to zero."""
    arrays = solve(run, tmp_path)
    forged = {"status": np.str_("infeasible"), "W": np.full_like(arrays["W"], np.nan)}
    change(tmp_path / "best.npz", **forged, upper=np.inf, lower=1e15)
    done = run("certify", "tokens.npz", "best.npz", "--json")
    assert done.code == 5
    assert done.report["status"] == "stalled" and done.report["upper"] is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"W": None}, "no array W"),
        ({"multipliers": None}, "no array multipliers"),
        ({"W": np.zeros((5, 5))}, "W is (5, 5)"),
        ({"W": np.zeros(20)}, "W is (20,)"),
        ({"W": np.full((5, 4), "a")}, "W has type"),
        ({"W": np.zeros((5, 4), complex)}, "W has type complex128"),
        ({"multipliers": np.ones(3)}, "3 multipliers for 7 margins"),
        ({"multipliers": np.full(7, "a")}, "multipliers has type"),
        ({"tie_multipliers": np.ones(3)}, "3 tie_multipliers for 2 ties"),
        ({"tie_multipliers": np.full(2, "a")}, "tie_multipliers has type"),
        ({"rows": np.zeros((7, 3), int)}, "rows are not those of this problem"),
        ({"rows": np.zeros((2, 3), int)}, "rows are not those of this problem"),
        ({"ties": np.zeros((2, 3), int)}, "ties are not those of this problem"),
        ({"lower": "low"}, "lower has type"),
        ({"lower": np.ones(2)}, "lower has shape (2,)"),
        ({"upper": np.ones(2)}, "upper has shape (2,)"),
        ({"C": -1.0}, "C is -1.0"),
        ({"C": 0.0}, "C is 0.0"),
        ({"C": "much"}, "C has type"),
        ({"C": np.nan}, "C is nan"),
        ({"norm": np.str_("euclid")}, "unknown norm 'euclid'"),
        ({"norm": 2.0}, "unknown norm '2.0'"),
        ({"norm": np.array(["l1", "l2"])}, "norm has shape (2,)"),
        ({"problem": np.str_("dual")}, "unknown problem 'dual'"),
        ({"problem": np.str_("any")}, "winners"),
        ({"problem": np.str_("any"), "winners": np.array([0, 0, 9])}, "alpha[2] is 9"),
        ({"problem": np.str_("any"), "winners": np.array([0, 0, 3])}, "winner of input 2"),
    ],
)
def test_what_is_no_solution_is_refused(run, tmp_path, changes, word):
    solve(run, tmp_path)
    change(tmp_path / "best.npz", **changes)
    refused(run("certify", "tokens.npz", "best.npz"), word)
    refused(run("certify", "tokens.npz", "best.npz", "--json"), word)


def test_a_solution_of_another_selection_is_refused(run, tmp_path):
    solve(run, tmp_path)
    save(tmp_path / "tokens.npz", X=X, z=Z, select=SETS[::-1])
    refused(run("certify", "tokens.npz", "best.npz"), "not those of this problem")
    save(tmp_path / "tokens.npz", X=GENERIC, alpha=[0, 1])
    refused(run("certify", "tokens.npz", "best.npz"), "the problem needs (7, 1)")


def test_changed_tokens_are_seen(run, tmp_path):
    """The solution is honest, but of other tokens: its bounds no longer hold."""
    solve(run, tmp_path)
    save(tmp_path / "tokens.npz", X=1.01 * X, z=Z, select=SETS)
    assert "claims lower" in run("certify", "tokens.npz", "best.npz").err


@pytest.mark.parametrize("tol", ["0", "-1", "nan", "inf", "small"])
def test_bad_tolerance(run, tmp_path, tol):
    solve(run, tmp_path)
    refused(run("certify", "tokens.npz", "best.npz", "--tol", tol), "tol")
