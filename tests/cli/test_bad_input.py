"""Arrays and options that cannot be used: one sentence that names them, and exit code 2."""

import numpy as np
import pytest

from tests.cli.command import GENERIC, refused, save

X = GENERIC
ALPHA = np.array([0, 2])


def changed(array, place, value):
    """A copy of the array with one entry changed."""
    out = np.array(array, dtype=float)
    out[place] = value
    return out


# Arrays of a file, and words that the sentence must hold.
BAD = {
    "X has two axes": ({"X": X[0]}, "X has shape (3, 7)"),
    "X has no axis": ({"X": 1.0}, "X has shape ()"),
    "X is empty": ({"X": np.zeros((2, 0, 7))}, "an axis is empty"),
    "X is text": ({"X": "tokens"}, "X has type"),
    "X is complex": ({"X": X + 1j}, "X has type complex128"),
    "X has times": ({"X": np.full((2, 3, 7), np.datetime64("2020-01-01"))}, "X has type datetime"),
    "X has records": ({"X": np.zeros((2, 3, 7), dtype=[("a", float)])}, "X has type"),
    "NaN in X": ({"X": changed(X, (1, 2, 3), np.nan)}, "X[1, 2, 3] is nan"),
    "float32 infinity": (
        {"X": changed(X, (0, 1, 6), np.inf).astype(np.float32)},
        "X[0, 1, 6] is inf",
    ),
    "too large": ({"X": changed(X, (0, 0, 0), 1e80)}, "X[0, 0, 0] is 1e+80"),
    "no X": ({"alpha": ALPHA}, "no array X"),
    "keys of another shape": ({"X": X, "keys": X[:, :2]}, "keys has shape (2, 2, 7)"),
    "keys without features": ({"X": X, "keys": X[:, :, :0]}, "keys has shape (2, 3, 0)"),
    "one query too few": ({"X": X, "z": np.ones((1, 4))}, "z has shape (1, 4)"),
    "queries without features": ({"X": X, "z": np.ones((2, 0))}, "z has shape (2, 0)"),
    "queries with one axis": ({"X": X, "z": np.ones(2)}, "z has shape (2,)"),
    "NaN in queries": ({"X": X, "z": changed(np.ones((2, 3)), (1, 2), np.nan)}, "z[1, 2] is nan"),
    "queries of words": ({"X": X, "z": "middle"}, "z has type"),
    "labels other than ±1": ({"X": X, "y": [1.0, 0.5]}, "y[1] is 0.5", "-1 or +1"),
    "labels 0 and 1": ({"X": X, "y": [0, 1]}, "y[0] is 0"),
    "a label too many": ({"X": X, "y": [1, 1, -1]}, "y has shape (3,)"),
    "mask of another shape": ({"X": X, "mask": np.ones((2, 4), bool)}, "mask has shape (2, 4)"),
    "mask of twos": ({"X": X, "mask": np.full((2, 3), 2)}, "mask must hold only True and False"),
    "mask of words": ({"X": X, "mask": np.full((2, 3), "yes")}, "mask must hold only"),
    "masked to nothing": ({"X": X, "mask": [[1, 1, 1], [0, 0, 0]]}, "no token in input 1"),
    "misspelt": ({"X": X, "alhpa": ALPHA}, "unknown array 'alhpa'", "alpha"),
}

# As above, but with the file's own selection.
BAD_SELECTION = {
    "none": ({}, "no alpha, no select and no v"),
    "both": ({"alpha": ALPHA, "select": np.eye(3)[:2] == 1}, "both alpha and select"),
    "an index too large": ({"alpha": [0, 3]}, "alpha[1] is 3", "0 to 2"),
    "half a token": ({"alpha": [0, 0.5]}, "alpha must hold whole numbers, not 0.5"),
    "words": ({"alpha": ["a", "b"]}, "alpha must hold whole numbers"),
    "booleans": ({"alpha": np.ones((2, 3), bool)}, "alpha holds booleans"),
    "an empty row": ({"select": [[True, False, False], [False] * 3]}, "input 1 keeps no token"),
    "another shape": ({"select": np.ones((3, 2), bool)}, "select has shape (3, 2)"),
    "twos": ({"select": np.full((2, 3), 2)}, "select must hold only True and False"),
    "select of words": ({"select": np.full((2, 3), "yes")}, "select must hold only"),
    "everything": ({"select": np.ones((2, 3), bool)}, "nothing is left to separate"),
    "masked out": ({"alpha": [0, 0], "mask": [[1, 1, 0], [0, 1, 1]]}, "token 0 of input 1"),
    "one token each": (
        {"alpha": [0, 1], "mask": [[1, 0, 0], [0, 1, 0]]},
        "nothing is left to separate",
    ),
    "v of another width": ({"v": np.ones(6)}, "v has shape (6,)"),
    "NaN in v": ({"v": changed(np.ones(7), 4, np.nan)}, "v[4] is nan"),
    "no score differs": ({"v": np.zeros(7)}, "share the highest score"),
    "b below zero": ({"alpha": ALPHA, "b": changed(np.ones((2, 3)), (1, 0), -1)}, "b[1, 0] is -1"),
}


