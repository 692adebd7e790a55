"""The digest of a claim's code: what changes it, and what does not."""

import ast
import itertools
import sys

import pytest

from attsvm._utils.objects import load_module
from attsvm.experiments import code_digest as sources
from attsvm.experiments.code_digest import bare_code, code_digest
from attsvm.experiments.reproduce import digest
from attsvm.experiments.studies import CLAIMS

CODE = '''# How far it goes.
"""Says what it does."""
from numpy import sqrt


class Far:
    """One that goes far."""

    def go(self, x):
        """The way."""
        return sqrt(x) + 2.5  # a reason
'''
_NUMBER = itertools.count()


@pytest.fixture
def digest_of(tmp_path):
    """The digest of a file with this content: each in a new place, since a module is read once."""

    def read(content, name="mine.py"):
        place = tmp_path / str(next(_NUMBER)) / name
        place.parent.mkdir()
        place.write_text(content)
        return code_digest(load_module(place).__name__)

    return read


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("# How far it goes.", "# How far it went, and why.", False),
        ("Says what it does.", "Says what it will do.", False),
        ('    """One that goes far."""\n', "", False),
        ("The way.", "Another way.", False),
        ("  # a reason", "", False),
        ("sqrt(x) + 2.5", "sqrt( x )+ 2.5", False),
        ("2.5", "2.6", True),
        ("go(", "walk(", True),
        (") +", ") -", True),
    ],
)
def test_code_counts_and_comments_docstrings_and_layout_do_not(digest_of, old, new, counts):
    assert old in CODE
    assert (digest_of(CODE.replace(old, new)) != digest_of(CODE)) == counts


def test_a_text_that_is_no_docstring_counts(digest_of):
    assert digest_of("x = 'one'") != digest_of("x = 'two'")
    assert ast.unparse(bare_code("def f():\n    x = 1\n    'two'")).endswith("'two'")


def test_a_body_of_a_docstring_alone_can_be_read(digest_of):
    assert digest_of("def f():\n    'one'") == digest_of("def f():\n    'two'")


def test_a_changed_import_of_ones_own_changes_the_digest(tmp_path, monkeypatch):
    """The importing file is the same: only what it imports differs."""
    seen = set()
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "beside_it").mkdir()
        (folder / "beside_it" / "__init__.py").write_text("from .inner import x")
        (folder / "beside_it" / "inner.py").write_text(f"x = {number}")
        (folder / "mine.py").write_text("from beside_it import x")
        with monkeypatch.context() as inside:
            inside.syspath_prepend(folder)
            inside.delitem(sys.modules, "beside_it", raising=False)
            module = load_module(folder / "mine.py").__name__
            clear()
            seen.add(code_digest(module))
    clear()
    assert len(seen) == 2


def clear():
    """Forget what was read: a module keeps its code while a process runs."""
    sources._read.cache_clear()
    sources._file.cache_clear()


def test_installed_libraries_do_not_count(digest_of):
    assert digest_of("import numpy as x") != digest_of("import json as x")
    assert code_digest("numpy") == code_digest("json") == code_digest("no_such_module")


def test_what_a_claim_imports_counts():
    claim = CLAIMS["A.single-input-global"]
    assert digest(claim) == digest(CLAIMS["A.single-input-local"]), "they share a file"
    assert digest(claim) != digest(CLAIMS["A.multi-input"])


@pytest.mark.parametrize("line", ["import attsvm.errors", "x = 'attsvm.errors'"])
def test_modules_of_the_package_count(digest_of, line, monkeypatch):
    before = digest_of(line)
    read = sources._read
    monkeypatch.setattr(
        sources, "_read", lambda name: (b"new", ()) if name == "attsvm.errors" else read(name)
    )
    assert digest_of(line) != before
