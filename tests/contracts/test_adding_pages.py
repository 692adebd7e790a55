"""The pages on parts of one's own are followed to the letter: write the files, run what is said."""

import re
import runpy
import shlex

import pytest

from tests.cli.command import runner
from tests.conventions.tree import ROOT

PAGES = (
    "adding-an-optimizer.md",
    "adding-a-model.md",
    "adding-a-head.md",
    "adding-a-norm.md",
    "adding-a-solver.md",
)
MARKED = re.compile(r"<!-- (write: (\S+)|run|shell) -->\n```\w+\n(.*?)^```$", re.S | re.M)


def steps(page):
    """(kind, file, text) of every block that is to be done, from top to bottom."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return [(m[1].split(":")[0], m[2], m[3]) for m in MARKED.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    attsvm = runner(capsys, monkeypatch)
    found = steps(page)
    assert [kind for kind, _, _ in found][:2] == ["write", "run"]
    for kind, file, text in found:
        if kind == "write":
            (tmp_path / file).write_text(text, "utf-8")
        elif kind == "run":
            (tmp_path / "script.py").write_text(text, "utf-8")
            runpy.run_path(str(tmp_path / "script.py"))
        else:
            for line in text.splitlines():
                first, *words = shlex.split(line)
                assert first == "attsvm"
                done = attsvm(*words)
                assert done.code == 0, (line, done)
