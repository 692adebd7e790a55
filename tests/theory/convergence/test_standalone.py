"""The checker of saved proofs: alone, and right about good and forged files; so is `verify`.

Forgeries are made as an attacker would, with NumPy on the file alone.
"""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attsvm
from attsvm import ConvergenceProof, Tokens
from attsvm.errors import AttsvmError
from attsvm.theory.convergence.prover import prover
from tests.conventions.tree import ROOT
from tests.theory.convergence.cases import CASES, draw, proved

TOOL = ROOT / "tools" / "check_proof.py"
Arrays = dict[str, Any]


def judged(*files: Path) -> tuple[int, list[str]]:
    """The exit code of the checker, run where attsvm cannot be imported, and a line for a file."""
    lone = (
        "import runpy, sys; sys.modules['attsvm'] = None; tool = sys.argv[1]; del sys.argv[0]\n"
        "runpy.run_path(tool, run_name='__main__')"
    )
    words = [sys.executable, "-I", "-W", "error", "-c", lone, str(TOOL), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(file) for file in files], done
    assert not done.stderr
    return done.returncode, [line.split(": ", 1)[1] for line in lines]


@cache
def checker() -> dict[str, Any]:
    """The names of the checker, in this process."""
    return runpy.run_path(str(TOOL))


def holds(file: Path, arrays: Arrays) -> bool:
    """Whether the checker passes these arrays, written to the file."""
    np.savez(file, **arrays)
    try:
        checker()["check"](checker()["read"](str(file)))
    except (ArithmeticError, ValueError):
        return False
    return True


def confirmed(file: Path) -> bool:
    """Whether the package confirms a file."""
    try:
        return bool(ConvergenceProof.load(file).verify())
    except AttsvmError:
        return False


