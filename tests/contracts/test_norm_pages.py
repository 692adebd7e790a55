"""The pages on norms and solvers are followed to the letter: write the file, run what is said."""

import re
import runpy

import pytest

from tests.house.tree import ROOT

PAGES = ("adding-a-norm.md", "adding-a-solver.md")
MARKED = re.compile(r"<!-- (write: (\S+)|run) -->\n```python\n(.*?)^```$", re.S | re.M)
# Lines of a file that a reader types.
LONGEST = 40


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = [(m[2] or "script.py", m[3]) for m in MARKED.finditer(text)]
    assert len(blocks) == 2
    for file, code in blocks:
        assert len(code.splitlines()) <= LONGEST
        (tmp_path / file).write_text(code, "utf-8")
    runpy.run_path("script.py")