@pytest.mark.parametrize("case", BAD)
def test_tokens_are_refused(run, tmp_path, case):
    arrays, *words = BAD[case]
    file = save(tmp_path / "tokens.npz", **{"alpha": ALPHA, **arrays})
    refused(run("solve", file, "--out", "best.npz"), *words)
    refused(run("solve", file, "--json"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.npz"]


@pytest.mark.parametrize("case", BAD_SELECTION)
def test_selections_are_refused(run, tmp_path, case):
    arrays, *words = BAD_SELECTION[case]
    file = save(tmp_path / "tokens.npz", X=X, **arrays)
    refused(run("solve", file, "--out", "best.npz"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.npz"]


@pytest.mark.parametrize(
    ("attention", "word"),
    [
        (None, "attention"),
        (np.ones((3, 2)), "attention has shape (3, 2)"),
        ([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], "attention[1, 0] is 0"),
        ([[0.5, 0.5, 0.0], [np.nan, 0.5, 0.5]], "attention[1, 0] is nan"),
        ([[0.5, 0.5, 0.0], [-0.1, 0.5, 0.5]], "attention[1, 0] is -0.1"),
        (np.full((2, 3), "all"), "attention has type"),
    ],
)
def test_finite_part_is_refused(run, tmp_path, attention, word):
    arrays = {"X": X, "select": [[True, True, False], [True, False, False]]}
    if attention is not None:
        arrays["attention"] = attention
    file = save(tmp_path / "tokens.npz", **arrays)
    refused(run("solve", file, "--problem", "finite"), word)


def test_finite_part_needs_a_pair(run, tmp_path):
    file = save(tmp_path / "tokens.npz", X=X, alpha=ALPHA, attention=np.ones((2, 3)))
    refused(run("solve", file, "--problem", "finite"), "no equality")


@pytest.mark.parametrize("problem", ["labels", "relaxed"])
def test_decoder_needs_labels(run, tmp_path, problem):
    file = save(tmp_path / "tokens.npz", X=X, alpha=ALPHA)
    refused(run("solve", file, "--problem", problem), "labels are missing")


def test_optima_needs_scores(run, tmp_path):
    refused(run("optima", save(tmp_path / "tokens.npz", X=X, alpha=ALPHA)), "no array v")
    refused(run("optima", save(tmp_path / "same.npz", X=X, v=np.zeros(7))), "share the highest")
    refused(run("optima", save(tmp_path / "narrow.npz", X=X, v=np.ones(3))), "v has shape (3,)")
    lone = save(tmp_path / "lone.npz", X=X[:, :1], v=np.ones(7))
    refused(run("optima", lone), "nothing is left to separate")


@pytest.mark.parametrize(
    "arrays",
    [
        {"alpha": ALPHA.astype(float)},
        {"alpha": ALPHA.astype(np.uint8)},
        {"select": np.eye(3, dtype=int)[ALPHA]},
        {"select": np.eye(3)[ALPHA]},
        {"select": np.eye(3, dtype=bool)[ALPHA], "mask": np.ones((2, 3), int)},
        {"alpha": ALPHA, "b": np.ones(2, int)},
        {"alpha": ALPHA, "keys": np.asfortranarray(X)},
        {"alpha": ALPHA, "z": np.ones((2, 1), bool)},
        {"alpha": ALPHA, "X": X.astype(">f8")},
    ],
)
def test_the_same_problem_in_other_types(run, tmp_path, arrays):
    plain = run("solve", save(tmp_path / "plain.npz", X=X, alpha=ALPHA), "--json").report
    other = run("solve", save(tmp_path / "other.npz", **{"X": X, **arrays}), "--json").report
    assert other["upper"] == pytest.approx(plain["upper"], rel=1e-12)
    assert other["rows"] == plain["rows"]


@pytest.fixture
def good(tmp_path):
    """A file that can be solved in every way but `finite`."""
    arrays = {"X": GENERIC, "v": np.arange(7.0), "y": [1, -1]}
    return save(tmp_path / "good.npz", **arrays)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--norm euclid", ("'euclid'", "frobenius, nuclear, spectral, max, l1", "l1.75")),
        ("--norm l0.5", ("P > 1",)),
        ("--norm linf", ("unknown norm", "max")),
        ("--problem dual", ("'dual'", "selection, labels, relaxed, finite")),
        ("--solver simplex", ("'simplex'", "active-set", "newton")),
        ("--solver interior", ("does not take norm frobenius",)),
        ("--solver newton --norm l1", ("does not take norm l1", "interior")),
        ("--solver active-set --C 1", ("takes no budget C",)),
        ("--C 0", ("C is 0.0",)),
        ("--C -1", ("C is -1.0",)),
        ("--C nan", ("C is nan",)),
        ("--C inf", ("C is inf",)),
        ("--tol 0", ("tol is 0.0",)),
        ("--tol small", ("--tol",)),
        ("--tol", ("--tol",)),
        ("--nrom l1", ("--nrom",)),
        ("more.npz", ("more.npz",)),
    ],
)
def test_solve_refuses(run, tmp_path, good, words, said):
    refused(run("solve", good, "--out", "best.npz", *words.split()), *said)
    refused(run("solve", good, "--json", *words.split()), *said)
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--norm euclid", ("'euclid'", "frobenius")),
        ("--norm l0.5", ("P > 1",)),
        ("--most 8", ("9 selections", "3 x 3", "more than 8")),
        ("--most 0", ("--most",)),
        ("--rows -1", ("--rows",)),
        ("--rows many", ("--rows",)),
    ],
)
def test_optima_refuses(run, good, words, said):
    refused(run("optima", good, *words.split()), *said)
    refused(run("optima", good, "--json", *words.split()), *said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nosuch --out x.npz", ("'nosuch'", "single-input-global", "sphere")),
        ("sphere", ("--out",)),
        ("sphere --seed -1 --out x.npz", ("--seed",)),
        ("sphere --seed one --out x.npz", ("--seed",)),
        ("joint-tight --seed 1 --out x.npz", ("takes no --seed",)),
        ("", ("NAME",)),
    ],
)
def test_example_refuses(run, tmp_path, words, said):
    refused(run("example", *words.split()), *said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [("train", "x.npz", "--rule", "gd"), ("reproduce", "--instances", "5"), ("bench",)],
    ids=lambda words: words[-2] if len(words) > 1 else words[0],
)
def test_options_and_commands_of_old_name_the_new_ones(run, words):
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("attsvm: the ") and done.err.count("\n") == 1
    assert any(new in done.err for new in ("--optimizer", "--seeds", "python -m benchmarks"))
