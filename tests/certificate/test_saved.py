"""A saved certificate comes back as it was, and what is no certificate gets one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attsvm import BadTokens, Certificate, Unsupported
from attsvm.norms.entrywise import FrobeniusNorm
from tests.certificate.saved_cases import CASES, INFEASIBLE, NORMS, solved

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


def test_a_norm_of_ones_own_is_refused(tmp_path):
    first = solved("weights", "frobenius")
    own = Certificate(
        first.problem, FrobeniusNorm(tolerance=1e-3), first.W, first.multipliers,
        first.tie_multipliers, first.lower, first.upper, "optimal", 1e-3, 0.0,
    )  # fmt: skip
    with pytest.raises(Unsupported, match="not the library's"):
        own.save(tmp_path / "own.npz")
    assert not any(tmp_path.iterdir())


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
        ("keys", nan_at_first, "keys holds nan"),
        ("keys", lambda a: a * 1e200, "keys.* below 1e"),
        ("keys", lambda a: a.astype(np.float32), "keys has type float32"),
        ("keys", lambda a: a[0], r"keys has shape \(5,\); it must have 2 axes"),
        ("W", lambda a: a.T, r"W is \(4, 5\), the problem needs \(5, 4\)"),
        ("W", lambda a: a.astype(complex), "W has type complex128"),
        ("multipliers", lambda a: a[1:], "multipliers has 6 entries for 7 rows"),
        ("tie_multipliers", lambda a: a[1:], "tie_multipliers has 1 entries for 2 rows"),
        ("c_error", lambda a: a - 1, "c_error has a negative entry"),
        ("b", lambda a: -a, "b has a negative entry"),
        ("hi", lambda a: a * 1.0, "hi has type float64; it must hold integers"),
        ("lo", lambda a: a - 99, "lo holds .*; indices run from -1 to 11"),
        ("query", lambda a: a + 3, "query holds .*; indices run from 0 to 2"),
        ("width", lambda a: -a, "width is -4"),
        ("upper", lambda a: -np.inf * a, "upper holds -inf"),
        ("tolerance", lambda a: 0 * a, "tolerance is 0.0; it must be positive"),
        ("budget", lambda a: np.float64(-1), "budget is -1.0; it must be positive"),
        ("norm", lambda a: np.str_("euclid"), "unknown norm 'euclid'"),
        ("status", lambda a: np.str_("solved"), "unknown status 'solved'"),
        ("status", lambda a: np.str_("infeasible"), "proof is '' with status infeasible"),
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
