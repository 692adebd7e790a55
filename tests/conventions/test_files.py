"""File names say what is inside, and nothing of one machine is left in them."""

import re
from pathlib import Path

from tests.conventions.tree import ROOT, files, show, texts

# Names that say nothing about what is inside; the package attsvm._utils and its tests excepted.
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "misc", "manager"}
UTILS = {("attsvm", "_utils"), ("tests", "utils")}

# Folders that exist on one machine only; a web address or a relative path does not match.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/])(?:/(?:home|root|work|farm|Users|private|mnt)/[\w.]|/tmp/\w|/opt/\w|[A-Z]:\\\w)"
)
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")


def empty_words(path: Path) -> set[str]:
    """The words of a path that say nothing."""
    parts = path.with_suffix("").parts
    if parts[:2] in UTILS:
        parts = parts[2:]
    words = {word for part in parts for word in part.lower().split("_")}
    return words & EMPTY_NAMES


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """`file:line: text` of every line in the project that matches."""
    return [
        f"{show(path)}:{number}: {line.strip()}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_names_say_something():
    bad = [show(path) for path in files() if empty_words(path.relative_to(ROOT))]
    assert not bad, f"name these after the noun or the algorithm inside: {bad}"


def test_no_machine_paths():
    found = lines_with(MACHINE_PATH)
    assert not found, "paths of one machine:\n" + "\n".join(found)


def test_nothing_is_marked_unfinished():
    found = lines_with(UNFINISHED)
    assert not found, "unfinished:\n" + "\n".join(found)
