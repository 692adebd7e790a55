"""The playground: its numbers are the library's, its points move, bad input gets a sentence."""

import json
import re
import warnings

import numpy as np
import pytest

import attsvm
from attsvm.plotting.play import page as playground
from attsvm.plotting.play import presets
from tests.browser.chromium import CONTRAST

NORMS = {"frobenius": 2, "l1.5": 1.5, "max": "Infinity"}
RUNS = {
    "gd": ("gd", 2), "ngd": ("ngd", 2), "sign": ("sign", 2),
    "mirror:1.5": ("mirror", 1.5), "nmirror:3": ("nmirror", 3),
}  # fmt: skip
CLOSE = 1e-6
REMARKS = "document.getElementById('remarks').innerText"
SEEN = "document.body.innerText"
LABELS = "[...document.querySelectorAll('.handle')].map(e => e.getAttribute('aria-label'))"
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def random_instance(rng):
    """Two to four inputs of two to four tokens, with a start."""
    inputs = [
        {
            "label": int(rng.choice([-1, 1])),
            "tokens": [
                {"x": x.tolist(), "c": 0.0} for x in rng.normal(size=(rng.integers(2, 5), 2))
            ],
        }
        for _ in range(rng.integers(2, 5))
    ]
    instance = {"v": rng.normal(size=2).tolist(), "inputs": inputs}
    return {"instance": instance, "start": (0.3 * rng.normal(size=2)).tolist()}


def in_library(instance):
    """Tokens and head of an instance; a third coordinate carries the tokens' own scores."""
    inputs = instance["inputs"]
    X = np.zeros((len(inputs), max(len(i["tokens"]) for i in inputs), 3))
    mask = np.zeros(X.shape[:2], dtype=bool)
    for i, given in enumerate(inputs):
        for t, token in enumerate(given["tokens"]):
            X[i, t], mask[i, t] = [*token["x"], token["c"]], True
    labels = [given["label"] for given in inputs]
    tokens = attsvm.Tokens(X, keys=X * [1.0, 1.0, 0.0], labels=labels, mask=mask)
    return tokens, np.array([*instance["v"], 1.0])


def ended(example, optimizer, shift=0.0):
    """p after 500 steps of the library."""
    tokens, v = in_library(example["instance"])
    start = np.array([*example["start"], 0.0]) + shift * np.array([1.0, 1.0, 0.0])
    settings = {"model": "prompt", "head": v, "lr": 0.1, "steps": 500, "init": {"p": start}}
    return attsvm.train(tokens, optimizer=optimizer, **settings).matrices()[-1, 0, :2, 0]


def steady(example):
    """Whether the library's own runs forget a change of the start by 1e-13: no oscillation does."""
    return all(np.abs(ended(example, o) - ended(example, o, 1e-13)).max() < 1e-9 for o in RUNS)


@pytest.fixture(scope="module")
def examples():
    """Ten random instances, drawn in order, and those of the page."""
    rng = np.random.default_rng(5)
    drawn = (random_instance(rng) for _ in range(100))
    kept = [example for example, _ in zip(filter(steady, drawn), range(10), strict=False)]
    assert len(kept) == 10
    return [*kept, *presets()]


@pytest.fixture
def page(started, tmp_path):
    """The page, open; at the end nothing may have gone wrong, or been asked for."""
    file = tmp_path / "play.html"
    file.write_text(playground(), "utf-8")
    started.open(file)
    yield started
    assert started.faults() == []
    assert [url for url in started.requests() if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("norm", NORMS)
def test_every_selection_is_that_of_the_library(page, examples, norm):
    kinds = set()
    for example in examples:
        tokens, v = in_library(example["instance"])
        data = json.dumps(example["instance"])
        found = page.value(f"attsvm.localOptima({data}, {NORMS[norm]})")
        for one in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", attsvm.errors.ConvergenceWarning)
                own = attsvm.optimality(tokens, one["selection"], v, norm, tol=1e-13)
            kinds.add(one["kind"])
            if one["kind"] != "undecided" or one["unique"]:  # the max norm has several solutions
                assert one["kind"] == own.kind, (one["selection"], own.message)
            if own.certificate.W is not None:
                p = own.certificate.W[:2, 0]
                assert one["upper"] == pytest.approx(own.certificate.upper, rel=CLOSE)
                assert one["lower"] <= one["upper"] and 0 < one["gap"] < 1e-10
                if one["unique"]:
                    assert np.abs(p - one["p"]).max() < CLOSE * own.certificate.upper
    assert kinds - {"undecided"} == {"global", "local", "neither", "infeasible"}


@pytest.mark.parametrize("name", RUNS)
def test_training_ends_where_the_library_does(page, examples, name):
    optimizer, P = RUNS[name]
    for example in examples:
        data, start = json.dumps(example["instance"]), example["start"]
        options = json.dumps(
            {"optimizer": optimizer, "P": P, "start": start, "lr": 0.1, "steps": 500}
        )
        p = page.value(f"attsvm.train({data}, {options}).p")
        own = ended(example, name)
        assert np.abs(own - p).max() < CLOSE * max(1.0, np.abs(own).max())


def test_the_page_is_one_small_file_that_names_no_address():
    text = playground()
    assert len(text.encode()) < 300_000
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) == {"http://www.w3.org/2000/svg"}


def press(page, selector):
    page.value(f"document.querySelector({json.dumps(selector)}).click()")
    page.value(FRAME)


