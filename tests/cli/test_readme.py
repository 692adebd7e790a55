"""The README from top to bottom: its program and every one of its commands run as they are written.

Commands are run in order in one empty folder, so that each finds the file it needs where an earlier
one left it. What would take long is run in a smaller form, listed here by the words of the README.
"""

import contextlib
import io
import re
import runpy
import shlex
import sys

import pytest

from tests.cli.command import runner
from tests.conventions.tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")

# As the README has it -> as it is run here.
SMALLER = {
    "reproduce --out report": "reproduce A.single-input-global --quick --jobs 1 --out report",
    "reproduce B --first 424242 --out fresh": (
        "reproduce B.rank --quick --jobs 1 --first 424242 --out fresh"
    ),
    "reproduce --audit --out report": "reproduce --audit --jobs 1 --out report",
}
# Minutes of work of their own, and tested elsewhere: tests/torch, tests/experiments/studies/real,
# tests/experiments, tests/experiments/counterexamples, tests/inspection.
ELSEWHERE = {
    "fit text --optimizer mirror --p 1.1",
    "inspect minilm --quick --out heads",
    "sweep separability --quick --out map",
    "hunt equal-scores --seconds 60 --out found",
}
# Standard output in which a number is no matter of course.
NUMBER = re.compile(r"\d+\.?\d*(?:e[-+]?\d+)?")


def commands() -> list[list[str]]:
    """The words of every command under the heading 'Command line', comments left out."""
    section = README.split("\n## Command line\n")[1].split("\n## ")[0]
    block = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    written = [part for line in block for part in line.split("  #")[0].split(" · ")]
    return [shlex.split(part) for part in written]


def test_the_programs_run_and_the_first_prints_what_it_says():
    first, *more = re.findall(r"^```python\n(.*?)^```$", README, re.S | re.M)
    session, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(first, "README.md", "exec"), session)
    said = re.findall(r"^print\(.*?\)  # (.*)$", first, re.M)
    printed = out.getvalue().splitlines()
    assert len(said) == len(printed) > 0
    for promise, line in zip(said, printed, strict=True):
        promise = promise.partition(":")[0] if promise.startswith("True") else promise
        assert NUMBER.sub("#", promise) == NUMBER.sub("#", line)
        for a, b in zip(NUMBER.findall(promise), NUMBER.findall(line), strict=True):
            assert float(a) == pytest.approx(float(b), rel=1e-6, abs=1e-6)
    for block in more:
        if "inspect(" not in block:  # tests/site/test_extras.py
            exec(compile(block, "README.md", "exec"), session)
    assert session["proof"].theorem and session["path"]


def test_every_command_runs_where_the_one_before_it_left_off(capsys, monkeypatch, tmp_path):
    run = runner(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    done = []
    for first, *words in commands():
        line = " ".join(words)
        if line in ELSEWHERE:
            pass
        elif first == "attsvm":
            asked = SMALLER.get(line, line)
            found = run(*shlex.split(asked))
            assert found.code in ((0, 5) if words[0] == "reproduce" else (0,)), (line, found)
        else:
            script = words[0]
            monkeypatch.setattr(sys, "argv", words)
            with contextlib.suppress(SystemExit):
                runpy.run_path(str(ROOT / script), run_name="__main__")
            assert "ok" in capsys.readouterr().out.lower(), words
        done.append(line)
    assert len(done) > 15
    assert set(SMALLER) | ELSEWHERE <= set(done), "a line listed here is no longer in the README"
    assert {"run.svg", "run.npz", "proof.npz"} <= {path.name for path in tmp_path.iterdir()}
