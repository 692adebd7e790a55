"""What a release needs: an sdist that holds all, a wheel made of it alone, papers in order."""

import re
import tarfile
from datetime import date
from pathlib import Path

import pytest

from attsvm._utils.version import __version__
from attsvm.references import REFERENCES
from tests.conventions.test_install import python
from tests.conventions.tree import ROOT, files

# Files of the tree that no distribution needs.
APART = (".git", ".ci")


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


@pytest.mark.slow
def test_the_sdist_holds_the_tree_and_makes_a_wheel(tmp_path):
    tree = tmp_path / "tree"
    for name in needed():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    options = ("--no-isolation", "--outdir", str(tmp_path))
    python("build", "--sdist", *options, cwd=tree)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        there = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
        archive.extractall(tmp_path / "unpacked", filter="data")
    hidden = {path for path in needed() if path.parts[0].startswith(".")}
    assert needed() - hidden - there == set()
    assert not [name for name in there if name.suffix == ".pyc"]
    python("build", "--wheel", *options, cwd=tmp_path / "unpacked" / f"attsvm-{__version__}")
    assert len(list(tmp_path.glob("*.whl"))) == 1
