"""The checker of saved certificates: alone, short, and right about good and forged files.

Forgeries are made as an attacker would, with NumPy on the file alone.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from attsvm.norms.rational import Exact
from tests.certificate.saved_cases import CASES, INFEASIBLE, NORMS, solved
from tests.conventions.tree import ROOT
from tests.plain_fractions import REFERENCE, TIGHTNESS, reference
from tests.tolerances import FORGED_SLIGHTLY

TOOL = ROOT / "tools" / "check_certificate.py"
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Verdicts:
    """What the checker left: its exit code, one line a file, and what it said on standard error."""

    code: int
    lines: list[str]
    err: str


def judged(*files: Path) -> Verdicts:
    """The checker run on files in a process that cannot import attsvm."""
    lone = (
        "import runpy, sys; sys.modules['attsvm'] = None; tool = sys.argv[1]; del sys.argv[0]\n"
        "runpy.run_path(tool, run_name='__main__')"
    )
    strict = ["-I", "-W", "error", "-W", "ignore::ResourceWarning"]  # NumPy leaves cut files open
    words = [sys.executable, *strict, "-c", lone, str(TOOL), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(file) for file in files], done
    return Verdicts(done.returncode, [line.split(": ", 1)[1] for line in lines], done.stderr)


def test_it_is_short_and_imports_numpy_alone():
    text = TOOL.read_text("utf-8")
    assert len(text.splitlines()) <= 200
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    assert found == {"math", "sys", "types", "fractions", "numpy"}
    done = subprocess.run([sys.executable, "-I", str(TOOL)], capture_output=True, text=True)
    assert done.returncode == 1 and "check_certificate.py FILE" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Every case in every norm, saved."""
    place = tmp_path_factory.mktemp("certificates")
    for case in CASES:
        for norm in NORMS:
            solved(case, norm).save(place / f"{case}, {norm}.npz")
    return place


def test_good_certificates_pass(folder):
    files = sorted(folder.iterdir())
    assert len(files) >= 100
    found = judged(*files)
    assert found.code == 0 and found.err == "", found
    for file, line in zip(files, found.lines, strict=True):
        case, norm = file.stem.split(", ")
        best = solved(case, norm)
        what = "objective" if np.isfinite(best.budget) else "norm"
        bounds = f"{best.lower!r} <= {norm} {what} <= {best.upper!r}"
        assert line == f"OK, {best.status}: {bounds}"


def flipped(a: Arrays) -> Arrays:
    """The largest entry of W with its sign changed."""
    W = a["W"].copy()
    W.flat[np.abs(W).argmax()] *= -1
    return {"W": W}


def negative(a: Arrays) -> Arrays:
    lam = a["multipliers"].copy()
    lam[lam.argmax()] *= -1
    return {"multipliers": lam}


def invented(a: Arrays) -> Arrays:
    """The claim that no W exists, by the multipliers of the solution."""
    return {
        "status": np.str_("infeasible"), "proof": np.str_("numerical"), "W": np.empty((0, 0)),
        "upper": np.float64(np.inf),
    }  # fmt: skip


def told(a: Arrays, word: str) -> Arrays:
    """The exact proof replaced by one word for every row."""
    return {"farkas": np.full(len(a["farkas"]), word)}


def shifted(a: Arrays) -> Arrays:
    return {"hi": (a["hi"] + 1) % len(a["keys"])}


