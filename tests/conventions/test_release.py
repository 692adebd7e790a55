"""What a release needs: an sdist that holds all, a wheel made of it alone, papers in order."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from datetime import date
from pathlib import Path

import pytest

from attsvm._utils.version import __version__
from attsvm.references import REFERENCES
from tests.conventions.test_install import LEAST_NORM, SOLVE, python
from tests.conventions.tree import ROOT, files
from tests.tolerances import GAP

# Files of the tree that no distribution needs.
APART = (".git", ".ci")

# Run outside the tree: the commands a newcomer tries first.
SMOKE = (
    ("--version",),
    ("example", "multi-input-planar", "--out", "tokens.npz"),
    ("solve", "tokens.npz", "--norm", "nuclear", "--out", "best.npz"),
    ("certify", "tokens.npz", "best.npz", "--exact"),
    ("train", "tokens.npz", "--steps", "100"),
    ("example", "sentences", "--out", "text.txt"),
    ("sentences", "text.txt"),
    ("report", "--help"),
)


def needed() -> set[Path]:
    """The files of the tree that a source distribution must hold."""
    here = {path.relative_to(ROOT) for path in files()}
    return {path for path in here if not path.parts[0].startswith(APART)}


def test_citation_is_that_of_this_version():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert text.startswith("cff-version: 1.2.0\n")
    for key in ("message", "title", "type", "authors", "version", "date-released", "license"):
        assert len(re.findall(rf"^{key}:", text, re.M)) == 1, key
    released = date.fromisoformat(re.search(r'^date-released: "(.+)"$', text, re.M)[1])
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{__version__}] - {released}\n" in changes
    versions = re.findall(r"^## \[([\d.]+)\]", changes, re.M)
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) == len(numbers)


def test_cited_papers_are_those_of_the_references():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    titles = re.findall(r'^    title: "(.+)"$', text, re.M)
    numbers = re.findall(r"https://arxiv.org/abs/([\d.]+)", text)
    known = {entry.title: entry.where for entry in REFERENCES.values()}
    assert len(titles) == len(numbers) == 4
    for title, number in zip(titles, numbers, strict=True):
        assert f"arXiv:{number}" in known[title]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """(sdist, wheel), the wheel built from the sdist unpacked elsewhere."""
    work = tmp_path_factory.mktemp("release")
    tree = work / "tree"
    for name in needed():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    options = ("--no-isolation", "--outdir", str(work))
    python("build", "--sdist", *options, cwd=tree)
    (sdist,) = work.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "unpacked", filter="data")
    python("build", "--wheel", *options, cwd=work / "unpacked" / f"attsvm-{__version__}")
    (wheel,) = work.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_the_sdist_holds_what_the_tree_does(built):
    with tarfile.open(built[0]) as archive:
        there = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    hidden = {path for path in needed() if path.parts[0].startswith(".")}
    assert needed() - hidden - there == set()
    assert not [name for name in there if name.suffix == ".pyc"]


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(built, tmp_path):
    """Only its dependencies are beside it, taken from where the tests run."""
    home = tmp_path / "clean"
    venv.create(home, with_pip=False)
    place = subprocess.run(
        [home / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(place)
    beside = [path for path in sys.path if path.endswith("site-packages")]
    # A path file comes after the folder it lies in, so the package of the wheel is found first.
    Path(place, "dependencies.pth").write_text("\n".join(beside))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*words: str) -> str:
        done = subprocess.run(
            [home / "bin" / "python", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    origin, least = run("-c", SOLVE).split()
    assert Path(origin).is_relative_to(home)
    assert float(least) == pytest.approx(LEAST_NORM, rel=GAP)
    for words in SMOKE:
        shown = run("-m", "attsvm", *words)
        assert shown.strip()
        if words[0] == "certify":
            assert "ran in rational arithmetic: holds" in shown
        if words[0] == "sentences":
            assert "Conclusion: All of the" in shown
