"""The page: whole in one file, everything from data as text, names unique, pictures made safe."""

import json
import re
import tomllib
from html import unescape
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from attsvm.errors import BadTokens
from attsvm.experiments.reproduce.page.claim import KINDS, LEAD, MEANING, TRUST, failure
from attsvm.experiments.reproduce.page.document import PICTURES, write_page
from attsvm.experiments.reproduce.page.figure import picture
from attsvm.plotting.html.shell import svg_image
from tests.conventions.tree import PACKAGE, ROOT
from tests.experiments.reproduce.folders import EVIL, PNG, SVG, made_up, record
from tests.html_page import Page


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> str:
    return write_page(made_up(tmp_path_factory.mktemp("made-up"))).read_text("utf-8")


@pytest.fixture(scope="module")
def page(html) -> Page:
    return Page(html)


def test_text_from_data_is_never_markup(html, page):
    assert EVIL not in html
    assert page.text["h3"].count(EVIL) == 1
    assert len(page.all("script")) == 3, "two moving pictures and the page's own"
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    motions = [text for text in page.text["script"] if text.startswith("{")]
    assert json.loads(motions[1])["title"] == f"Basins {EVIL}"


def test_names_are_unique_and_references_lead_somewhere(html, page):
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(names) == len(set(names))
    asked = re.findall(r'href="#([^"]+)"', html) + re.findall(r"url\(#([^)$]+)\)", html)
    assert len(asked) > 6 and set(asked) <= set(names)
    for attribute in ("aria-labelledby", "for"):
        assert {a[attribute] for _, a in page.elements if attribute in a} <= set(names)


def test_nothing_is_asked_of_a_network(html):
    addresses = set(re.findall(r"\w+://[^\"'\s)]*", re.sub(r"src='data:[^']*'", "", html)))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a name of SVG, not a place"
    assert "default-src 'none'" in html and "img-src data:" in html
    assert all(image["src"].startswith("data:image/") for image in Page(html).all("img"))


def test_the_page_can_be_read_aloud(page):
    assert page.all("html") == [{"lang": "en"}]
    assert {"main", "header", "footer", "h1"} <= {tag for tag, _ in page.elements}
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(headings))
    assert page.all("img")[0]["alt"] == "Title of A.paths: holds"
    assert all(a.get("scope") in ("col", "row") for a in page.all("th"))
    assert any(a.get("aria-live") == "polite" for a in page.all("p"))


def test_every_part_of_a_record_is_told(html):
    text = unescape(re.sub(r"<[^>]+>", " ", html))
    for words in (
        "3 of 4 instances", "0.99999", "≥ 0.9", "inf", KINDS["figure"],
        TRUST["code"], "certified gap at most 1.0e-12", "not certified",
        "attsvm reproduce A.paths --quick", "of running, without compiling",
        "Differs from what is published", "Max-Margin Token Selection", "Beyond the papers",
        "0.0.1", "No picture is on file.", "4.2 s", "v1, Theorem 4", "half of the instances",
    ):  # fmt: skip
        assert words in text, words


def test_the_first_screen_says_what_is_meant(page):
    """What this is, and every word of a verdict, before the first table."""
    first = next(k for k, (tag, _) in enumerate(page.elements) if tag == "table")
    tags = [tag for tag, _ in page.elements[:first]]
    assert tags.count("dt") == 5 == len(MEANING) and LEAD in page.text["p"]
    assert MEANING["fails"].endswith("not a fault of the run.")
    assert [word for word in page.text["dd"][:5]] == list(MEANING.values())


def test_the_verdict_stands_beside_what_is_known(html):
    for _, rest in zip(range(4), html.split('<article class="claim')[1:], strict=True):
        head = rest.split("</header>")[0]
        assert re.search(r'class="badge \w+">.*</span> <span class="tag" title="[^"]+">code<', head)


def test_what_fails_is_told_near_the_top(html):
    """The statement, what was run, what was not met and why; a page without failures has none."""
    part = html.split('id="failures"')[1].split("</section>")[0]
    assert html.index('id="failures"') < html.index('id="claims"')
    said = unescape(re.sub(r"<[^>]+>", " ", part))
    for words in ("A.markup", "fails", "What is released", TRUST["code"], "What was run", EVIL):
        assert words in said, words
    assert "A.paths" not in said and "B.basins" not in said
    assert said.count(EVIL) == 4, "statement, premises, reason and what differs"


def test_a_missed_number_is_told_where_a_claim_fails():
    rows = [
        {"what": "cosine", "seen": 0.5, "asked": "≥ 0.9", "met": False},
        {"what": "norm", "seen": 1.0, "asked": "≤ 2", "met": True},
    ]
    said = failure(record("A.x", verdict="fails", numbers=rows, kind="question"))
    assert "<li>cosine: 0.5, asked ≥ 0.9</li>" in said and "norm" not in said
    assert "What was asked" in said