def put(page, label, value):
    """Write a number into the field of this label."""
    field = json.dumps(f'#editor [aria-label="{label}"]')
    page.value(
        f"(() => {{ const field = document.querySelector({field}); field.value = '{value}';"
        "field.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    page.value(FRAME)


def numbers_are_numbers(page):
    seen = page.value(f"{SEEN} + document.getElementById('drawing').innerHTML")
    assert not re.search(r"NaN|undefined|Infinity|null", seen)


@pytest.mark.parametrize("optimizer", ["gd", "ngd", "sign", "mirror", "nmirror"])
def test_bad_input_gets_a_sentence(page, optimizer):
    page.value(f"document.getElementById('optimizer').value = '{optimizer}'")
    for j, x in ((1, 0.35), (2, 0.1)):  # A1 on A0
        put(page, f"x{j} of token A1", x)
    assert "Tokens A0 and A1 are in the same place" in page.value(REMARKS)
    assert "infeasible: not above A1 at once" in page.value(SEEN)
    numbers_are_numbers(page)
    put(page, "x2 of token A0", "")  # no number: it is put back
    put(page, "x1 of token A1", 1e6)
    numbers_are_numbers(page)
    for j in (1, 2):
        put(page, f"entry {j} of p₀", 0)
    assert "starts at p = 0" in page.value(REMARKS)
    for j in (1, 2):
        put(page, f"entry {j} of v", 0)
    assert "the gradient is zero and p stays" in page.value(REMARKS)
    assert "p = 0 has no direction" in page.value(SEEN)
    numbers_are_numbers(page)
    for letter in "AB":
        for _ in range(2):
            press(page, f'#editor [aria-label="Remove token {letter}0"]')
    assert "Every input has one token" in page.value(REMARKS)
    numbers_are_numbers(page)


def test_no_separating_direction(page):
    press(page, '[aria-label="Remove input B"]')
    for name, x in (("A0", -0.5), ("A1", 0.1), ("A2", 0.5)):
        put(page, f"x1 of token {name}", x)
        put(page, f"x2 of token {name}", 0)
    press(page, '[data-selection="A1"]')
    facts = page.value("document.getElementById('facts').innerText")
    assert "no p satisfies the constraints: not above A2, A0 at once" in facts
    for name in ("A0", "A1", "A2"):
        put(page, f"x1 of token {name}", 0.25)
    assert "there is no separating direction" in page.value(REMARKS)
    numbers_are_numbers(page)


def place(page, k):
    """Where handle k is, in pixels of the window."""
    box = f"document.querySelectorAll('.handle')[{k}].querySelector('.reach')"
    page.value(f"{box}.scrollIntoView({{block: 'center'}})")
    at = f"(e => [e.left + e.width / 2, e.top + e.height / 2])({box}.getBoundingClientRect())"
    return page.value(at)


def test_points_move_by_mouse_touch_and_keys(page):
    names = page.value(LABELS)
    assert [name.split(" at ")[0] for name in names] == [
        *(f"Token {i}{t}" for i in "AB" for t in range(3)), "Prediction head v", "Start p0",
    ]  # fmt: skip
    x, y = place(page, 0)
    for kind, dx in (("mousePressed", 0), ("mouseMoved", 40), ("mouseReleased", 40)):
        page.ask(
            "Input.dispatchMouseEvent", type=kind, x=x + dx, y=y, button="left", buttons=1,
            clickCount=1,
        )  # fmt: skip
    page.until(f"{LABELS}[0] !== {json.dumps(names[0])}")
    page.ask("Emulation.setTouchEmulationEnabled", enabled=True)
    x, y = place(page, 7)
    for kind, dy in (("touchStart", 0), ("touchMove", 30), ("touchMove", 60)):
        page.ask("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y + dy}])
    page.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.ask("Emulation.setTouchEmulationEnabled", enabled=False)
    page.until(f"{LABELS}[7] !== {json.dumps(names[7])}")
    page.value("document.querySelectorAll('.handle')[0].focus()")
    page.press("Tab", 9)
    page.press("ArrowUp", 38)
    page.until(f"{LABELS}[1] !== {json.dumps(names[1])}")
    press(page, "#again")
    assert page.value(LABELS) == names


def test_regions_are_shaded_on_request(page):
    ink = (
        "(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x > 0))"
        "(document.getElementById('ground'))"
    )
    assert page.value(ink) is False
    press(page, "#basins")
    page.until("document.getElementById('progress').textContent.startsWith('Largest attention')")
    assert page.value(ink) is True
    press(page, "#basins")
    assert page.value(ink) is False


def test_a_phone_shows_it_all_and_words_have_contrast(page):
    size = {"width": 400, "height": 850, "deviceScaleFactor": 1, "mobile": True}
    page.ask("Emulation.setDeviceMetricsOverride", **size)
    try:
        page.value("document.querySelector('details').open = true")
        page.value(FRAME)
        assert page.value("document.documentElement.scrollWidth") == 400
        for theme in ("light", "dark"):
            page.value(f"document.documentElement.dataset.theme = '{theme}'")
            assert page.value(CONTRAST) == []
    finally:
        page.ask("Emulation.clearDeviceMetricsOverride")
    nameless = (
        "[...document.querySelectorAll('button, input, select, .handle')].filter(e => !("
        "e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()))"
        ".map(e => e.outerHTML)"
    )
    assert page.value(nameless) == []
