"""A saved certificate comes back as it was, and what is no certificate gets one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attsvm import BadTokens, Certificate, Problem, Selection, Unsupported
from attsvm.norms.entrywise import FrobeniusNorm
from attsvm.problem.tokens import Tokens
from tests.certificate.saved_cases import CASES, INFEASIBLE, NORMS, solved
from tests.tolerances import FORGED_SLIGHTLY

EVERY = [
    "attsvm_certificate", "norm", "keys", "queries", "hi", "lo", "query", "b", "tie_hi", "tie_lo",
    "tie_query", "c", "c_error", "width", "W", "multipliers", "tie_multipliers", "lower", "upper",
    "tolerance", "budget", "residual", "status", "proof", "farkas", "reach", "moved",
]  # fmt: skip


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def rewritten(path: Path, **changes: Any) -> Path:
    """The path, whose file now has these arrays changed, or left out where None is given."""
    arrays = arrays_of(path) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved certificate with margins and ties."""
    path = tmp_path / "certificate.npz"
    solved("ties", "frobenius").save(path)
    return path


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", [*CASES, "stalled"])
def test_comes_back(tmp_path, case, norm):
    first = solved(case, norm)
    if case == "stalled":
        assert first.status == "stalled" and first.upper == np.inf
    first.save(tmp_path / "a.npz")
    back = Certificate.load(tmp_path / "a.npz")
    for name in ("lower", "upper", "status", "tolerance", "residual", "proof", "budget", "norm"):
        assert getattr(back, name) == getattr(first, name), name
    for name in ("multipliers", "tie_multipliers"):
        assert np.array_equal(getattr(back, name), getattr(first, name)), name
    assert (back.W is None) == (first.W is None) == (case in (*INFEASIBLE, "stalled"))
    if first.W is not None:
        assert np.array_equal(back.W, first.W)
    old, new = first.problem, back.problem
    for name in ("b", "c", "queries", "rows", "tie_rows"):
        assert np.array_equal(getattr(new, name), getattr(old, name)), name
    assert np.array_equal(new.differences(), old.differences())
    assert np.array_equal(new.tie_differences(), old.tie_differences())
    assert back.verify() and back.message == first.message
    if not np.isfinite(first.budget):
        assert back.verify(exact=True), back.verify(exact=True).reason
    back.save(tmp_path / "b.npz")
    again = arrays_of(tmp_path / "b.npz")
    assert all(np.array_equal(again[k], a) for k, a in arrays_of(tmp_path / "a.npz").items())


def test_the_file_has_these_arrays(file):
    arrays = arrays_of(file)
    assert sorted(arrays) == sorted(EVERY)
    assert arrays["attsvm_certificate"] == 1 and arrays["W"].shape == (5, 4)
    assert all(array.dtype != object for array in arrays.values())
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_is_not_replaced_by_chance(file):
    with pytest.raises(BadTokens, match="exists"):
        solved("ties", "l1").save(file)
    solved("ties", "l1").save(file, force=True)
    assert Certificate.load(file).norm.name == "l1"


def test_unused_keys_are_left_out_or_zero(tmp_path):
    """Padding is written as zeros; too much of it is left out, and the names of rows with it."""
    X = np.arange(1.0, 61.0).reshape(2, 15, 2) ** 1.5
    mask = np.zeros((2, 15), bool)
    mask[:, [3, 7]] = True
    wide = Tokens(X, mask=mask)
    problem = Problem.of(wide, Selection.of(wide, [3, 7]))
    for width, count in ((15, 23), (0, 4)):
        part = problem if width else replaced(problem, 40)
        certificate = Certificate(
            part, FrobeniusNorm(), None, np.zeros(2), np.zeros(0), 0.0, np.inf, "stalled", 1e-8, 0.0
        )
        certificate.save(tmp_path / "a.npz", force=True)
        back = Certificate.load(tmp_path / "a.npz").problem
        assert back.width == width and len(back.keys) == count
        assert np.array_equal(back.differences(), part.differences())
        if width:
            assert np.array_equal(back.rows, problem.rows)
            assert not back.keys[[0, 1, 2, 4]].any()


def replaced(problem: Problem, times: int) -> Problem:
    """The problem with so many times the pool of keys, of which the last part is used."""
    shift = (times - 1) * len(problem.keys)
    return Problem(
        np.concatenate([problem.keys] * times), problem.queries, problem.hi + shift,
        problem.lo + shift, problem.query, problem.b, problem.tie_hi, problem.tie_lo,
        problem.tie_query, problem.c, problem.width,
    )  # fmt: skip


def test_a_norm_of_ones_own_is_refused(tmp_path):
    first = solved("weights", "frobenius")
    own = Certificate(
        first.problem, FrobeniusNorm(tolerance=1e-3), first.W, first.multipliers,
        first.tie_multipliers, first.lower, first.upper, "optimal", 1e-3, 0.0,
    )  # fmt: skip
    with pytest.raises(Unsupported, match="not the library's"):
        own.save(tmp_path / "own.npz")
    assert not any(tmp_path.iterdir())


