"""The page: complete, without markup from data, readable without anything else."""

import re
from html.parser import HTMLParser

import pytest

from attsvm.errors import BadTokens
from attsvm.experiments.report import (
    KINDS,
    MEANING,
    SOURCES,
    VERDICTS,
    read_results,
    render_report,
    write_report,
)
from attsvm.experiments.runner import run_studies
from attsvm.experiments.studies import studies
from attsvm.experiments.study import Kind, Source
from tests.experiments import listed
from tests.experiments.folders import EVIL, made_up, record
from tests.experiments.made_studies import made


class Reader(HTMLParser):
    """Tags and texts of a page; raises where an element is closed that is not open."""

    EMPTY = ("meta", "link", "input", "img", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.texts, self.ids = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)


@pytest.fixture
def page(tmp_path):
    return write_report(made_up(tmp_path)).read_text("utf-8")


def test_the_page_is_whole_and_loads_nothing(page):
    found = Reader(page)
    assert len(found.ids) == len(set(found.ids))
    links = [a["href"] for tag, a in found.tags if tag == "a"]
    assert all(link.startswith("#") and link[1:] in found.ids for link in links)
    sources = [a["src"] for tag, a in found.tags if "src" in a]
    assert len(sources) == 3 and all(source.startswith("data:image/") for source in sources)
    assert all("alt" in a for tag, a in found.tags if tag == "img")
    assert "example.org" not in re.sub(r"src='data:[^']*'", "", page)


def test_text_from_data_is_no_markup(page):
    assert EVIL not in page.replace(f"'{EVIL}'", "")
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 6


def test_every_part_of_a_record_is_shown(page):
    words = " ".join(" ".join(Reader(page).texts).split())
    for part in ("Title of A.paths", "What is said.", "3 of 4 instances", "v1, Theorem 4",
                 "0.99999", "≥ 0.9", "inf", "certified gap at most 1.0e-12", "not certified",
                 "4 rows", "4 studies", "What fails", "reproduce A.paths --quick"):  # fmt: skip
        assert part in words, part
    for text in MEANING.values():
        assert text in words


def test_every_kind_and_source_is_explained():
    from typing import get_args

    assert set(KINDS) == set(get_args(Kind)) and set(SOURCES) == set(get_args(Source))


def test_the_page_of_a_run(tmp_path):
    run_studies([made(), made("Z.swept", checks=None)], tmp_path)
    words = " ".join(Reader(write_report(tmp_path).read_text()).texts)
    assert "A note." in words and "measured" in words and "tables/Z.sizes.csv" in words


def test_a_figure_that_is_too_large_becomes_a_png(tmp_path):
    folder = made_up(tmp_path)
    file = folder / "figures/A.paths.svg"
    file.write_text(file.read_text().replace("<metadata>", f"<metadata>{'x' * 300_000}"))
    html = render_report(folder, [record("A.paths")])
    assert "data:image/png" in html and "data:image/svg" not in html
    for harm in ("<svg", ""):
        file.write_text(harm)
        assert "data:image/png" in render_report(folder, [record("A.paths")])


def test_every_claim_of_the_page_has_a_verdict():
    """docs/claims.md is the generated page, and each study in it has a verdict."""
    assert listed.PAGE.read_text("utf-8") == listed.page()
    rows = re.findall(r"^\| `[\w.-]+` \| ([^|]*) \|", listed.page(), re.M)
    assert len(rows) == len(studies()) and set(rows) <= {*VERDICTS}


@pytest.mark.parametrize("word", MEANING)
def test_a_verdict_is_explained_in_one_sentence(word):
    assert MEANING[word].count(".") == 1 and MEANING[word].endswith(".")


def test_bad_results_are_one_sentence(tmp_path):
    with pytest.raises(BadTokens, match=r"has no results\.json"):
        read_results(tmp_path)
    for harm in ("{", "{}", "[1]"):
        (tmp_path / "results.json").write_text(harm)
        with pytest.raises(BadTokens, match="`attsvm report` rewrites it"):
            read_results(tmp_path)


def test_the_list_of_studies():
    page = listed.studies_page([made(), made("Z.other", kind="theorem", source="from memory")],
                        {"Z.sizes": record("Z.sizes")})  # fmt: skip
    assert (
        "| `Z.sizes` | holds | figure |" in page and "| `Z.other` | not run | statement |" in page
    )
    assert listed.cell("a|b <c> *d* _e_\nf") == "a\\|b &lt;c> \\*d\\* \\_e\\_ f"
