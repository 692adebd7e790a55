"""Pages whose programs run: they print what the pages say; and the table of limits is current."""

import pytest

from tests.conventions.tree import show
from tests.site import limits
from tests.site.tutorial import PAGES, PAIR, PROGRAM, printed, refreshed, said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_programs_print_what_the_page_says(path):
    text = path.read_text("utf-8")
    told, found = printed(text), said(text)
    assert told
    assert found == told, f"run `python -m tests.site.tutorial`: {show(path)} says something else"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_program_has_its_output(path):
    text = path.read_text("utf-8")
    assert len(PAIR.findall(text)) == len(PROGRAM.findall(text))


def test_the_tutorial_has_seven_steps():
    text = next(path for path in PAGES if path.stem == "tutorial").read_text("utf-8")
    assert [line[3] for line in text.splitlines() if line[:3] == "## " and line[3].isdigit()] == [
        str(k) for k in range(1, 8)
    ]


def test_a_stale_output_is_seen():
    page = "```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n"
    assert printed(page) == ["3\n"] and said(page) == ["2\n"]
    assert printed(refreshed(page)) == ["2\n"]


def test_the_table_of_limits_is_current():
    text = limits.PAGE.read_text("utf-8")
    assert limits.PLACE.search(text)
    assert limits.refreshed(text) == text, "run `python -m tests.site.tutorial`"
