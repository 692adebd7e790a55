"""The page in a real browser: nothing goes wrong, the filter filters, the pictures move.

Skipped where there is no browser, unless ATTSVM_REQUIRE_BROWSER is set.
"""

import pytest
from attsvm.experiments.reproduce.page.document import write_page

from tests.experiments.reproduce.folders import EVIL, made_up

SHOWN = """[...document.querySelectorAll("%s")].filter(e => !e.hidden).map(e => e.dataset.claim)"""
ROWS, ARTICLES = SHOWN % "table.claims tbody tr", SHOWN % "article.claim"
ALL = ["A.paths", "A.markup", "B.basins", "beyond.plain"]
COUNT = "document.getElementById('count').textContent"
TAB, RIGHT, HOME = 9, 39, 36


@pytest.fixture
def page(started, tmp_path):
    """The page of a made-up reproduction, open; at the end nothing may have gone wrong."""
    started.ask("Emulation.setEmulatedMedia", media="", features=[])
    started.open(write_page(made_up(tmp_path)))
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


def test_all_claims_are_shown_first(page):
    assert page.value(ROWS) == page.value(ARTICLES) == ALL
    assert page.value(COUNT) == "4 claims"


def test_text_from_data_is_shown_as_text(page):
    title = "document.querySelector('[id=\"A.markup\"] h3').textContent"
    assert page.value(title) == EVIL
    for number in (0, 1):
        show(page, number)
    assert page.value("document.querySelectorAll('figure.moving > svg').length") == 2
    captions = "[...document.querySelectorAll('.moving figcaption b')].map(e => e.textContent)"
    assert page.value(captions)[1] == f"Basins {EVIL}"


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
    assert page.value(COUNT) == f"{len(left)} of 4 claims"
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
    page.until(f"{COUNT} === '4 claims'")


def test_a_count_filters_by_its_verdict(page):
    button = "document.querySelector('[data-set-verdict=undecided]')"
    page.value(f"{button}.click()")
    assert page.value(ARTICLES) == ["B.basins"]
    assert page.value(f"{button}.getAttribute('aria-pressed')") == "true"
    page.value(f"{button}.click()")
    assert page.value(ARTICLES) == ALL


def test_a_link_to_a_hidden_claim_shows_it(page):
    choose(page, "verdict", "fails")
    page.value("location.hash = '#B.basins'")
    page.until(f"{ARTICLES}.length === 4")


def moving(number):
    """The place of a moving picture, scrolled to and drawn."""
    return f"document.querySelectorAll('figure.moving')[{number}]"


def show(page, number):
    page.value(f"{moving(number)}.scrollIntoView()")
    page.until(f"{moving(number)}.querySelector('svg') !== null")


def test_the_slider_moves_the_paths(page):
    show(page, 0)
    place = f"{moving(0)}.querySelector('.trail').getAttribute('points')"
    step = f"{moving(0)}.querySelector('output').textContent"
    last = page.value(place)
    assert page.value(step) == "step 1,000"
    page.value(f"{moving(0)}.querySelector('input[type=range]').focus()")
    page.press("Home", HOME)
    assert page.value(step) == "step 0"
    first = page.value(place)
    page.press("ArrowRight", RIGHT)
    assert page.value(step) == "step 10"
    second = page.value(place)
    assert len({first, second, last}) == 3
    assert len(first.split()) == 1 and len(second.split()) == 2
    legend = f"[...{moving(0)}.querySelectorAll('.legend li')].map(e => e.textContent)"
    assert page.value(legend) == ["token 0", "token 1", "limit"]
    label = f"document.querySelector('label[for={moving_id(page, 0)}-slider]').textContent"
    assert page.value(label) == "Iteration"
    heads = f"[...{moving(0)}.querySelectorAll('circle:not(.ring)')].map(e => e.style.display)"
    page.press("End", 35)
    assert page.value(heads) == ["none", ""], "a place that is not known is not drawn"


