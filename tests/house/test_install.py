"""The package as users get it: built, installed elsewhere, on a disk that cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attsvm.ground.version import __version__
from tests.house.tree import PACKAGE, ROOT
from tests.tolerances import GAP

# One input, three tokens; p = (-0.1, 1) / 1.01 keeps the first with margin 1, so ‖p‖² = 1 / 1.01.
LEAST_NORM = 1.01**-0.5
SOLVE = """
import attsvm
tokens = attsvm.Tokens([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
problem = attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0]))
print(attsvm.__file__)
print(attsvm.solve(problem).require().upper)
"""


def run(folder: Path, *arguments: str, cwd: Path, **environment: str) -> str:
    """What Python prints when it finds the package in this folder before anywhere else."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(folder)} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_solve(folder: Path, *, cwd: Path, **environment: str) -> None:
    """The package in this folder, and no other, solves the small problem."""
    origin, least = run(folder, "-c", SOLVE, cwd=cwd, **environment).split()
    assert Path(origin).is_relative_to(folder)
    assert float(least) == pytest.approx(LEAST_NORM, rel=GAP)


def python(*arguments: str, cwd: Path) -> None:
    """Run a Python module; its output is shown when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder into which the built wheel, without its dependencies, was installed."""
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    shutil.copytree(PACKAGE, tree / "attsvm", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    python("build", "--wheel", "--no-isolation", "--outdir", str(work), cwd=tree)
    (wheel,) = work.glob("*.whl")
    assert wheel.name == f"attsvm-{__version__}-py3-none-any.whl"
    target = work / "installed"
    offline = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    python("pip", "install", *offline, "--target", str(target), str(wheel), cwd=work)
    return target


def test_wheel_holds_the_whole_package(installed):
    kinds = (".py", ".typed", ".txt")
    here = {p.relative_to(PACKAGE) for p in PACKAGE.rglob("*") if p.suffix in kinds}
    there = installed / "attsvm"
    assert [name for name in sorted(here) if not (there / name).is_file()] == []


def test_wheel_says_its_version(installed, tmp_path):
    assert __version__ in run(installed, "-m", "attsvm", "--version", cwd=tmp_path).split()


def test_wheel_solves(installed, tmp_path):
    check_solve(installed, cwd=tmp_path)


def test_solves_where_nothing_can_be_written(tmp_path):
    """Solving works where compiled code can be kept neither beside the source nor in a home.

    A file stands where each cache folder would be made, which stops even an account that may
    write anywhere; the home is a file for the same reason.
    """
    package = tmp_path / "attsvm"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    where = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": ""}
    check_solve(tmp_path, cwd=tmp_path, **where)
    assert home.read_bytes() == b""
