"""`certify` accepts what `solve` wrote, a solution or a certificate, and nothing changed since."""

from pathlib import Path

import numpy as np
import pytest

from attsvm import Certificate
from tests.cli.command import GENERIC, NORMS, Run, refused, save
from tests.tolerances import FORGED, ROUNDING

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
    "a line": ({"X": [[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]], "alpha": [0]}, "selection"),
    "equal tokens": ({"X": [[[1.0, 0.0], [1.0, 0.0]]], "alpha": [0]}, "selection"),
}
INFEASIBLE = ("a line", "equal tokens")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", PROBLEMS)
def test_accepts_what_solve_wrote(run, tmp_path, case, norm):
    """A solution against its problem file, and a saved certificate alone."""
    arrays, problem = PROBLEMS[case]
    code = 3 if case in INFEASIBLE else 0
    file = save(tmp_path / "tokens.npz", **arrays)
    words = ("--norm", norm, "--problem", problem, "--json")
    solved = run("solve", file, *words, "--out", "best.npz", "--certificate", "proof.npz")
    assert solved.code == code, solved
    for given in ((file, "best.npz"), ("proof.npz",)):
        checked = run("certify", *given, "--exact", "--json")
        assert checked.code == code, checked
        report = checked.report
        assert report["claims"] == "hold"
        assert report["exact"]["ok"] is True and report["exact"]["reason"] == ""
        assert report.get("problem", problem) == problem
        for name in ("status", "norm", "rows", "proof"):
            assert report[name] == solved.report[name], name
        if not code:
            lower = pytest.approx(solved.report["lower"], rel=ROUNDING, abs=1e-300)
            assert report["lower"] == lower
            assert report["exact"]["lower"] >= report["lower"]
            assert report["exact"]["upper"] <= report["upper"]
        file.unlink(missing_ok=True)  # the certificate holds all that is needed


@pytest.mark.parametrize("norm", NORMS)
def test_only_zero_rows(run, tmp_path, norm):
    """Right-hand sides that are all 0 are met by W = 0, with every row tight."""
    save(tmp_path / "tokens.npz", X=X, z=Z, alpha=[0, 1, 2], b=0 * SOME)
    report = run("solve", "tokens.npz", "--norm", norm, "--out", "best.npz", "--json").report
    assert report["status"] == "optimal" and report["upper"] == report["gap"] == 0
    checked = run("certify", "tokens.npz", "best.npz", "--exact", "--json")
    assert checked.code == 0 and checked.report["exact"]["ok"]


@pytest.mark.parametrize("words", [(), ("--json",), ("--exact",)])
@pytest.mark.parametrize("given", [("tokens.npz", "best.npz"), ("proof.npz",)])
def test_prints(run, tmp_path, given, words):
    solve(run, tmp_path, "--certificate", "proof.npz")
    done = run("certify", *given, *words)
    assert done.code == 0 and done.err == ""
    assert "hold" in done.out and "optimal" in done.out
    assert ("{" in done.out) == ("--json" in words)
    assert ("ran in rational arithmetic: holds" in done.out) == ("--exact" in words)


def test_soft_margin(run, tmp_path):
    file = save(tmp_path / "line.npz", **PROBLEMS["a line"][0])
    words = ("--C", "2", "--out", "best.npz", "--certificate", "proof.npz")
    assert run("solve", file, *words).code == 0
    for given in ((file, "best.npz"), ("proof.npz",)):
        report = run("certify", *given, "--json").report
        assert report["C"] == 2.0 and report["claims"] == "hold"
        assert report["upper"] == pytest.approx(4.0)
        assert run("certify", *given, "--exact").code == 0
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


def test_both_files_are_written(run, tmp_path):
    file = save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    assert run("solve", file, "--out", "best.npz", "--certificate", "proof.npz").code == 0
    assert run("certify", file, "best.npz").code == 0
    assert run("certify", "proof.npz").code == 0
    assert Certificate.load(tmp_path / "proof.npz").verify(exact=True)
    refused(run("solve", file, "--certificate", "proof.npz"), "proof.npz exists", "--force")
    assert run("solve", file, "--certificate", "proof.npz", "--force").code == 0
    same = ("--out", "a.npz", "--certificate", "a.npz")
    refused(run("solve", file, *same), "--out and --certificate both name a.npz")
    refused(run("solve", file, "--certificate", "no/a.npz"), "the folder no does not exist")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best.npz", "proof.npz", "tokens.npz",
    ]  # fmt: skip


@pytest.mark.parametrize("exact", [(), ("--exact",)])
@pytest.mark.parametrize("name", ["keys", "norm"])
def test_forged_certificates_are_seen(run, tmp_path, name, exact):
    """Other forgeries: tests/certificate/test_saved.py."""
    save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    run("solve", "tokens.npz", "--certificate", "proof.npz")
    with np.load(tmp_path / "proof.npz") as archive:
        forged = {"keys": 1.01 * archive["keys"], "norm": np.str_("l1")}[name]
    change(tmp_path / "proof.npz", **{name: forged})
    done = run("certify", "proof.npz", "--json", *exact)
    assert done.code == 5, done
    assert done.report["claims"] != "hold"
    assert done.err.startswith("attsvm: proof.npz: ") and done.err.count("\n") == 1


def test_what_is_no_certificate_is_refused(run, tmp_path):
    file = save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    run("solve", file, "--out", "best.npz", "--certificate", "proof.npz")
    refused(run("certify", file), "not a saved certificate", "attsvm_certificate")
    refused(run("certify", "best.npz"), "not a saved certificate")
    refused(run("certify", file, "proof.npz"), "proof.npz is a saved certificate")
    for option in (("--norm", "l1"), ("--problem", "labels"), ("--tol", "1e-3")):
        refused(run("certify", "proof.npz", *option), f"{option[0]} goes with a solution")
    change(tmp_path / "proof.npz", attsvm_certificate=np.int64(7))
    refused(run("certify", "proof.npz"), "certificate format 7; this version reads 1")
    change(tmp_path / "proof.npz", attsvm_certificate=np.int64(1), queries=None)
    refused(run("certify", "proof.npz", "--json"), "no array queries")