# Each forgery: what it changes, and what the checker says of it.
Forgery = tuple[Callable[[Arrays], Arrays], str]
NO_PROOF = "FALSE, the Farkas certificate, farkas, is missing"
NO_FARKAS = "FALSE, not a Farkas certificate: the constraints do not add up to zero"
FORGERIES: dict[str, Forgery] = {
    "lower": (lambda a: {"lower": a["lower"] * (1 + FORGED_SLIGHTLY)}, "FALSE, lower is"),
    "upper": (lambda a: {"upper": a["upper"] * (1 - FORGED_SLIGHTLY)}, "FALSE, upper is"),
    "W": (flipped, "FALSE, "),
    "negative": (negative, "FALSE, a multiplier is negative"),
    "nothing": (lambda a: {"multipliers": 0 * a["multipliers"]}, "FALSE, lower is"),
    "b": (lambda a: {"b": a["b"] * 1.01}, "FALSE, upper is"),
    "less b": (lambda a: {"b": a["b"] * 0.99}, "FALSE, lower is"),
    "keys": (lambda a: {"keys": a["keys"] * 0.99}, "FALSE, upper is"),
    "rows": (shifted, "FALSE, "),
    "status": (lambda a: {"status": np.str_("infeasible")}, "UNREADABLE, the status is"),
    "no W": (lambda a: {"W": np.empty((0, 0))}, "FALSE, upper is finite without a W"),
    "a proof": (invented, NO_FARKAS),
    "a proof beside W": (
        lambda a: {k: v for k, v in invented(a).items() if k != "W"}, "FALSE, no W is claimed",
    ),
    "nan": (lambda a: {"upper": np.float64(np.nan)}, "FALSE, upper is nan"),
    "tolerance": (
        lambda a: {"tolerance": (a["upper"] / a["lower"] - 1) / 2}, "FALSE, the gap is too large",
    ),
}  # fmt: skip
PROOFS: dict[str, Forgery] = {
    "optimal": (
        lambda a: {"status": np.str_("optimal"), "proof": np.str_("")}, "FALSE, the gap is too",
    ),
    "negative": (negative, "FALSE, a multiplier is negative"),
    "one row": (
        lambda a: {"multipliers": a["multipliers"] * (np.arange(len(a["b"])) > 0)},
        NO_FARKAS,
    ),
    "keys": (lambda a: {"keys": a["keys"] ** 2 + 1}, NO_FARKAS),
    "zero b": (lambda a: {"b": 0 * a["b"]}, NO_FARKAS),
    "exact": (
        lambda a: {"proof": np.str_("exact")}, NO_PROOF
    ),
    "upper": (lambda a: {"upper": np.float64(9.0)}, "FALSE, no W is claimed, yet one is bounded"),
}  # fmt: skip
EXACT: dict[str, Forgery] = {
    "no proof": (lambda a: {"farkas": a["farkas"][:0]}, NO_PROOF),
    "a negative proof": (lambda a: told(a, "-1"), "FALSE, a multiplier is negative"),
    "an empty proof": (lambda a: told(a, "0"), NO_FARKAS),
    "words": (lambda a: told(a, "one"), "UNREADABLE, invalid literal"),
    "optimal": (lambda a: {"status": np.str_("optimal"), "proof": np.str_("")}, "FALSE, "),
    "keys": (
        lambda a: {"keys": a["keys"] * np.arange(2, len(a["keys"]) + 2)[:, None] ** 2},
        NO_FARKAS,
    ),
}  # fmt: skip
# Where W is zero, or any W is as good, or there is no margin, these change nothing that is claimed.
SAME = {
    "only zero rows": {"W", "negative", "nothing", "b", "less b", "lower", "upper", "keys", "rows",
                       "tolerance"},
    "finite": {"negative", "nothing", "b", "less b", "rows"},
    "soft line": {"W", "keys", "a proof"},
    "soft ties": {"a proof"},
    "soft": {"a proof"},
}  # fmt: skip