def test_long_integers_come_back(tmp_path):
    first = solved("a line", "frobenius")
    values = (0, -7, 10**4000 - 1, 10**4000, -(10**4000), 3**9000, -(7**20000))
    for value in values:
        farkas = np.full(len(first.farkas), value, dtype=object)
        replace(first, farkas=farkas).save(tmp_path / "long.npz", force=True)
        assert Certificate.load(tmp_path / "long.npz").farkas.tolist() == farkas.tolist()


@pytest.mark.parametrize("name", EVERY)
def test_a_missing_array_is_named(file, name):
    with pytest.raises(BadTokens, match=rf"has no array {name}\b"):
        Certificate.load(rewritten(file, **{name: None}))


def nan_at_first(array: Any) -> Any:
    out = np.array(array, float)
    out.flat[0] = np.nan
    return out


@pytest.mark.parametrize(
    ("name", "forge", "sentence"),
    [
        ("attsvm_certificate", lambda a: np.int64(2), "certificate format 2; this version reads 1"),
        ("attsvm_certificate", lambda a: np.str_("one"), "certificate format 'one'"),
        ("attsvm_certificate", lambda a: np.ones(2, int), r"certificate format \[1, 1\]"),
        ("keys", nan_at_first, "keys holds nan"),
        ("keys", lambda a: a * 1e200, "keys.* below 1e"),
        ("keys", lambda a: a.astype(np.float32), "keys has type float32"),
        ("keys", lambda a: a[0], r"keys has shape \(5,\); it must have 2 axes"),
        ("queries", lambda a: a + np.inf, "queries holds inf"),
        ("W", nan_at_first, "W holds nan"),
        ("W", lambda a: a.T, r"W is \(4, 5\), the problem needs \(5, 4\)"),
        ("W", lambda a: a.astype(complex), "W has type complex128"),
        ("multipliers", lambda a: a[1:], "multipliers has 6 entries for 7 rows"),
        ("multipliers", nan_at_first, "multipliers holds nan"),
        ("tie_multipliers", lambda a: a[1:], "tie_multipliers has 1 entries for 2 rows"),
        ("c", lambda a: a[1:], "c has 1 entries for 2 rows"),
        ("c_error", lambda a: a - 1, "c_error has a negative entry"),
        ("b", lambda a: -a, "b has a negative entry"),
        ("hi", lambda a: a * 1.0, "hi has type float64; it must hold integers"),
        ("hi", lambda a: a + 99, "hi holds .*; indices run from 0 to 11"),
        ("lo", lambda a: a - 99, "lo holds .*; indices run from -1 to 11"),
        ("query", lambda a: a + 3, "query holds .*; indices run from 0 to 2"),
        ("tie_hi", lambda a: a - 99, "tie_hi holds"),
        ("width", lambda a: -a, "width is -4"),
        ("lower", lambda a: a * np.nan, "lower holds nan"),
        ("upper", lambda a: -np.inf * a, "upper holds -inf"),
        ("tolerance", lambda a: 0 * a, "tolerance is 0.0; it must be positive"),
        ("tolerance", lambda a: a + np.inf, "tolerance holds inf"),
        ("budget", lambda a: np.float64(-1), "budget is -1.0; it must be positive"),
        ("norm", lambda a: np.str_("euclid"), "unknown norm 'euclid'"),
        ("norm", lambda a: np.float64(2), "norm has type float64"),
        ("status", lambda a: np.str_("solved"), "unknown status 'solved'"),
        ("status", lambda a: np.str_("infeasible"), "proof is '' with status infeasible"),
        ("proof", lambda a: np.str_("exact"), "proof is 'exact' with status optimal"),
        ("farkas", lambda a: np.array(["1"]), "farkas has 1 entries for 9 rows"),
        ("farkas", lambda a: np.array(["1x"] * 9), "farkas has an entry that is not an integer"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(file, name, forge, sentence):
    with pytest.raises(BadTokens, match=sentence) as caught:
        Certificate.load(rewritten(file, **{name: forge(arrays_of(file)[name])}))
    assert str(caught.value).startswith(str(file)) and "\n" not in str(caught.value)


def test_what_is_no_archive_is_refused(file):
    whole = file.read_bytes()
    for content, word in ((b"text", "not an .npz"), (whole[: len(whole) // 2], "npz")):
        file.write_bytes(content)
        with pytest.raises(BadTokens, match=word):
            Certificate.load(file)
    np.savez(file, keys=np.array([{}], object))
    with pytest.raises(BadTokens, match="pickled"):
        Certificate.load(file)
    with pytest.raises(BadTokens, match="does not exist"):
        Certificate.load(file.with_name("other.npz"))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("lower", lambda a: a * (1 + FORGED_SLIGHTLY)),
        ("upper", lambda a: a * (1 - FORGED_SLIGHTLY)),
        ("W", lambda a: -a),
        ("multipliers", lambda a: a[::-1]),
        ("b", lambda a: a * 1.01),
        ("keys", lambda a: a * 1.01),
    ],
)
def test_loading_believes_and_verifying_does_not(file, name, forge, exact):
    back = Certificate.load(rewritten(file, **{name: forge(arrays_of(file)[name])}))
    check = back.verify(exact=exact)
    assert not check and check.reason