def test_it_imports_numpy_alone():
    found = set()
    for file in (TOOL, *TOOL.parent.glob("proof_parts/*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).split(".")[0])
    standard = {"decimal", "fractions", "math", "pathlib", "sys", "types"}
    assert found == {"numpy", "proof_parts", *standard}
    done = subprocess.run([sys.executable, "-I", str(TOOL)], capture_output=True, text=True)
    assert done.returncode == 1 and "check_proof.py FILE" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Every case, saved."""
    place = tmp_path_factory.mktemp("proofs")
    for case in CASES:
        proved(case).save(place / f"{case}.npz")
    return place


def test_good_proofs_pass(folder):
    files = sorted(folder.iterdir())
    code, lines = judged(*files)
    for file, line in zip(files, lines, strict=True):
        assert line.startswith(f"OK, {file.stem.split(' ')[0].split(',')[0]}"), (file.stem, line)
        assert confirmed(file), file.stem
    assert code == 0
    assert {proved(case).witness.get("mode") for case in CASES} == {"A", "B", None}


def times(name: str, factor: float) -> Callable[[Arrays], Arrays]:
    """The array times a factor, wherever it stands."""

    def forge(a: Arrays) -> Arrays:
        found = [key for key in a if key.split(".")[-1] == name]
        return {key: a[key] * factor for key in found if (a[key] * factor != a[key]).any()}

    return forge


def dropped(a: Arrays) -> Arrays:
    """A tight row left out."""
    cut = {key: a[key][1:] for key in ("witness.tight", "witness.mu") if key in a}
    return cut if len(a["witness.tight"]) > 1 or not a.get("witness.exact", True) else {}


def added(a: Arrays) -> Arrays:
    """Another row named as tight, of those whose exact elimination is asked for."""
    if not a.get("witness.exact", True):
        return {}
    named = {tuple(pair) for pair in a["witness.tight"].tolist()}
    n, T = len(a["queries"]), a["X"].shape[1]
    there = a.get("mask", np.ones((n, T), bool))
    for i in range(n):
        for t in range(T):
            if there[i, t] and t != a["selection"][i] and (i, t) not in named:
                more = {"witness.tight": np.append(a["witness.tight"], [[i, t]], axis=0)}
                if "witness.mu" in a:
                    more["witness.mu"] = np.append(a["witness.mu"], 0.1)
                return more
    return {}


def chosen(a: Arrays) -> Arrays:
    """Another token selected for the first input."""
    selection = a["selection"].copy()
    selection[0] = (selection[0] + 1) % a["X"].shape[1]
    return {"selection": selection}


def absent(a: Arrays) -> Arrays:
    """The selected token of the first input not there at all, and another in its place."""
    n, T = len(a["queries"]), a["X"].shape[1]
    mask = a.get("mask", np.ones((n, T), bool)).copy()
    mask[0, a["selection"][0]] = False
    return {"mask": mask}


def renamed(name: str, words: str) -> Callable[[Arrays], Arrays]:
    """The word after this one, of some."""
    every = words.split()
    return lambda a: {name: np.str_(every[(every.index(str(a[name])) + 1) % len(every)])}


def smaller(a: Arrays) -> Arrays:
    """D halved, and below the distance of W: half a tube may be one, and W may be in it."""
    if "constants.D" not in a:
        return {}
    D = min(a["constants.D"], a["constants.D0"]) / 2
    return {"constants.D": D, "witness.D": D}


def turned(a: Arrays) -> Arrays:
    """W moved by a thousandth; below the level of the loss that can leave all claims true."""
    noise = np.linalg.norm(a["W"]) * 1e-3 * draw(3, *a["W"].shape)
    return {} if str(a["theorem"]) == "level" else {"W": a["W"] + noise}


def counted(a: Arrays) -> Arrays:
    return {"float_steps": np.int64(max(int(a["float_steps"]) * 1000, 1000))}


def stepped(a: Arrays) -> Arrays:
    return {"longest_step": a["longest_step"] * np.nan}


FORGERIES: dict[str, Callable[[Arrays], Arrays]] = {
    "D halved": smaller,
    "D doubled": times("D", 2.0),
    "errors": times("errors", 1e6),
    "c0": times("c0", 0.999),
    "R": times("R", 1 + 1e-9),
    **{
        f"{name} {factor}": times(name, factor)
        for name, factor in {
            "rate": 0.5, "growth": 2.0, "rho": 1 + 1e-5, "N": 1 + 1e-5, "D0": 0.9, "star": 0.9,
            "beta": 0.9, "pi": 0.9, "Pi": 0.9, "Theta": 0.9, "L": 0.9, "need": 0.9, "margin": 1.1,
            "omega": 1.1, "corr": 1.01, "epsilon": 0.9, "slope": 1.1, "turn": 0.9, "excess": 0.9,
            "allowed": 1.1, "curvature": 0.9,
        }.items()
    },
    "another W": lambda a: {"W": np.linalg.norm(a["W"]) * draw(3, *a["W"].shape)},
    "W moved": lambda a: {"W": a["W"] * (1 - 1e-3)},
    "W turned": turned,
    "a row dropped": dropped,
    "a row added": added,
    "selection": chosen,
    "absent": absent,
    "head": lambda a: {"head": -a["head"]},
    "loss": renamed("loss", "linear logistic exponential"),
    "float_steps": counted,
    "theorem": renamed("theorem", "tube cone level"),
    "direction": lambda a: {"direction": draw(4, *a["direction"].shape)},
    "direction moved": lambda a: {"direction": a["direction"] * 1.01},
    "no direction": lambda a: {"direction": None},
    "longest nan": stepped,
    "longest inf": lambda a: {"longest_step": np.float64(np.inf)},
    "another constant": lambda a: {"constants.other": np.float64(1)},
}  # fmt: skip


def read(file: Path) -> Arrays:
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def limit(file: Path, arrays: Arrays) -> float:
    """The longest step that the checker passes, by bisection, up to a thousandth."""
    low = high = float(arrays["longest_step"])
    while holds(file, {**arrays, "longest_step": np.float64(high)}):
        low, high = high, high * 2
        assert high < 1e6 * float(arrays["longest_step"])
    while high > low * 1.001:
        middle = (low * high) ** 0.5
        good = holds(file, {**arrays, "longest_step": np.float64(middle)})
        low, high = (middle, high) if good else (low, middle)
    return low


@pytest.fixture(scope="module")
def forged(folder, tmp_path_factory) -> list[Path]:
    """Every forgery that changes something of every case."""
    place, out = tmp_path_factory.mktemp("forged"), []
    for file in sorted(folder.iterdir()):
        arrays = read(file)
        changes = {name: forge(arrays) for name, forge in FORGERIES.items()}
        most = limit(place / "try.npz", arrays)
        assert most >= arrays["longest_step"]
        changes["longest 1.5"] = {"longest_step": np.float64(most * 1.5)}
        changes["lr"] = {"lr": np.float64(most * 2), "longest_step": np.float64(most * 2)}
        for name, change in changes.items():
            if change:
                out.append(place / f"{file.stem}; {name}.npz")
                kept = {k: v for k, v in {**arrays, **change}.items() if v is not None}
                np.savez(out[-1], **kept)
    return out


# One in so many forgeries, of all cases; the package takes others than the checker.
some = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])


@some
def test_forgeries_are_refused(forged, step):
    assert len(forged) >= 25 * len(CASES)
    forged = forged[::step]
    code, lines = judged(*forged)
    assert code == 5
    passed = [file.stem for file, line in zip(forged, lines, strict=True) if line.startswith("OK")]
    assert not passed, "\n".join(passed)
    odd = [line for line in lines if line.startswith("UNREADABLE")]
    assert not odd, "\n".join(odd)


@some
def test_the_package_refuses_forgeries_too(forged, step):
    passed = [file.stem for file in forged[1::step] if confirmed(file)]
    assert not passed, "\n".join(passed)


def test_what_is_not_whole_is_unreadable(folder, tmp_path):
    arrays, expected = read(folder / "tube.npz"), {}
    whole = (
        "X",
        "queries",
        "head",
        "W",
        "selection",
        "lr",
        "longest_step",
        "float_steps",
        "optimizer",
    )
    for name in whole:
        kept = {key: value for key, value in arrays.items() if key != name}
        np.savez(tmp_path / f"no {name}.npz", **kept)
        expected[tmp_path / f"no {name}.npz"] = f"the array {name} is missing"
    for name, change, sentence in (
        ("version", {"attsvm_proof": np.int64(2)}, "attsvm_proof, the format version, is 2"),
        ("nan", {"W": arrays["W"] * np.nan}, "W is not finite"),
        ("shape", {"W": arrays["W"][1:]}, ""),
        ("range", {"selection": arrays["selection"] + 9}, "selection is out of range"),
        ("optimizer", {"optimizer": np.str_("adam")}, "the optimizer is 'adam'"),
        ("loss", {"loss": np.str_("hinge")}, "the loss is 'hinge'"),
    ):
        np.savez(tmp_path / f"{name}.npz", **{**arrays, **change})
        expected[tmp_path / f"{name}.npz"] = sentence
    (tmp_path / "text.npz").write_bytes(b"text")
    expected[tmp_path / "text.npz"] = ""
    code, lines = judged(*expected)
    assert code == 2
    for (file, sentence), line in zip(expected.items(), lines, strict=True):
        assert line.startswith(f"UNREADABLE, {sentence}"), (file.stem, line)


def test_nothing_proved_is_nothing_confirmed(tmp_path):
    tokens = Tokens([[[0.0, 1.0], [1.0, 0.0]]])
    blocked = attsvm.proof_of_convergence(tokens, [0.0, 1e-3], head=[0.2, 0.7], lr=1.0)
    assert not blocked.proved
    blocked.save(tmp_path / "a.npz")
    assert judged(tmp_path / "a.npz") == (5, ["FALSE, nothing is claimed to be proved"])


@pytest.mark.slow
def test_proofs_of_fifty_runs(tmp_path):
    """The first record of each run that is proved, rechecked by both."""
    files = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X, Z, v = (rng.standard_normal(shape) for shape in ((6, 8, 10), (6, 10), 10))
        X, Z, v = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (X, Z, v))
        tokens = Tokens(X, queries=Z, labels=rng.choice([-1.0, 1.0], 6))
        run = attsvm.train(
            tokens, head=v, optimizer="ngd", lr=0.1, steps=4000, init="normal:1", seed=seed
        )
        prove = prover(tokens, head=v, optimizer="ngd", lr=0.1).prove
        found = (prove(W, explain=False) for W in run.matrices()[:, 0])
        proof = next((p for p in found if p.proved), None)
        if proof is not None:
            files.append(tmp_path / f"{seed}.npz")
            proof.save(files[-1])
    assert len(files) >= 45
    start = time.perf_counter()
    code, lines = judged(*files)
    seconds = (time.perf_counter() - start) / len(files)
    assert code == 0, [line for line in lines if not line.startswith("OK")]
    assert all(confirmed(file) for file in files)
    print(f"{len(files)} of 50 proved, all OK, {seconds:.2f} s a file")
