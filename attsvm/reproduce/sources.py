"""The code behind a record, named by a hash: a record of other code is not taken for this one."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def code_digest(module: str) -> str:
    """Sixteen hex digits that name the source of a module and of every one that it imports."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _imports(name)
    whole = hashlib.sha256()
    for name in sorted(seen):
        whole.update(_source(name))
    return whole.hexdigest()[:16]


@cache
def _source(module: str) -> bytes:
    spec = find_spec(module)
    return b"" if spec is None or spec.origin is None else Path(spec.origin).read_bytes()


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The package's modules that a module names in its imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attsvm"):
            base = str(node.module)
            found.add(base)
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("attsvm")}
    return tuple(name for name in found if _is_module(name))


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, AttributeError):
        return False
