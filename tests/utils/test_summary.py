"""A card within one screen, whatever is written on it."""

import pytest

from attsvm._utils.result import LINES, WIDTH, Summary, as_text, format_value

WILD = [
    "",
    "x" * 5000,
    "a b " * 2000,
    "line\nbreak\ttab",
    "\x1b[31mred\x00",
    "中文" * 300,
    "<b>&'\"",
]


@pytest.mark.parametrize("word", WILD)
@pytest.mark.parametrize(("rows", "facts"), [(0, 0), (1, 60), (3, 1), (200, 60)])
def test_text_stays_within_a_screen(word, rows, facts):
    table = {f"{word}{k}": [word] * rows for k in range(40)} if rows else {}
    card = Summary(
        "Wild", word, {f"fact {k} {word[:20]}": word for k in range(facts)}, table, note=word
    )
    lines = as_text(card).split("\n")
    assert len(lines) <= LINES and max(map(len, lines)) <= WIDTH
    assert all(c.isprintable() for line in lines for c in line)


def test_values_have_few_digits():
    assert format_value(float("nan")) == format_value(None) == "not known"
    assert format_value(float("inf")) == "inf"
    assert format_value(1234567) == "1,234,567"
    assert format_value([0.1] * 100).endswith("… (100)")
