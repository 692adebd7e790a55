"""The site: it builds without a warning, its links lead somewhere, nothing comes from afar."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.conventions.tree import ROOT
from tests.site.reference import public_names

pytest.importorskip("sphinx", reason="the site needs the extra docs")

MADE = shutil.ignore_patterns("__pycache__", "api", "gallery")
# Attributes by which a page loads something by itself; `a href` is only a link.
LOADS = {("link", "href"), ("script", "src"), ("img", "src"), ("img", "srcset"), ("iframe", "src")}
KEPT = ("canonical", "license")  # of <link rel=…>: nothing is loaded


class Page(HTMLParser):
    """What a page points to, what it loads, and where it can be pointed at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            if (tag, name) in LOADS and given.get("rel") not in KEPT:
                parts = value.split(",") if name == "srcset" else [value]
                self.loads += [part.split()[0] for part in parts if part.strip()]


def build(work: Path, *words: str) -> Path:
    """The folder of a site built from a copy of the sources."""
    for name in ("docs", "examples", "tools"):
        shutil.copytree(ROOT / name, work / name, ignore=MADE)
    for path in ROOT.glob("*.md"):
        shutil.copy(path, work)
    done = subprocess.run(
        [sys.executable, "tools/site.py", "site", *words],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return work / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, its gallery not executed."""
    return build(tmp_path_factory.mktemp("site"), "--fast")


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    """Every page of the site."""
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def faults(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Every link or load inside the site that leads nowhere."""
    found = []
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            place = unquote(parts.fragment)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(site.resolve()) or not target.is_file():
                found.append(f"{path.relative_to(site)}: {link} is not there")
            elif place and target in pages and place not in pages[target].anchors:
                found.append(f"{path.relative_to(site)}: {link} has no such place")
    return found


def far(text: str) -> list[str]:
    """What a style sheet would load from elsewhere."""
    return re.findall(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)", text)


def test_links_lead_somewhere(site, pages):
    resolved = {path.resolve(): page for path, page in pages.items()}
    found = faults(site.resolve(), resolved)
    assert not found, "\n".join(found[:20])


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loads = {
        (path.name, load)
        for path, page in pages.items()
        for load in page.loads
        if urlsplit(load).netloc or urlsplit(load).scheme in ("http", "https")
    }
    assert not loads
    sheets = {path.name: far(path.read_text("utf-8")) for path in site.rglob("*.css")}
    assert sheets and not any(sheets.values()), sheets


def test_every_public_name_has_an_entry(pages):
    anchors = set().union(*(page.anchors for page in pages.values()))
    missing = [name for name in public_names() if name not in anchors]
    assert not missing, f"no entry in the reference: {missing}"


def test_every_page_is_on_the_site(site):
    here = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert len(here) > 25
    assert here <= {path.stem for path in site.glob("*.html")}


@pytest.mark.slow
def test_every_example_of_the_gallery_has_a_picture(tmp_path):
    site = build(tmp_path)
    shown = {path.stem for path in (site / "gallery").glob("*.html")} - {"index"}
    assert len(shown) >= 10
    pictures = {path.name for path in (site / "_images").glob("sphx_glr_*_001.png")}
    assert {f"sphx_glr_{name}_001.png" for name in shown} <= pictures
    for path in (site / "gallery").glob("*.html"):
        assert "Traceback" not in path.read_text("utf-8")


def test_a_bad_link_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="a.html#x"></a><a href="#y"></a>')
    (tmp_path / "b.html").write_text('<a href="c.html"><img src="gone.png" srcset="gone.png 2x">')
    known = {path: Page(path.read_text()) for path in tmp_path.glob("*.html")}
    assert len(faults(tmp_path, known)) == 4


def test_without_sphinx_one_sentence_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "tools/site.py"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert (
        done.stderr.startswith("The site needs Sphinx") and "pip install '.[docs]'" in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_torch_is_documented_where_it_is_installed(pages):
    text = next(path for path in pages if path.name == "torch.html" and path.parent.name == "api")
    said = text.read_text("utf-8")
    if find_spec("torch"):
        assert all(f"attsvm.torch.{name}" in said for name in import_module("attsvm.torch").__all__)
    else:
        assert ".[torch]" in said