def test_questions_of_ours_are_no_faults_of_papers(tmp_path):
    folder = made_up(tmp_path)
    failing = [record(f"B.{kind}", kind=kind, verdict="fails") for kind in ("question", "theorem")]
    other = record("B.small", verdict="not reproduced at this size")
    (folder / "results.json").write_text(json.dumps([*failing, other]))
    html = write_page(folder).read_text("utf-8")
    part = html.split('id="failures"')[1].split("</section>")[0]
    papers, ours = part.split("<h3>Questions of ours, answered no</h3>")
    assert "Statements of papers that fail" in papers and "#B.theorem" in papers
    assert "#B.question" in ours and "#B.question" not in papers and "#B.theorem" not in ours
    assert "B.small" not in part and 'class="badge not"' in html
    assert "1 from papers and 1 of our own questions" in html


def test_a_page_without_failures_has_no_such_part(tmp_path):
    folder = made_up(tmp_path)
    (folder / "results.json").write_text(json.dumps([record("A.paths")]))
    assert "failures" not in write_page(folder).read_text("utf-8").split("</style>")[1]


def test_a_moving_picture_has_a_way_to_the_still_one(page):
    moves = [a["id"] for a in page.all("article") if "moves" in a["class"].split()]
    assert moves == ["A.paths", "B.basins"]
    assert [a["class"] for a in page.all("button") if a.get("class") == "still"] == ["still"] * 2


def test_captions_say_what_was_judged(page):
    assert (
        "A.paths · holds · config 0123456789ab · certified gap at most 1.0e-12"
        in (page.text["figcaption"])
    )


def test_only_times_differ_between_two_runs(tmp_path):
    first = made_up(tmp_path / "a")
    second = made_up(tmp_path / "b")
    slow = json.loads((second / "results.json").read_text())
    (second / "results.json").write_text(json.dumps([{**r, "seconds": 77.7} for r in slow]))
    pages = [write_page(folder).read_text("utf-8") for folder in (first, second)]
    timeless = [re.sub(r'(<span class="seconds">)[^<]*', r"\1", text) for text in pages]
    assert pages[0] != pages[1] and timeless[0] == timeless[1]


def test_a_picture_is_an_image_in_which_nothing_runs():
    drawn = svg_image(SVG, 'it\'s a "title"')
    (image,) = Page(drawn).all("img")
    assert image["alt"] == 'it\'s a "title"' and "10.123456" not in drawn
    kind, _, content = image["src"].partition(",")
    assert kind == "data:image/svg+xml" and "<" not in content and "#" not in content
    whole = ElementTree.fromstring(unquote(content))
    assert len(list(whole.iter())) == len(list(ElementTree.fromstring(SVG).iter()))


def test_a_large_picture_becomes_an_image(tmp_path):
    folder = made_up(tmp_path)
    words = {"described": "words"}
    assert picture(folder, "A.paths", **words).startswith('<img class="drawn"')
    small = picture(folder, "A.paths", most=10, **words)
    assert small.startswith('<img alt="words" src="data:image/png;base64,')
    (folder / "figures" / "A.paths.svg").write_text("<svg")
    assert picture(folder, "A.paths", **words).startswith("<img alt"), "a broken SVG"
    (folder / "figures" / "A.paths.png").write_bytes(b"no picture")
    assert "No picture" in picture(folder, "A.paths", **words)


def test_many_large_pictures_make_no_large_page(tmp_path):
    folder = made_up(tmp_path)
    path = "M 0 0 " + "L 10.12 3.45 " * 15_000
    large = SVG.replace("M 0 0 L 72 36", path)
    names = [f"A.made-up-{k}" for k in range(45)]
    for name in names:
        (folder / "figures" / f"{name}.svg").write_text(large)
        (folder / "figures" / f"{name}.png").write_bytes(PNG + bytes(90_000))
    (folder / "results.json").write_text(json.dumps([record(name) for name in names]))
    size = write_page(folder).stat().st_size
    assert 45 * 120_000 < size < 8e6 and PICTURES < 8e6


@pytest.mark.parametrize("content", ["{", "[1]", '{"id": 1}', '[{"id": "A.x"}]'])
def test_results_that_are_no_records_are_refused(tmp_path, content):
    folder = made_up(tmp_path)
    (folder / "results.json").write_text(content)
    with pytest.raises(BadTokens, match=r"results\.json"):
        write_page(folder)
    assert not (folder / "report.html").exists()


def test_an_empty_reproduction_has_a_page(tmp_path):
    folder = made_up(tmp_path)
    (folder / "results.json").write_text("[]")
    assert "0 claims" in write_page(folder).read_text("utf-8")


def test_the_files_beside_the_code_are_packaged():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["attsvm"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    beside = {p for p in PACKAGE.rglob("*") if p.suffix in (".css", ".js", ".html", ".typed")}
    assert beside and beside <= packed
    assert {Path(path).name for path in beside} >= {"style.css", "motion.js"}
