"""Citations: every key is in the bibliography, and the bibliography holds nothing unused."""

import ast
import re

import pytest

from attsvm.references import REFERENCES
from tests.conventions.tree import ROOT, modules, show, texts

# A key is a word with a year in it: [lawson1974nnls]. Maths in brackets has no such word.
CITED = re.compile(r"\[([A-Za-z][A-Za-z-]*\d{4}\w*)\]")
KEY = re.compile(r"[a-z]+\d{4}[a-z]+")


def docstrings(tree: ast.Module) -> list[str]:
    """Every docstring of a module: its own, its classes' and its functions'."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for text in found if text]


def theory_paragraphs(text: str) -> list[str]:
    """The paragraphs of a docstring that begin with `Theory:`."""
    return [part for part in re.split(r"\n\s*\n", text) if part.lstrip().startswith("Theory:")]


def unsourced(trees: dict[str, ast.Module]) -> list[str]:
    """`Theory:` paragraphs that cite nothing."""
    return [
        f"{name}: {' '.join(paragraph.split())[:80]}"
        for name, tree in trees.items()
        for text in docstrings(tree)
        for paragraph in theory_paragraphs(text)
        if not CITED.search(paragraph)
    ]


def cited() -> dict[str, list[str]]:
    """Key -> the files of attsvm/, docs/ and the root's pages that cite it."""
    found: dict[str, list[str]] = {}
    for path, text in texts().items():
        name = show(path)
        in_library = name.startswith("attsvm/") and name != "attsvm/references.py"
        if in_library or name.startswith("docs/") or (path.parent == ROOT and path.suffix == ".md"):
            for key in set(CITED.findall(text)):
                found.setdefault(key, []).append(name)
    return found


def test_every_citation_is_known():
    unknown = {key: where for key, where in cited().items() if key not in REFERENCES}
    assert not unknown, f"not in attsvm/references.py (a misspelt key, or add it): {unknown}"


def test_every_reference_is_used():
    unused = sorted(set(REFERENCES) - set(cited()))
    assert not unused, f"cited nowhere in attsvm/ or docs/ (cite or remove): {unused}"


def test_every_theory_paragraph_cites():
    found = unsourced(modules())
    assert not found, "`Theory:` without a [key] of attsvm/references.py:\n" + "\n".join(found)


@pytest.mark.parametrize("key", REFERENCES)
def test_reference_is_well_formed(key):
    reference = REFERENCES[key]
    assert KEY.fullmatch(key), "a key is name, year, word: lawson1974nnls"
    assert f"{reference.year}" in key
    surname = reference.authors.split(",")[0].split()[-1].lower()
    assert key.startswith(surname), f"{key} does not begin with the first author, {surname}"
    assert reference.title and reference.where