def forged(folder: Path, place: Path, *, every: int) -> dict[Path, str]:
    """Forged files with what the checker should say: one in `every` of all forgeries."""
    expected = {}
    for file in sorted(folder.iterdir()):
        case, _ = file.stem.split(", ")
        with np.load(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
        kind = FORGERIES
        if case in INFEASIBLE:
            kind = PROOFS if case == "a rough sum" else EXACT
        for name, (forge, sentence) in kind.items():
            if name not in SAME.get(case, ()):
                target = place / f"{file.stem}, {name}.npz"
                expected[target] = sentence
                if len(expected) % every == 0:
                    np.savez(target, **{**arrays, **forge(arrays)})
    return {file: sentence for file, sentence in expected.items() if file.exists()}


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 11])
def test_forgeries_are_refused(folder, tmp_path, every):
    expected = forged(folder, tmp_path, every=every)
    assert len(expected) >= 1500 // every
    found = judged(*expected)
    assert found.code == 5 and found.err == ""
    wrong = [
        f"{file.stem}: {line}, not {sentence}"
        for (file, sentence), line in zip(expected.items(), found.lines, strict=True)
        if not line.startswith(sentence)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def arrays(folder) -> Arrays:
    """The arrays of a saved certificate with margins and ties."""
    with np.load(folder / "ties, frobenius.npz") as archive:
        return {name: archive[name] for name in archive.files}


def test_what_is_not_whole_is_unreadable(arrays, folder, tmp_path):
    expected = {}

    def put(name: str, sentence: str, **changes: Any) -> None:
        kept = {k: v for k, v in {**arrays, **changes}.items() if v is not None}
        np.savez(tmp_path / f"{name}.npz", **kept)
        expected[tmp_path / f"{name}.npz"] = sentence

    for name in set(arrays) - {"reach", "moved"}:  # the checker finds its own
        sentence = f"the array {name} is missing"
        if name == "attsvm_certificate":
            sentence = "attsvm_certificate, the format version, is missing and not 1"
        put(f"without {name}", sentence, **{name: None})
    put("version", "attsvm_certificate, the format version, is 2", attsvm_certificate=np.int64(2))
    for name in ("keys", "queries", "W", "b", "c", "multipliers"):
        put(f"nan {name}", f"{name} is not finite", **{name: arrays[name] * np.nan})
    for name in ("keys", "hi", "b", "lower"):
        put(f"short {name}", f"{name} is float32", **{name: arrays[name].astype(np.float32)})
    for name in ("hi", "lo", "query", "tie_hi", "tie_lo", "tie_query"):
        short = name.removeprefix("tie_")
        for step in (99, -99):
            put(f"{name} {step}", f"{short} is out of range", **{name: arrays[name] + step})
    for name in ("b", "c", "c_error", "multipliers", "tie_multipliers", "hi", "keys", "W"):
        put(f"cut {name}", "", **{name: arrays[name][1:]})
    put("W", "W is float64 of shape (4, 5)", W=arrays["W"].T)
    put("b", "b is negative", b=-arrays["b"])
    put("c_error", "c_error is negative", c_error=arrays["c_error"] - 1)
    put("budget", "budget is negative or no number", budget=np.float64(np.nan))
    put("euclid", "the norm is 'euclid'", norm=np.str_("euclid"))
    put("longest-row", "the norm is 'longest-row', unknown here; ", norm=np.str_("longest-row"))
    put("l3 by 0", "the norm is 'l3/0', unknown here", norm=np.str_("l3/0"))
    put("l1.0", "the norm is 'l1.0'", norm=np.str_("l1.0"))
    put("long", "the norm is 'l1.00", norm=np.str_("l1." + "0" * 70 + "1"))
    put("solved", "the status is 'solved'", status=np.str_("solved"))
    put("object", "Object arrays cannot be loaded", keys=np.array([{}], object))
    whole = (folder / "ties, frobenius.npz").read_bytes()
    for name, content in (("half", whole[: len(whole) // 2]), ("text", b"text"), ("none", b"")):
        (tmp_path / f"{name}.npz").write_bytes(content)
        expected[tmp_path / f"{name}.npz"] = ""
    expected[tmp_path / "absent.npz"] = "[Errno 2]"
    found = judged(*expected)
    assert found.code == 2 and found.err == ""
    for (file, sentence), line in zip(expected.items(), found.lines, strict=True):
        assert line.startswith(f"UNREADABLE, {sentence}"), (file.stem, line)


def by_hand(keys: Any, **changes: Any) -> Arrays:
    """A certificate in one unknown w: margins keys_k w ≥ 1, each with a multiplier of 1."""
    m, none = len(keys), np.empty(0)
    whole = {"hi": np.arange(m), "lo": np.full(m, -1), "query": np.zeros(m, int)}
    ties = {f"tie_{name}": none.astype(int) for name in whole}
    plain = {
        "attsvm_certificate": 1, "norm": "frobenius", "keys": np.array(keys, float)[:, None],
        "queries": np.ones((1, 1)), "b": np.ones(m), "multipliers": np.ones(m), "c": none,
        "c_error": none, "tie_multipliers": none, "width": 0, "W": np.ones((1, 1)), "lower": 0.0,
        "upper": np.inf, "tolerance": 1e-8, "budget": np.inf, "residual": 0.0, "status": "stalled",
        "proof": "", "farkas": np.array([], str),
    }  # fmt: skip
    return {**whole, **ties, **plain, **changes}


def tied(keys: Any, c: Any, error: Any, **changes: Any) -> Arrays:
    """A certificate in one unknown w with ties |keys_l w − c_l| ≤ error_l and no margin."""
    plain = by_hand(keys)
    l, none = len(keys), np.empty(0)
    moved = {f"tie_{name}": plain[name] for name in ("hi", "lo", "query")}
    empty = {name: none.astype(int) for name in ("hi", "lo", "query")}
    rest = {"b": none, "multipliers": none, "c": np.array(c), "c_error": np.array(error)}
    return {**plain, **moved, **empty, **rest, "tie_multipliers": np.zeros(l), **changes}


def verdict(tmp_path: Path, arrays: Arrays) -> str:
    np.savez(tmp_path / "a.npz", **arrays)
    (line,) = judged(tmp_path / "a.npz").lines
    return line


def test_an_exact_proof_is_an_exact_one(tmp_path):
    """0.1 w ≥ 1 and −0.3 w ≥ 1: the floats 0.1 and 0.3 are no tenths, and neither is the proof."""
    (up, below), (down, under) = (0.1).as_integer_ratio(), (0.3).as_integer_ratio()
    f = down * below, up * under  # 0.1 f₁ = 0.3 f₂
    claim = {"status": "infeasible", "proof": "exact", "W": np.empty((0, 0)), "lower": np.inf}
    sys.set_int_max_str_digits(6000)
    try:
        for factor, extra, start in ((1, 0, "OK, infeasible"), (10**5000, 0, "OK, infeasible"),
                                     (1, 1, NO_FARKAS),
                                     (-1, 0, "FALSE, a multiplier is negative")):  # fmt: skip
            words = np.array([str(f[0] * factor + extra), str(f[1] * factor)])
            line = verdict(tmp_path, by_hand([0.1, -0.3], farkas=words, **claim))
            assert line.startswith(start), line
    finally:
        sys.set_int_max_str_digits(4300)
    tenths = by_hand([0.1, -0.3], farkas=np.array(["3", "1"]), **claim)
    assert verdict(tmp_path, tenths).startswith("FALSE")
    numerical = {**claim, "proof": "numerical", "lower": 1e15, "multipliers": np.array([3.0, 1.0])}
    assert verdict(tmp_path, by_hand([0.1, -0.3], **numerical)).startswith("OK")
    too_much = {**numerical, "lower": 1e20}
    assert verdict(tmp_path, by_hand([0.1, -0.3], **too_much)).startswith("FALSE, lower is 1e+20")


def test_ties_known_up_to_an_error(tmp_path):
    """|w − 1| ≤ ½ has least norm ½, and the error counts against the multipliers."""
    claim = {"W": np.array([[0.5]]), "tie_multipliers": np.ones(1), "status": "optimal"}
    good = tied([1.0], [1.0], [0.5], **claim, lower=0.5, upper=0.5)
    assert verdict(tmp_path, good) == "OK, optimal: 0.5 <= frobenius norm <= 0.5"
    assert verdict(tmp_path, {**good, "lower": 0.5001}).startswith("FALSE, lower")
    assert verdict(tmp_path, {**good, "c_error": np.zeros(1)}).startswith("FALSE, upper")
    far = {**good, "W": np.zeros((1, 1))}  # moved to the near end of the interval
    assert verdict(tmp_path, far).startswith("OK")
    assert verdict(tmp_path, {**far, "upper": 0.4999}).startswith("FALSE, upper")


def test_dependent_ties_must_agree(tmp_path):
    """w = 1 and 2 w = 2.1 contradict each other, unless their errors leave room."""
    claim = {"W": np.array([[1.02]]), "upper": 1.1}
    assert verdict(tmp_path, tied([1.0, 2.0], [1.0, 2.0], [0.0, 0.0], **claim)).startswith("OK")
    clash = verdict(tmp_path, tied([1.0, 2.0], [1.0, 2.1], [0.0, 0.0], **claim))
    assert clash.startswith("FALSE, no matrix was found near W")
    assert verdict(tmp_path, tied([1.0, 2.0], [1.0, 2.1], [0.03, 0.08], **claim)).startswith("OK")


def test_an_error_of_a_tie_does_not_scale(tmp_path):
    """|w| ≤ ½ and w ≥ 1 have no solution: w = ½ may not be scaled to 1."""
    both = tied([1.0], [0.0], [0.5], W=np.array([[0.5]]), upper=1.0)
    margin = {name: both[f"tie_{name}"] for name in ("hi", "lo", "query")}
    clash = {**both, **margin, "b": np.ones(1), "multipliers": np.zeros(1)}
    assert verdict(tmp_path, clash).startswith("FALSE, no matrix was found near W")
    assert verdict(tmp_path, {**clash, "b": np.full(1, 0.25)}).startswith("OK")


@cache
def tool() -> ModuleType:
    """The checker as a module, to look at its norms."""
    module = ModuleType("check_certificate")
    exec(compile(TOOL.read_text("utf-8"), str(TOOL), "exec"), vars(module))
    return module


@pytest.mark.parametrize("norm", ["nuclear", "spectral"])
def test_poor_singular_vectors_do_no_harm(norm, monkeypatch):
    """Whatever the decomposition hands over, the bound is not below the norm."""
    rng = np.random.default_rng(6)
    W = rng.standard_normal((4, 3))
    right = reference(norm, Exact.of(W))
    U, s, V = np.linalg.svd(W / 4, full_matrices=False)  # 4: the power of two above its entries
    for part in range(3):
        for share in (1e-3, -1e-3, 0.5, -0.5):
            poor = [U, s, V]
            poor[part] = poor[part] * (1 + share * rng.random(poor[part].shape))
            monkeypatch.setattr(np.linalg, "svd", lambda *a, poor=poor, **k: poor)
            assert tool().above(norm, tool().exact(W)) >= right * (1 - REFERENCE)
    for longer in ((2 * U, s / 2, V), (U, s / 2, 2 * V)):  # nothing is left over here
        monkeypatch.setattr(np.linalg, "svd", lambda *a, poor=longer, **k: poor)
        assert tool().above(norm, tool().exact(W)) >= right * (1 - REFERENCE)


@pytest.mark.parametrize("scale", [1.0, 1e-225, 1e200])
@pytest.mark.parametrize("shape", [(4, 5), (3, 1), (1, 1)])
@pytest.mark.parametrize("norm", [*NORMS, "l2", "l1.1", "l10", "l1.0000000001", "l99999999"])
def test_norms_are_bounded_from_above(norm, shape, scale):
    """Not below the norm to 50 digits, and above it by little."""
    W = np.random.default_rng(5).standard_normal(shape) * scale
    name = norm if norm in tool().DUAL else Fraction(norm[1:])
    bound, right = tool().above(name, tool().exact(W)), reference(norm, Exact.of(W))
    slack = TIGHTNESS if norm in ("nuclear", "spectral") else Fraction(1, 10**20)
    assert right * (1 - REFERENCE) <= bound <= right * (1 + slack)
