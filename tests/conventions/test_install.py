"""The package as users get it: built, installed elsewhere, on a disk that cannot be written."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attsvm._utils.version import __version__
from tests.conventions.tree import PACKAGE, ROOT, files, show
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

FILES = """
import attsvm
from attsvm.experiments.report import render_report
from attsvm.inspection.texts import sample_texts
from attsvm.inspection import FIELDS
from importlib.resources import files
from attsvm.experiments.runner import package_hash
from attsvm.experiments.spec import SHIPPED, shipped_sweep
from pathlib import Path
print(attsvm.__file__)
for name in SHIPPED:
    print(name, shipped_sweep(name).instances)
page = files("attsvm.inspection.page").joinpath("inspect.html").read_text("utf-8")
print(package_hash(), len(sample_texts("prose")), len(page), len(render_report(Path(), [])))
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


def python(*arguments: str, cwd: Path) -> None:
    """Run a Python module; its output is shown when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built."""
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"
    shutil.copytree(PACKAGE, tree / "attsvm", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    python("build", "--wheel", "--no-isolation", "--outdir", str(work), cwd=tree)
    (built,) = work.glob("*.whl")
    assert built.name == f"attsvm-{__version__}-py3-none-any.whl"
    return built


@pytest.fixture(scope="module")
def installed(wheel) -> Path:
    """A folder into which the wheel, without its dependencies, was installed."""
    target = wheel.parent / "installed"
    offline = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    python("pip", "install", *offline, "--target", str(target), str(wheel), cwd=wheel.parent)
    return target


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = archive.read(f"attsvm-{__version__}.dist-info/METADATA").decode()
    assert there == {show(path) for path in files() if PACKAGE in path.parents}
    assert "Requires-Python: >=3.11" in about and "Classifier: Typing :: Typed" in about


def test_a_wheel_on_the_path_as_it_is_has_its_files(wheel, tmp_path):
    """Specs, texts, pages and the sources that name a record are read from inside the zip."""
    (tmp_path / "script.py").write_text(FILES)
    zipped, here = (run(place, "script.py", cwd=tmp_path) for place in (wheel, ROOT))
    assert zipped.splitlines()[0].startswith(str(wheel))
    assert zipped.splitlines()[1:] == here.splitlines()[1:] and "separability " in zipped


def test_the_installed_wheel_solves_where_nothing_can_be_written(installed, tmp_path):
    """Solving works where compiled code can be kept neither beside the source nor in a home.

    A file stands where each cache folder would be made, which stops even an account that may
    write anywhere; the home is a file for the same reason.
    """
    package = installed / "attsvm"
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    where = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": ""}
    origin, least = run(installed, "-c", SOLVE, cwd=tmp_path, **where).split()
    assert Path(origin).is_relative_to(installed)
    assert float(least) == pytest.approx(LEAST_NORM, rel=GAP)
    assert home.read_bytes() == b""
