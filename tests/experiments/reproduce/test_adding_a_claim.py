"""docs/adding-a-claim.md followed to the letter: its file is written, its commands are run."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.test_adding_pages import steps
from tests.conventions.tree import PACKAGE, ROOT

PAGE = (ROOT / "docs" / "adding-a-claim.md").read_text("utf-8")


(_, _, FILE), (_, _, SHELL) = steps("adding-a-claim.md")
COMMANDS = SHELL.splitlines()


@pytest.fixture
def written(run):
    """The run fixture, in a folder that holds the file of the page."""
    Path("mine.py").write_text(FILE)
    return run


def test_every_command_of_the_page_does_what_it_says(written):
    seen = {}
    for line in COMMANDS:
        program, *words = shlex.split(line)
        assert program == "attsvm"
        seen[line] = written(*words)
        assert seen[line].code == 0, (line, seen[line])
    listed, done, shown, audited = seen.values()
    assert "mine.one-input" in listed.out and "not run" not in listed.out
    assert "1 claim: 1 holds\npage: attsvm-report/report.html\n" in done.out
    assert "Verdict: holds (quick)" in shown.out
    assert "1 of 1 claim agree with their rerun" in audited.out
    page = Path("attsvm-report/report.html").read_text("utf-8")
    assert "mine.one-input" in page and "data:image/svg+xml" in page


def test_the_example_is_short_and_fails_when_it_should(written):
    assert len(FILE.splitlines()) <= 60
    Path("mine.py").write_text(FILE.replace('"cosine": 0.99}', '"cosine": 1.01}'))
    assert written("reproduce", "--from", "mine.py", "--quick").code == 5


def test_the_steps_into_the_package(tmp_path):
    """The file moved into a copy of the package, and its one line added, is a claim of it."""
    place = tmp_path / "attsvm"
    shutil.copytree(PACKAGE, place)
    line = re.search(r"^   (\"beyond\.one-input\": one_input\.CLAIM,)$", PAGE, re.M)
    assert line, "the page shows the line of the registry"
    panels = "from attsvm.experiments.studies.shared.drawing import panels\n"
    text = FILE.replace("mine.one-input", "beyond.one-input").replace(panels, "")
    text = text.replace("    figure, (axes,) =", f"    {panels}\n    figure, (axes,) =")
    (place / "experiments" / "studies" / "beyond" / "one_input.py").write_text(text)
    door = place / "experiments" / "studies" / "beyond" / "__init__.py"
    lines = door.read_text("utf-8").replace(
        "    logit_ceiling,\n", "    logit_ceiling,\n    one_input,\n"
    )
    door.write_text(re.sub(r"\n}\n$", f"\n    {line[1]}\n}}\n", lines))
    ast.parse(door.read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, "-m", "attsvm", "reproduce", "beyond.one-input", "--quick"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "1 claim: 1 holds" in done.stdout
