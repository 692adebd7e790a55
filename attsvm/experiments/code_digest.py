"""The code behind a record, named by a hash: a record of other code is not taken for this one.

Comments, docstrings and layout do not count. What a module imports does, as far as it is this
package's or the user's own: installed libraries are left out.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipimport import zipimporter

# Folders of installed libraries.
_INSTALLED = tuple(
    Path(place).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (place := sysconfig.get_path(name))
)
_DOTTED = re.compile(r"attsvm(\.\w+)+")


def code_digest(module: str) -> str:
    """Sixteen hex digits that name the code of a module and of every one that it imports."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _read(name)[1]
    whole = hashlib.sha256()
    for name in sorted(seen):
        whole.update(_read(name)[0])
    return whole.hexdigest()[:16]


def bare_code(source: str) -> ast.Module:
    """The syntax tree of a text without its docstrings; comments are not in a tree at all."""
    tree = ast.parse(source)
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree


@cache
def _read(module: str) -> tuple[bytes, tuple[str, ...]]:
    """(a hash of the module's code, the modules it imports whose code counts)."""
    file = _file(module)
    if file is None:
        return b"", ()
    tree = bare_code(file.read_text("utf-8"))
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names = sorted({name for name in _names(tree, package) if _file(name) is not None})
    return hashlib.sha256(ast.dump(tree).encode()).digest(), tuple(names)


def _names(tree: ast.Module, package: str) -> Iterator[str]:
    """What may be a module: every name imported, and every text that is a dotted name of ours.

    Texts count because modules are also loaded by name, when they are first used.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                parts = package.split(".")[: 1 - level or None] if level else []
                whole = ".".join([*parts, *([base] if base else [])])
                yield whole
                yield from (f"{whole}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
                yield text


@cache
def _file(module: str) -> Path | zipfile.Path | None:
    """The file of a module whose code counts; None for installed libraries, and for no module."""
    top, *inner = module.split(".")
    place = _place(top)
    if place is None or (top != "attsvm" and _installed(place)):
        return None
    if not inner:
        return place
    if place.name != "__init__.py":
        return None
    *above, last = inner
    whole: Any = place.parent
    folder = whole.joinpath(*above)
    files = (folder / f"{last}.py", folder / last / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _installed(place: Path | zipfile.Path) -> bool:
    """Whether this is of an installed library."""
    return not isinstance(place, Path) or any(map(place.is_relative_to, _INSTALLED))


def _place(top: str) -> Path | zipfile.Path | None:
    """The file of a module that is in no package; None when it is built in or not there."""
    if top in sys.modules:
        name = getattr(sys.modules[top], "__file__", None)
        loader = getattr(sys.modules[top], "__loader__", None)
    else:
        spec = find_spec(top)
        name = None if spec is None or not spec.has_location else spec.origin
        loader = None if spec is None else spec.loader
    if not name or not name.endswith(".py"):
        return None
    if isinstance(loader, zipimporter):  # such as a wheel that is on the path as it is
        return zipfile.Path(loader.archive, Path(name).relative_to(loader.archive).as_posix())
    return Path(name).resolve()
