"""Pages whose programs run: they print what the pages say; and the table of limits is current."""

import pytest

from tests.conventions.tree import show
from tests.site import limits
from tests.site.tutorial import PAGES, printed, said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_programs_print_what_the_page_says(path):
    text = path.read_text("utf-8")
    told, found = printed(text), said(text)
    assert told
    assert found == told, f"run `python -m tests.site.tutorial`: {show(path)} says something else"


def test_the_table_of_limits_is_current():
    text = limits.PAGE.read_text("utf-8")
    assert limits.PLACE.search(text)
    assert limits.refreshed(text) == text, "run `python -m tests.site.tutorial`"