def moving_id(page, number):
    return page.value(f"{moving(number)}.dataset.motion")


def test_the_slider_recolours_the_basins(page):
    show(page, 1)
    colours = (
        f"[...{moving(1)}.querySelectorAll('svg > g rect:not(.frame)')].map(e => e.style.fill)"
    )
    assert page.value(colours) == ["var(--orange)"] * 4
    page.value(f"{moving(1)}.querySelector('input[type=range]').focus()")
    page.press("Home", HOME)
    assert page.value(colours) == ["var(--blue)"] * 4


def test_values_are_read_by_keyboard_and_by_pointer(page):
    show(page, 0)
    values = f"{moving(0)}.querySelector('.values').textContent"
    page.value(f"{moving(0)}.querySelector('svg').focus()")
    page.press("ArrowRight", RIGHT)
    assert page.value(values).startswith("start two: first 9, second 3, token 1 at iteration 1000")
    page.press("ArrowLeft", 37)
    assert page.value(values).startswith("start one: first 4, second not known")
    where = page.value(
        f"(() => {{ const b = [...{moving(0)}.querySelectorAll('circle')]"
        ".find(c => !c.style.display && !c.classList.contains('ring')).getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
    page.until(f"{values}.startsWith('start two')")


def test_play_runs_to_the_end(page):
    show(page, 0)
    step = f"{moving(0)}.querySelector('output').textContent"
    assert page.value(f"{moving(0)}.querySelector('button').click(), {step}") == "step 0"
    page.until(f"{step} === 'step 1,000'")
    page.until(f"{moving(0)}.querySelector('button').textContent === 'Play'")


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
    assert page.value(display % "article.claim") == ["block"] * 4
    assert page.value(display % "table.claims tbody tr") == ["table-row"] * 4
    assert set(page.value(display % ".control")) == {"none"}
    assert set(page.value(display % "figure.moving")) == {"none"}, "the still picture is printed"
    assert page.value(display % "figure.figure") == ["block"] * 4


SEEN = "[...document.querySelectorAll('%s')].map(e => e.getClientRects().length > 0)"


def test_no_still_picture_stands_beside_its_moving_twin(page):
    still, moves = SEEN % "article.moves .figure", SEEN % "article.moves .moving"
    assert page.value(still) == [False, False] and page.value(moves) == [True, True]
    page.value("document.querySelector('button.still').click()")
    assert page.value(still) == [True, False] and page.value(moves) == [False, True]
    page.value("document.querySelector('button.still').click()")
    assert page.value(still) == [False, False] and page.value(moves) == [True, True]
    plain = "article.claim:not(.moves) .figure"
    assert page.value(SEEN % plain) == [True, True]


def test_a_phone_shows_verdicts_and_pictures_scroll_by_themselves(page):
    """The page is as wide as a phone, every verdict is in sight beside its claim."""
    page.value("document.querySelector('button.still').click()")
    beyond = "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.stands .scroll'))"
    assert page.value(beyond) is False
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.ask("Emulation.setDeviceMetricsOverride", **size)
    try:
        assert page.value(beyond) is True, "a picture too small to read"
        assert page.value("document.documentElement.scrollWidth") == 400
        ends = (
            "[...document.querySelectorAll('table.claims .badge, article.claim .badge, .tiles b')]"
        )
        seen = page.value(
            f"{ends}.map(e => e.getBoundingClientRect()).map(b => b.width > 0 && b.right <= 400)"
        )
        assert len(seen) == 12 and all(seen)
        lines = "[...document.querySelectorAll('table.claims tr .badge')]"
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


CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found[3] > 0) return found;
    }
    return [255, 255, 255, 255];
  };
  const weak = [];
  for (const e of document.querySelectorAll("body *:not(script):not(svg):not(svg *):not(option)")) {
    const words = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join("");
    if (!words || e.offsetParent === null) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${words.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return weak;
})()"""
