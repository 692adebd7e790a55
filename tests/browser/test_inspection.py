"""The page of an inspection in a real browser: the map changes its measure, heads open."""

import numpy as np
import pytest

from attsvm.inspection import InspectionConfig, inspect
from attsvm.inspection.models import load

CELLS = "[...document.querySelectorAll('table.map td a')].map(e => e.textContent)"
OPEN = "[...document.querySelectorAll('article.head.open')].map(e => e.id)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of an inspection of a tiny model, on letters."""
    pytest.importorskip("transformers")
    from tests.inspection.tiny import build, tokenizer

    place = tmp_path_factory.mktemp("inspection")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), 9)) for _ in range(30)]
    model = load(build("bert"), tokenizer())
    config = InspectionConfig(fit=10, test=20, draws=1, nuclear_draws=-1, attacks=5, cross=False)
    found = inspect(model, texts, config=config, length=12)
    return found, found.save(place / "out")


@pytest.fixture
def page(started, folder):
    started.open(folder[1])
    yield started
    assert started.faults() == []
    assert [u for u in started.requests() if not u.startswith(("file:", "data:"))] == []


def test_the_map_shows_the_measure_that_is_chosen(page, folder):
    records = folder[0].records
    for name in ("sharpness", "svm_agreement", "int8_safe"):
        page.value(
            f"""(() => {{ const field = document.getElementById("measure"); field.value = "{name}";
            field.dispatchEvent(new Event("input", {{bubbles: true}})); }})()"""
        )
        shown = [float(word) for word in page.value(CELLS)]
        assert shown == pytest.approx([r[name] for r in records], rel=0.06, abs=1e-9)


def test_a_link_opens_one_head(page):
    assert len(page.value(OPEN)) == 1
    page.value("document.querySelector('table.map td a').click()")
    page.until(f"{OPEN}[0] === 'L0H0'")
    assert page.value(OPEN) == ["L0H0"]


def test_nothing_is_wider_than_a_phone(page):
    page.ask(
        "Emulation.setDeviceMetricsOverride",
        width=360, height=700, deviceScaleFactor=1, mobile=True,
    )  # fmt: skip
    try:
        assert page.value("document.documentElement.scrollWidth") <= 360
    finally:
        page.ask("Emulation.clearDeviceMetricsOverride")
