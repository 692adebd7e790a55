"""The page in a real browser: nothing goes wrong, the filter filters, figures are in sight.

Skipped where there is no browser, unless ATTSVM_REQUIRE_BROWSER is set.
"""

import pytest

from attsvm.experiments.report import write_report
from tests.browser.chromium import CONTRAST
from tests.experiments.folders import EVIL, made_up

SHOWN = """[...document.querySelectorAll("%s")].filter(e => !e.hidden).map(e => e.dataset.study)"""
ROWS, ARTICLES = SHOWN % "table.studies tbody tr", SHOWN % "article.study"
ALL = ["A.paths", "A.markup", "B.basins", "beyond.plain"]
COUNT = "document.getElementById('count').textContent"
TAB = 9


@pytest.fixture
def page(started, tmp_path):
    """The page of a made-up reproduction, open; at the end nothing may have gone wrong."""
    started.ask("Emulation.setEmulatedMedia", media="", features=[])
    started.open(write_report(made_up(tmp_path)))
    yield started
    assert started.faults() == []
    asked = [url for url in started.requests() if not url.startswith(("file:", "data:"))]
    assert asked == []


def choose(page, name, value):
    page.value(
        f"""(() => {{ const field = document.getElementById("by-{name}"); field.value = "{value}";
        field.dispatchEvent(new Event("input", {{bubbles: true}})); }})()"""
    )


def test_a_fault_is_seen(started, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><title>x</title><script>alert(1); console.error('a');"
        "setTimeout(() => { throw new Error('b') })</script>"
    )
    started.open(bad)
    started.until("new Promise(done => setTimeout(() => done(true), 50))")
    assert len(started.faults()) == 3, "a dialog, an error on the console, an exception"


def test_all_studies_are_shown_first(page):
    assert page.value(ROWS) == page.value(ARTICLES) == ALL
    assert page.value(COUNT) == "4 studies"


def test_text_from_data_is_shown_as_text(page):
    title = "document.querySelector('[id=\"A.markup\"] h3').textContent"
    assert page.value(title) == EVIL
    numbers = "document.querySelector('[id=\"A.markup\"] table.numbers th[scope=row]').textContent"
    assert page.value(numbers) == EVIL


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("paper", "A", ALL[:2]),
        ("verdict", "fails", ["A.markup"]),
        ("kind", "theorem", ["B.basins"]),
        ("text", "BASINS title", ["B.basins"]),
        ("text", "no such words", []),
    ],
)
def test_the_filter(page, name, value, left):
    choose(page, name, value)
    assert page.value(ROWS) == page.value(ARTICLES) == left
    assert page.value(COUNT) == f"{len(left)} of 4 studies"
    assert page.value("document.getElementById('nothing').hidden") == bool(left)
    empty = "[...document.querySelectorAll('section.paper')].filter(e => !e.hidden).length"
    assert page.value(empty) == len({entry.partition(".")[0] for entry in left})


def test_the_filter_works_from_the_keyboard(page):
    page.press("/", 191)
    page.type("plain")
    assert page.value("document.activeElement.id") == "by-text"
    assert page.value(ROWS) == ["beyond.plain"]
    seen = []
    for _ in range(4):
        page.press("Tab", TAB)
        seen.append(page.value("document.activeElement.id || document.activeElement.type"))
    assert seen == ["by-paper", "by-verdict", "by-kind", "reset"]
    page.press(" ", 32)
    page.until(f"{COUNT} === '4 studies'")


def test_a_link_to_a_hidden_study_shows_it(page):
    choose(page, "verdict", "fails")
    page.value("location.hash = '#B.basins'")
    page.until(f"{ARTICLES}.length === 4")


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_dark_and_light(page):
    features = [{"name": "prefers-color-scheme", "value": "light"}]
    page.ask("Emulation.setEmulatedMedia", media="", features=features)
    light = page.value(BACKGROUND)
    features[0]["value"] = "dark"
    page.ask("Emulation.setEmulatedMedia", media="", features=features)
    dark = page.value(BACKGROUND)
    assert light != dark
    page.value("document.getElementById('theme').click()")
    assert page.value(BACKGROUND) == light
    assert page.value("document.getElementById('theme').textContent") == "Dark"
    page.value("localStorage.clear()")


def test_the_print_shows_everything_and_no_controls(page):
    choose(page, "verdict", "fails")
    page.ask("Emulation.setEmulatedMedia", media="print")
    display = "[...document.querySelectorAll('%s')].map(e => getComputedStyle(e).display)"
    assert page.value(display % "article.study") == ["block"] * 4
    assert page.value(display % "table.studies tbody tr") == ["table-row"] * 4
    assert set(page.value(display % ".control")) == {"none"}
    assert page.value(display % "figure.figure") == ["block"] * 3


def test_a_phone_shows_verdicts_and_pictures_scroll_by_themselves(page):
    """The page is as wide as a phone, every verdict is in sight beside its claim."""
    beyond = "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.figure .scroll'))"
    assert page.value(beyond) is False
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.ask("Emulation.setDeviceMetricsOverride", **size)
    try:
        assert page.value(beyond) is True, "a picture too small to read"
        assert page.value("document.documentElement.scrollWidth") == 400
        ends = (
            "[...document.querySelectorAll('table.studies .badge, article.study .badge, .tiles b')]"
        )
        seen = page.value(
            f"{ends}.map(e => e.getBoundingClientRect()).map(b => b.width > 0 && b.right <= 400)"
        )
        assert len(seen) == 12 and all(seen)
        lines = "[...document.querySelectorAll('table.studies tr .badge')]"
        assert page.value(
            f"{lines}.every(e => {{ const row = e.closest('tr'), name = row.querySelector('a');"
            " return Math.abs(e.getBoundingClientRect().top - name.getBoundingClientRect().top)"
            " < 12; })"
        )
    finally:
        page.ask("Emulation.clearDeviceMetricsOverride")


def test_contrast_is_enough(page):
    """Every word that is seen has the contrast that WCAG AA asks for, in light and in dark."""
    for theme in ("light", "dark"):
        page.value(f"document.documentElement.dataset.theme = '{theme}'")
        weak = page.value(CONTRAST)
        assert weak == [], theme
