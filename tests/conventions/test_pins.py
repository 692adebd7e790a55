"""A reproducible install: everything the project asks for has one exact version, from anywhere."""

import re
import tomllib

from tests.conventions.tree import ROOT

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    """Name -> version of every line of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.partition("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, _, version in pairs}


def test_every_line_is_one_exact_version():
    loose = {name: version for name, version in pins().items() if not re.match(r"\d", version)}
    assert not loose, f"constraints.txt takes lines NAME==VERSION only: {loose}"


def test_every_requirement_is_pinned():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    asked = [*settings["build-system"]["requires"], *project["dependencies"]]
    asked += [line for extra in project["optional-dependencies"].values() for line in extra]
    missing = {
        NAME.match(line)[0] for line in asked if canonical(NAME.match(line)[0]) not in pins()
    }
    assert not missing, f"no exact version in constraints.txt: {sorted(missing)}"


def test_no_package_index_is_named():
    """Where packages come from is the machine's own setting."""
    for name in ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run"):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(r"://|--(?:extra-)?index|--find-links", text), name
