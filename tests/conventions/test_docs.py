"""The pages: source blocks, names, files and links are those of the project as it is."""

import ast
import importlib
import re
from importlib.util import find_spec

import pytest

from tests.conventions.included import pages, refreshed, source
from tests.conventions.tree import ROOT, show, texts

# Names in code spans: with the package in front, or as a member of one of the nouns.
NOUNS = {
    "Tokens": "attsvm.problem.tokens",
    "Selection": "attsvm.problem.selection",
    "Problem": "attsvm.problem.problem",
    "Certificate": "attsvm.certificate",
    "Norm": "attsvm.norms.norm",
}
SPAN = re.compile(r"`([^`\n]+)`")
MEMBER = re.compile(rf"\b({'|'.join(NOUNS)})\.([A-Za-z_]\w*)")
DOTTED = re.compile(r"`(attsvm(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
FILE = re.compile(r"`((?:attsvm|tests|docs|examples|benchmarks)/[\w./-]*)`")
TARGET = re.compile(r"`make ([a-z-]+)`")
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def prose() -> dict[str, str]:
    """Every Markdown page of the project."""
    return {show(path): text for path, text in texts().items() if path.suffix == ".md"}


def named(text: str) -> set[str]:
    """The dotted names of the package that the code spans of a page mention."""
    spans = SPAN.findall(text)
    members = {pair for span in spans for pair in MEMBER.findall(span)}
    return set(DOTTED.findall(text)) | {f"{NOUNS[noun]}.{noun}.{name}" for noun, name in members}


def exists(dotted: str) -> bool:
    """Whether a dotted name leads somewhere: a module, or an attribute (or field) of one."""
    parts = dotted.split(".")
    if parts[:2] == ["attsvm", "torch"] and not find_spec("torch"):  # what its door says it has
        door = (ROOT / "attsvm/torch/__init__.py").read_text("utf-8")
        listed = ast.literal_eval(door.split("__all__ = ")[1])
        return all(part in listed for part in parts[2:3])
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            thing = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            declared = getattr(thing, "__annotations__", {})
            if part not in declared and not hasattr(thing, part):
                return False
            thing = getattr(thing, part, None)
        return True
    return False


def test_source_blocks_are_current():
    stale = [show(p) for p in pages() if refreshed(text := p.read_text("utf-8")) != text]
    assert not stale, f"run `make docs`: the source changed under {stale}"


def test_named_things_exist():
    missing = {
        (page, name) for page, text in prose().items() for name in named(text) if not exists(name)
    }
    assert not missing, f"pages name what the package lacks: {sorted(missing)}"


def test_named_files_and_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for page, text in prose().items():
        missing = {name for name in FILE.findall(text) if not (ROOT / name).exists()}
        missing |= set(TARGET.findall(text)) - targets
        assert not missing, f"{page} names files or targets that are not there: {missing}"


def test_links_lead_somewhere():
    broken = {
        (page, link)
        for page, text in prose().items()
        for link in LINK.findall(FENCED.sub("", text))
        if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()
    }
    assert not broken, f"broken links: {sorted(broken)}"


def test_a_missing_name_is_seen():
    assert named("`solve(Problem.of(t, k))` and Problem.x") == {"attsvm.problem.problem.Problem.of"}
    assert exists("attsvm.references.Reference.authors")
    assert not exists("attsvm.references.Reference.publisher")
    with pytest.raises(ValueError, match="binds no top-level name"):
        source("attsvm/_utils/version.py", "nothing")
