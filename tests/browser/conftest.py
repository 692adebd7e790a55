"""The browser that the tests of pages share."""

import os

import pytest

from tests.browser.chromium import NAMES, browser, found


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A browser that every test of this module uses."""
    program = found()
    if program is None:
        reason = f"no browser: none of {', '.join(NAMES)} is installed"
        if os.environ.get("ATTSVM_REQUIRE_BROWSER", "") not in ("", "0"):
            pytest.fail(reason)
        pytest.skip(reason)
    with browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab
